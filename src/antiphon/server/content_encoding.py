"""Decompression of request bodies in small pieces: gzip, deflate, and br and zstd if installed.

However well a body is compressed, one piece of the result is at most `PIECE_BYTES` long, so that a
limit on the whole is noticed in time.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

from aiohttp import compression_utils as compression

from antiphon.errors import InvalidRequest

PIECE_BYTES = 16 * 1024

_ZLIB_METHOD = 8  # the low half of the first byte of a zlib header; raw deflate data has none
_GZIP_BITS = 16 + zlib.MAX_WBITS
_MAX_MEMBERS = 1024  # of a gzip body; clients send one


class Decompressor(Protocol):
    """Decompresses a body. It may hold more than it returns: `data_available`."""

    def decompress_sync(self, data: bytes, max_length: int) -> bytes: ...
    @property
    def data_available(self) -> bool: ...


class ZlibDecompressor:
    """gzip, with any number of members, or deflate. It knows whether the data is complete."""

    def __init__(self, window_bits: int, max_members: int = 1) -> None:
        self._window_bits = window_bits
        self._members_left = max_members
        self._member: zlib._Decompress | None = None
        self._rest = b""
        self.data_available = False

    @property
    def is_complete(self) -> bool:
        return self._member is not None and self._member.eof and not self._rest

    def decompress_sync(self, data: bytes, max_length: int) -> bytes:
        """Return at most `max_length` bytes of one member; raises `zlib.error`."""
        data = self._rest + data
        member = self._begin_member() if data or self._member is None else self._member
        piece = member.decompress(data, max_length)
        self._rest = member.unused_data if member.eof else member.unconsumed_tail
        is_cut = len(piece) == max_length and not member.eof
        self.data_available = is_cut or bool(self._rest)
        return piece

    def _begin_member(self) -> zlib._Decompress:
        """Return the member that the next bytes belong to."""
        if self._member is None or self._member.eof:
            if not self._members_left:
                raise zlib.error("bytes follow the end of the data")
            self._members_left -= 1
            self._member = zlib.decompressobj(self._window_bits)
        return self._member


def _make_deflate(first: bytes) -> Decompressor:
    is_raw = first[0] & 0xF != _ZLIB_METHOD
    return ZlibDecompressor(-zlib.MAX_WBITS if is_raw else zlib.MAX_WBITS)


def _list_decompressors() -> dict[str, Callable[[bytes], Decompressor]]:
    found: dict[str, Callable[[bytes], Decompressor]] = {
        "gzip": lambda first: ZlibDecompressor(_GZIP_BITS, _MAX_MEMBERS),
        "deflate": _make_deflate,
    }
    if compression.HAS_BROTLI:
        found["br"] = lambda first: compression.BrotliDecompressor()
    if compression.HAS_ZSTD:
        found["zstd"] = lambda first: compression.ZSTDDecompressor()
    return found


_DECOMPRESSORS = _list_decompressors()


class ContentDecoder:
    """Decompresses a body that has a `Content-Encoding`."""

    def __init__(self, encoding: str) -> None:
        """Raises `InvalidRequest` with status 415 for an encoding that is not supported."""
        self._encoding = encoding.strip().lower()
        make = _DECOMPRESSORS.get(self._encoding)
        if make is None:
            raise InvalidRequest(
                f"The content encoding {encoding[:64]!r} is not supported; use"
                f" {', '.join(_DECOMPRESSORS)}, or send the body uncompressed.",
                code="unsupported_content_encoding",
                status=415,
            )
        self._make = make
        self._decompressor: Decompressor | None = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the decompressed pieces; each is made when it is asked for."""
        if self._decompressor is None:
            self._decompressor = self._make(data)
        piece = self._decompress(data)
        while piece or self._decompressor.data_available:
            yield piece
            piece = self._decompress(b"")

    def close(self) -> None:
        """Raise `InvalidRequest` if the compressed data is incomplete. Of br and zstd it is not
        known: the JSON is incomplete then, too."""
        if self._decompressor is None:
            raise content_mismatch()
        if isinstance(self._decompressor, ZlibDecompressor) and not self._decompressor.is_complete:
            raise content_mismatch()

    def _decompress(self, data: bytes) -> bytes:
        assert self._decompressor is not None
        try:
            return self._decompressor.decompress_sync(data, PIECE_BYTES)
        except Exception as error:  # each library has its own
            raise content_mismatch() from error


def content_mismatch() -> InvalidRequest:
    return InvalidRequest(
        "The request body could not be decoded: it does not match its Content-Encoding."
    )
