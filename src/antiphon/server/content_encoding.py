"""Decompression of request bodies in small pieces: gzip, deflate, and br and zstd if installed.

However well a body is compressed, one piece of the result is at most `PIECE_BYTES` long, so that a
limit on the whole is noticed in time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from aiohttp import compression_utils as compression

from antiphon.errors import InvalidRequest

PIECE_BYTES = 16 * 1024

_ZLIB_METHOD = 8  # the low half of the first byte of a zlib header; raw deflate data has none


class Decompressor(Protocol):
    def decompress_sync(self, data: bytes, max_length: int) -> bytes: ...
    @property
    def data_available(self) -> bool: ...


def _make_deflate(first: bytes) -> Decompressor:
    is_raw = first[0] & 0xF != _ZLIB_METHOD
    return compression.ZLibDecompressor(encoding="deflate", suppress_deflate_header=is_raw)


def _list_decompressors() -> dict[str, Callable[[bytes], Decompressor]]:
    found: dict[str, Callable[[bytes], Decompressor]] = {
        "gzip": lambda first: compression.ZLibDecompressor(encoding="gzip"),
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
        """Raise `InvalidRequest` if the compressed data is known to be incomplete."""
        if self._encoding == "deflate" and not getattr(self._decompressor, "eof", False):
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
