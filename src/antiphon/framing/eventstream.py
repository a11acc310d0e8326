"""Decoder of Amazon's binary event stream (`application/vnd.amazon.eventstream`).

A message is: u32 length of the message, u32 length of the headers, CRC-32 of these two, the
headers, the payload, CRC-32 of everything before. Numbers are big-endian.

1. Chunk boundaries do not matter: the same bytes give the same frames.
2. Every byte is copied and checksummed a fixed number of times, however small the chunks.
3. Both checksums are checked. Decoding cannot resume after a malformed message: the frames before
   it are delivered, then one frame named `BROKEN` with the reason, then nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias
from zlib import crc32

import msgspec

from antiphon.errors import BrokenEventStream, ResponseTooLarge
from antiphon.framing.limits import DEFAULT_LIMITS
from antiphon.framing.sse import Frame

HeaderValue: TypeAlias = bool | int | str | bytes

BROKEN = "!broken"
"""The name of the last frame of a malformed stream; its data is the reason."""
EXCEPTION_PREFIX = "exception:"
"""Precedes the type of an exception in the name of its frame."""

_PRELUDE_BYTES = 12
_CHECKSUM_BYTES = 4
_MAX_HEADER_BYTES = 128 * 1024  # the protocol's own limit: a length beyond it is an error


class EventStreamDecoder:
    """Incremental decoder. A frame is named by its event type, or `exception:` and its type.

    A message of more than `max_bytes` raises `ResponseTooLarge`.
    """

    def __init__(self, max_bytes: int = DEFAULT_LIMITS.frame_bytes) -> None:
        self._buffer = bytearray()
        self._max_bytes = max_bytes
        self._need = _PRELUDE_BYTES  # the length of the next prelude, or of the whole message
        self._broken = False

    def feed(self, chunk: bytes) -> list[Frame]:
        if self._broken:
            return []
        self._buffer += chunk
        frames: list[Frame] = []
        try:
            self._read(frames)
        except BrokenEventStream as error:
            frames.append(self._fail(str(error)))
        return frames

    def close(self) -> list[Frame]:
        if self._broken or not self._buffer:
            return []
        return [self._fail("The stream ends inside a message.")]

    def _fail(self, reason: str) -> Frame:
        self._broken = True
        self._buffer.clear()
        return Frame(reason.encode(), BROKEN)

    def _read(self, frames: list[Frame]) -> None:
        """Decode every complete message in the buffer, and remove it from there."""
        start = 0
        while len(self._buffer) - start >= self._need:
            piece = bytes(self._buffer[start : start + self._need])
            if self._need != _PRELUDE_BYTES:  # every message is longer than its prelude
                frames.append(_decode_message(piece))
                start, self._need = start + self._need, _PRELUDE_BYTES
            elif (length := _message_length(piece)) <= self._max_bytes:
                self._need = length
            elif frames:  # they are delivered first; the next chunk raises
                break
            else:
                raise ResponseTooLarge("frame_bytes", self._max_bytes)
        del self._buffer[:start]


def _read_uint(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _message_length(prelude: bytes) -> int:
    """Read the length of a message from its prelude."""
    if crc32(prelude[:8]) != _read_uint(prelude[8:]):
        raise BrokenEventStream("The checksum of a message's prelude is wrong.")
    total, headers = _read_uint(prelude[:4]), _read_uint(prelude[4:8])
    payload = total - headers - _PRELUDE_BYTES - _CHECKSUM_BYTES
    if headers > _MAX_HEADER_BYTES or payload < 0:
        raise BrokenEventStream("The length of a message is invalid.")
    return total


def _decode_message(message: bytes) -> Frame:
    content = message[:-_CHECKSUM_BYTES]
    if crc32(content) != _read_uint(message[-_CHECKSUM_BYTES:]):
        raise BrokenEventStream("The checksum of a message is wrong.")
    end = _PRELUDE_BYTES + _read_uint(message[4:8])
    return _make_frame(read_headers(content[_PRELUDE_BYTES:end]), content[end:])


def _make_frame(headers: Mapping[str, HeaderValue], payload: bytes) -> Frame:
    message_type = _string_header(headers, ":message-type")
    if message_type == "exception":
        return Frame(payload, EXCEPTION_PREFIX + _string_header(headers, ":exception-type"))
    if message_type == "error":  # an unmodeled error: its headers hold all of it
        document = {"message": _string_header(headers, ":error-message")}
        name = EXCEPTION_PREFIX + _string_header(headers, ":error-code")
        return Frame(msgspec.json.encode(document), name)
    return Frame(payload, _string_header(headers, ":event-type"))


def _string_header(headers: Mapping[str, HeaderValue], name: str) -> str:
    value = headers.get(name)
    return value if isinstance(value, str) else ""


# A header: u8 length of the name, the name, u8 type of the value, the value.

_BYTES_TYPE, _STRING_TYPE = 6, 7
_BOOLEAN_TYPES = {0: True, 1: False}
_INTEGER_TYPES = {2: 1, 3: 2, 4: 4, 5: 8, 8: 8}  # type → bytes; 8 is a time in milliseconds
_UUID_TYPE, _UUID_BYTES = 9, 16


def read_headers(data: bytes) -> dict[str, HeaderValue]:
    """Decode the headers of a message; raises `BrokenEventStream` if they are malformed."""
    reader = _HeaderReader(data)
    headers: dict[str, HeaderValue] = {}
    while reader.remaining:
        name = reader.read_string(reader.read_uint(1))
        headers[name] = _read_value(reader.read_uint(1), reader)
    return headers


def _read_value(value_type: int, reader: _HeaderReader) -> HeaderValue:
    if value_type in _BOOLEAN_TYPES:
        return _BOOLEAN_TYPES[value_type]
    if value_type in _INTEGER_TYPES:
        return int.from_bytes(reader.read_bytes(_INTEGER_TYPES[value_type]), "big", signed=True)
    if value_type == _STRING_TYPE:
        return reader.read_string(reader.read_uint(2))
    if value_type == _BYTES_TYPE:
        return reader.read_bytes(reader.read_uint(2))
    if value_type == _UUID_TYPE:
        return reader.read_bytes(_UUID_BYTES)
    raise BrokenEventStream("A header has an unknown type.")


class _HeaderReader:
    """Cursor over the bytes of headers."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._offset = 0

    @property
    def remaining(self) -> int:
        return len(self._data) - self._offset

    def read_bytes(self, size: int) -> bytes:
        if size > self.remaining:
            raise BrokenEventStream("A header is truncated.")
        self._offset += size
        return self._data[self._offset - size : self._offset]

    def read_uint(self, size: int) -> int:
        return _read_uint(self.read_bytes(size))

    def read_string(self, size: int) -> str:
        return self.read_bytes(size).decode("utf-8", "replace")
