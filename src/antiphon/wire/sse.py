"""Framing: bytes of a stream into frames, events into bytes of a stream.

1. Where the network cuts is of no consequence: the same bytes give the same frames.
2. Only CR, LF and CRLF end a line. All work is on bytes, so U+2028 and its like stay data.
3. Every byte is scanned once and copied a fixed number of times, however small the pieces.
4. What a server left unfinished when it hung up is still delivered: real ones end so.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec

DONE = b"data: [DONE]\n\n"

_BOM = b"\xef\xbb\xbf"
_LF, _CR = b"\n\r"
_encode = msgspec.json.Encoder().encode


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One message of a stream; the payload stays bytes, which is what a JSON decoder wants."""

    data: bytes
    event: str = ""


class _LineSplitter:
    """Bytes in, finished lines out, without their ends and without a leading BOM."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []  # of the unfinished line, joined once it is finished
        self._at_start = True
        self._after_cr = False

    def feed(self, chunk: bytes) -> list[bytes]:
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")  # the other half of a CRLF that was cut in two
        if not chunk:
            return []
        lines = chunk.splitlines()  # for bytes these are CR, LF and CRLF, nothing else
        last = chunk[-1]
        if last == _CR:
            self._after_cr = True
        elif last != _LF:
            return self._joined(lines[:-1], rest=lines[-1])
        if self._pieces or self._at_start:
            return self._joined(lines)
        return lines

    def _joined(self, lines: list[bytes], rest: bytes = b"") -> list[bytes]:
        """Put the held pieces before the first finished line; hold the rest."""
        if lines:
            self._pieces.append(lines[0])
            lines[0] = b"".join(self._pieces)
            self._pieces.clear()
            if self._at_start:
                self._at_start = False
                lines[0] = lines[0].removeprefix(_BOM)
        if rest:
            self._pieces.append(rest)
        return lines


class SSEDecoder:
    """Server-sent events as the standard reads them, but for two things that real servers do.

    The last event needs no blank line, and an event whose data is empty says nothing: it is
    dropped like one without data, since some keep a line alive with it.
    """

    def __init__(self) -> None:
        self.comments = 0  # servers write comments to say that they are still there
        self._lines = _LineSplitter()
        self._data: list[bytes] = []
        self._event = ""

    def feed(self, chunk: bytes) -> list[Frame]:
        frames: list[Frame] = []
        data = self._data
        for line in self._lines.feed(chunk):
            if not line:
                if payload := b"\n".join(data):
                    frames.append(Frame(payload, self._event))
                data.clear()
                self._event = ""
            elif line[:6] == b"data: ":
                data.append(line[6:])
            else:
                self._field(line)
        return frames

    def close(self) -> list[Frame]:
        return self.feed(b"\n\n")  # the ends of line and frame that the server owed us

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
        elif name == b"event":
            self._event = value.removeprefix(b" ").decode("utf-8", "replace")
        elif not name:
            self.comments += 1


class NDJSONDecoder:
    """Newline-delimited JSON: every line that is not blank is a frame."""

    def __init__(self) -> None:
        self._lines = _LineSplitter()

    def feed(self, chunk: bytes) -> list[Frame]:
        return [Frame(line) for line in self._lines.feed(chunk) if line.strip()]

    def close(self) -> list[Frame]:
        return self.feed(b"\n")


class SSEEncoder:
    """Events in, bytes of the stream out; the only keeper of sequence numbers."""

    def __init__(self) -> None:
        self.sequence_number = 0  # of the next event

    def feed(self, events: Sequence[msgspec.Struct]) -> bytes:
        pieces: list[bytes] = []
        for event in events:
            opening, length = _opening(type(event))
            body = _encode(event)[length:]
            pieces.append(b"%b%d%b\n\n" % (opening, self.sequence_number, body))
            self.sequence_number += 1
        return b"".join(pieces)


@cache
def _opening(kind: type[msgspec.Struct]) -> tuple[bytes, int]:
    """What stands before the number in a frame, and the length of the JSON it replaces."""
    config = kind.__struct_config__
    if config.tag_field != "type" or not isinstance(config.tag, str):
        raise TypeError(f"{kind.__name__} is no event: its JSON does not open with a type")
    head = _encode({"type": config.tag})[:-1]
    return b'event: %b\ndata: %b,"sequence_number":' % (config.tag.encode(), head), len(head)


def wire_document(event: msgspec.Struct, sequence_number: int) -> dict[str, Any]:
    """The event as a client parses it: through JSON, so only plain dicts and lists are left."""
    document: dict[str, Any] = msgspec.json.decode(_encode(event))
    return {"type": document["type"], "sequence_number": sequence_number} | document
