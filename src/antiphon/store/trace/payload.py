"""Payloads of traced streams: counted, redacted and truncated at the end of a frame."""

from __future__ import annotations

from msgspec.structs import replace

from antiphon.store.redact import Redactor
from antiphon.store.trace.rows import TraceStream

_MARGIN = 16 * 1024  # longer than any secret: one that is cut in two cannot be recognised
_FRAME_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")


def add_counts(stream: TraceStream) -> TraceStream:
    """Return the stream with `size` and `chunks` set from its payload."""
    return replace(stream, size=len(stream.blob), chunks=len(stream.offsets))


def drop_payload(stream: TraceStream) -> TraceStream:
    """Return the stream with its counts but without its payload."""
    return replace(add_counts(stream), blob=b"", offsets=())


def redact_and_truncate(stream: TraceStream, redactor: Redactor, max_bytes: int) -> TraceStream:
    """Return the stream without secrets and with at most `max_bytes` of payload."""
    head = stream.blob[: max_bytes + 2 * _MARGIN]  # the rest is dropped unread
    blob, offsets = redactor.redact_blob(head, stream.offsets)
    if len(head) < len(stream.blob):
        max_bytes = max(0, min(max_bytes, len(blob) - _MARGIN))
    stored = truncate_blob(blob, max_bytes)
    return replace(
        stream,
        blob=stored,
        offsets=[(offset, at_ms) for offset, at_ms in offsets if offset < len(stored)],
        truncated=len(stored) < len(blob),
    )


def truncate_blob(blob: bytes, max_bytes: int) -> bytes:
    """Truncate to the last whole SSE frame or, if there is none, to a whole UTF-8 character."""
    if len(blob) <= max_bytes:
        return blob
    head = blob[:max_bytes]
    frame = max(head.rfind(end) + len(end) if end in head else 0 for end in _FRAME_ENDS)
    if frame:
        return head[:frame]
    end = max_bytes
    while end and max_bytes - end < 3 and blob[end] & 0xC0 == 0x80:  # inside a UTF-8 sequence
        end -= 1
    return blob[:end]
