"""Parser of responses: bytes of one connection in, heads and bodies out. It does no IO.

llhttp reads the framing, here (`httptools`) as in aiohttp, with the same leniency and the same
limits. A response ends where its framing says so; what follows it in the same read is `surplus`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from msgspec import Struct

from antiphon.errors import BrokenResponse

MAX_FIELD_BYTES = 64 * 1024  # some providers send long headers
MAX_FIELDS = 128
MAX_REASON_BYTES = 8190
_LINE_MARGIN = 1024  # for spaces around names and values, and for a status line
_SWITCHING_PROTOCOLS = 101
_SHORT_NAME = 64  # bytes of a name that may be kept: providers repeat theirs with every response
_DECODED = ("gzip", "deflate")
_NOT_DECODED = ("br", "zstd")


class Head(Struct, frozen=True):
    """The head of a response, but for informational ones (1xx)."""

    status: int
    headers: Mapping[str, str]
    """By lower-case names; of a repeated header, the first value."""
    encoding: str | None
    """How the body is compressed."""
    keeps_alive: bool
    """Whether the connection may be used again after the body."""
    ends_at_close: bool
    """Whether the body has no length of its own."""


class ResponseParser:
    """Reads one response after another: bytes that are fed after a complete one begin the next."""

    __slots__ = (
        "_field_count",
        "_fields",
        "_has_advanced",
        "_parser",
        "_pieces",
        "_reason_bytes",
        "_silent_bytes",
        "error",
        "has_surplus",
        "head",
        "is_complete",
        "on_body",
    )

    def __init__(self) -> None:
        self.head: Head | None = None
        self.is_complete = False
        self.has_surplus = False
        """Whether bytes followed the end of the response."""
        self.error: BrokenResponse | None = None
        self._pieces: list[bytes] = []
        self.on_body = self._pieces.append
        """Called by the parser for each chunk: no frame of Python is needed."""
        self._fields: list[tuple[bytes, bytes]] = []
        """The fields of the head, until it is complete."""
        self._field_count = 0
        """Fields so far, trailers included."""
        self._reason_bytes = 0
        self._silent_bytes = 0
        """Bytes since a field was complete, or a part of the body arrived."""
        self._has_advanced = False
        self._parser = HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )

    def feed(self, data: bytes) -> bytes:
        """Read bytes; return those of the body. `head`, `is_complete` and `error` say the rest."""
        self._has_advanced = False
        if self.is_complete:
            self.head = None
            self.is_complete = False
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self._note_error(error)
        pieces = self._pieces
        if pieces:
            self._silent_bytes = 0
            body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            pieces.clear()
            return body
        self._limit_silence(data)
        return b""

    def close(self) -> None:
        """Let go of llhttp's parser: both refer to each other, and without the cycle both are freed
        at once. Nothing is fed after this."""
        del self._parser

    def _note_error(self, error: Exception) -> None:
        """Keep an error, unless the response was complete before: then other bytes follow it."""
        if self.is_complete:
            self.has_surplus = True
        elif isinstance(error.__context__, BrokenResponse):
            self.error = error.__context__
        else:
            self.error = BrokenResponse(str(error))

    def _limit_silence(self, data: bytes) -> None:
        """Limit bytes that become neither a field nor a part of the body, such as half a header."""
        if self._has_advanced:
            self._silent_bytes = len(data) - data.rfind(b"\n") - 1
        else:
            self._silent_bytes += len(data)
        if self._silent_bytes > MAX_FIELD_BYTES + _LINE_MARGIN and self.error is None:
            self.error = BrokenResponse(f"a line is longer than {MAX_FIELD_BYTES} bytes")

    # Called by the parser

    def on_message_begin(self) -> None:
        if self.is_complete:
            raise BrokenResponse("bytes follow the end of the response")
        self._fields.clear()
        self._field_count = 0
        self._reason_bytes = 0
        self._has_advanced = True

    def on_status(self, reason: bytes) -> None:
        self._reason_bytes += len(reason)
        if self._reason_bytes > MAX_REASON_BYTES:
            raise BrokenResponse(f"the status line is longer than {MAX_REASON_BYTES} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; count trailers, too."""
        self._has_advanced = True
        self._fields.append((name, value))
        self._field_count += 1
        if self._field_count > MAX_FIELDS:
            raise BrokenResponse(f"there are more than {MAX_FIELDS} headers")
        if len(name) + len(value) > MAX_FIELD_BYTES:
            raise BrokenResponse(f"a header is longer than {MAX_FIELD_BYTES} bytes")
        if value.find(b"\0") >= 0:  # `in` would first make an error that a number was expected
            raise BrokenResponse("a header contains a null byte")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 100:
            raise BrokenResponse(f"the status is {status}")
        if status < 200 and status != _SWITCHING_PROTOCOLS:
            return
        headers: dict[str, str] = {}
        encoding = None
        has_length = is_chunked = False
        for raw_name, raw_value in self._fields:
            read_name = _read_short_name if len(raw_name) <= _SHORT_NAME else _read_name
            name, bare_name = read_name(raw_name)
            value = raw_value.rstrip(b" \t").decode("utf-8", "surrogateescape")
            headers.setdefault(name, value)
            if name == "content-encoding":
                encoding = value
            elif bare_name == "content-length":
                has_length = True
            elif bare_name == "transfer-encoding":
                is_chunked = value.rpartition(",")[2].strip(" \t").lower() == "chunked"
        self._fields.clear()
        keeps_alive = self._parser.should_keep_alive()  # never without a length or chunks
        self.head = Head(
            status=status,
            headers=headers,
            encoding=_find_encoding(encoding) if encoding else None,
            keeps_alive=keeps_alive and status != _SWITCHING_PROTOCOLS,
            ends_at_close=not keeps_alive and not is_chunked and not has_length,
        )

    def on_message_complete(self) -> None:
        self._has_advanced = True
        if self.head is not None:
            self.is_complete = True


def _read_name(raw: bytes) -> tuple[str, str]:
    """Return the name of a header, and without the spaces that llhttp allows before the colon."""
    name = raw.decode("utf-8", "surrogateescape").lower()
    return name, name.rstrip(" ")


_read_short_name = lru_cache(maxsize=1024)(_read_name)


def _find_encoding(given: str) -> str | None:
    """Return how a body is compressed; one that is not asked for is passed on as it is."""
    encoding = given.lower()
    if encoding in _NOT_DECODED:
        raise BrokenResponse(f"the body is compressed as {encoding}, which was not asked for")
    return encoding if encoding in _DECODED else None
