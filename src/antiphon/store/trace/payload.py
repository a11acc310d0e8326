"""What is kept of a stream: nothing, or as much as is allowed, without secrets and whole frames."""

from __future__ import annotations

from msgspec.structs import replace

from antiphon.store.redact import Redactor
from antiphon.store.trace.rows import TraceStream

_EDGE = 16 * 1024  # longer than any secret: one that is cut in two at the end is not recognised
_FRAME_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")


def counted(stream: TraceStream) -> TraceStream:
    """The stream with its measures, however little of it will be kept."""
    return replace(stream, size=len(stream.blob), chunks=len(stream.offsets))


def emptied(stream: TraceStream) -> TraceStream:
    """Only the measures."""
    return replace(counted(stream), blob=b"", offsets=())


def kept(stream: TraceStream, redactor: Redactor, max_bytes: int) -> TraceStream:
    """The stream without secrets and not longer than allowed."""
    head = stream.blob[: max_bytes + 2 * _EDGE]  # the rest need not even be looked at
    blob, offsets = redactor.blob(head, stream.offsets)
    if len(head) < len(stream.blob):
        max_bytes = max(0, min(max_bytes, len(blob) - _EDGE))
    short = cut(blob, max_bytes)
    return replace(
        stream,
        blob=short,
        offsets=[(offset, at_ms) for offset, at_ms in offsets if offset < len(short)],
        truncated=len(short) < len(blob),
    )


def cut(blob: bytes, max_bytes: int) -> bytes:
    """The beginning, up to the end of a frame if one ends there, else of a character."""
    if len(blob) <= max_bytes:
        return blob
    head = blob[:max_bytes]
    frame = max(head.rfind(end) + len(end) if end in head else 0 for end in _FRAME_ENDS)
    if frame:
        return head[:frame]
    end = max_bytes
    while end and max_bytes - end < 3 and blob[end] & 0xC0 == 0x80:  # in the middle of UTF-8
        end -= 1
    return blob[:end]
