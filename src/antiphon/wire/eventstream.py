"""Amazon's event stream: messages with a length, headers and two checksums, over plain bytes.

A message is: u32 length of it all, u32 length of the headers, CRC-32 of these two, the headers, the
payload, CRC-32 of everything before. Numbers are big-endian.

1. Where the network cuts is of no consequence: the same bytes give the same frames.
2. Every byte is copied and summed a fixed number of times, however small the pieces.
3. Both checksums are checked. A stream that breaks its own form cannot be picked up again: what was
   whole before is delivered, then one frame named `BROKEN` says why, then nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias
from zlib import crc32

import msgspec

from antiphon.errors import BrokenEventStream
from antiphon.wire.sse import Frame

HeaderValue: TypeAlias = bool | int | str | bytes

BROKEN = "!broken"
"""The name of the frame that ends a broken stream; its data is the reason."""
EXCEPTION = "exception:"
"""What stands before the type of an exception in the name of its frame."""

_PRELUDE = 12
_CHECKSUM = 4
_MOST_HEADERS = 128 * 1024
_MOST_PAYLOAD = 24 * 1024 * 1024  # the protocol's own limit: a length beyond it is a mistake


class EventStreamDecoder:
    """Bytes in, frames out. An event's frame bears its type, an exception's `exception:` and it."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._need = _PRELUDE  # bytes until the next thing can be read: a prelude or a message
        self._broken = False

    def feed(self, chunk: bytes) -> list[Frame]:
        if self._broken:
            return []
        self._buffer += chunk
        frames: list[Frame] = []
        try:
            self._read(frames)
        except BrokenEventStream as error:
            frames.append(self._end(str(error)))
        return frames

    def close(self) -> list[Frame]:
        if self._broken or not self._buffer:
            return []
        return [self._end("The stream ends inside of a message.")]

    def _end(self, reason: str) -> Frame:
        self._broken = True
        self._buffer.clear()
        return Frame(reason.encode(), BROKEN)

    def _read(self, frames: list[Frame]) -> None:
        """Every whole message in the buffer, which then keeps only what is left."""
        at = 0
        while len(self._buffer) - at >= self._need:
            if self._need == _PRELUDE:  # a message is longer, be it empty
                self._need = _length(bytes(self._buffer[at : at + _PRELUDE]))
                continue
            frames.append(_frame(bytes(self._buffer[at : at + self._need])))
            at += self._need
            self._need = _PRELUDE
        del self._buffer[:at]


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _length(prelude: bytes) -> int:
    """The length of the message that begins so."""
    if crc32(prelude[:8]) != _number(prelude[8:]):
        raise BrokenEventStream("The checksum of a message's prelude is wrong.")
    total, headers = _number(prelude[:4]), _number(prelude[4:8])
    payload = total - headers - _PRELUDE - _CHECKSUM
    if headers > _MOST_HEADERS or not 0 <= payload <= _MOST_PAYLOAD:
        raise BrokenEventStream("A message has an impossible length.")
    return total


def _frame(message: bytes) -> Frame:
    content = message[:-_CHECKSUM]
    if crc32(content) != _number(message[-_CHECKSUM:]):
        raise BrokenEventStream("The checksum of a message is wrong.")
    end = _PRELUDE + _number(message[4:8])
    return _named(read_headers(content[_PRELUDE:end]), content[end:])


def _named(headers: Mapping[str, HeaderValue], payload: bytes) -> Frame:
    kind = _text(headers, ":message-type")
    if kind == "exception":
        return Frame(payload, EXCEPTION + _text(headers, ":exception-type"))
    if kind == "error":  # one that the service had no shape for: all of it is in the headers
        document = {"message": _text(headers, ":error-message")}
        return Frame(msgspec.json.encode(document), EXCEPTION + _text(headers, ":error-code"))
    return Frame(payload, _text(headers, ":event-type"))


def _text(headers: Mapping[str, HeaderValue], name: str) -> str:
    value = headers.get(name)
    return value if isinstance(value, str) else ""


# Headers: a byte for the length of the name, the name, a byte for the type, the value.

_BYTES, _STRING = 6, 7
_BOOLEANS = {0: True, 1: False}
_NUMBERS = {2: 1, 3: 2, 4: 4, 5: 8, 8: 8}  # type → size; the last is a time in milliseconds
_UUID, _UUID_SIZE = 9, 16


def read_headers(data: bytes) -> dict[str, HeaderValue]:
    """All headers of a message by their names; raises `ValueError` if that is not what they are."""
    reader = _HeaderReader(data)
    headers: dict[str, HeaderValue] = {}
    while reader.left:
        name = reader.text(reader.number(1))
        headers[name] = _value(reader.number(1), reader)
    return headers


def _value(kind: int, reader: _HeaderReader) -> HeaderValue:
    if kind in _BOOLEANS:
        return _BOOLEANS[kind]
    if kind in _NUMBERS:
        return int.from_bytes(reader.take(_NUMBERS[kind]), "big", signed=True)
    if kind == _STRING:
        return reader.text(reader.number(2))
    if kind == _BYTES:
        return reader.take(reader.number(2))
    if kind == _UUID:
        return reader.take(_UUID_SIZE)
    raise BrokenEventStream("A header has an unknown type.")


class _HeaderReader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise BrokenEventStream("A header is cut off.")
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, size: int) -> int:
        return _number(self.take(size))

    def text(self, size: int) -> str:
        return self.take(size).decode("utf-8", "replace")
