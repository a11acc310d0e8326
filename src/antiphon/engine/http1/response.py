"""A response whose head has arrived: its body is kept until it is read."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

from aiohttp.compression_utils import ZLibDecompressor

from antiphon.engine.http1.parser import Head
from antiphon.errors import BrokenResponse, ConnectionFailure

MAX_BUFFERED = 128 * 1024
"""How much of a body is kept unread before its connection is paused."""
_DECODE_BYTES = 64 * 1024  # at once, so that the event loop is not blocked for long


class Source(Protocol):
    """The connection of a response."""

    def resume_reading(self) -> None: ...
    def abort(self) -> None: ...


class Response:
    """One response. Its connection feeds it; its reader takes all of it, then waits."""

    def __init__(self, head: Head, source: Source) -> None:
        self.status = head.status
        self.headers: Mapping[str, str] = head.headers
        self.is_compressed = head.encoding is not None
        self._decoder = BodyDecoder(head.encoding) if head.encoding else None
        self._source: Source | None = source
        self._pieces: list[bytes] = []
        self._size = 0
        self._is_paused = False
        self._has_ended = False
        self._error: Exception | None = None
        self._waiting: asyncio.Future[None] | None = None

    # For the connection

    def feed(self, data: bytes) -> bool:
        """Keep a part of the body; return whether the connection has to pause."""
        self._pieces.append(data)
        self._size += len(data)
        self._wake()
        if self._size > MAX_BUFFERED:
            self._is_paused = True
        return self._is_paused

    def end(self, error: Exception | None = None) -> None:
        """Note that nothing follows, and why, if the body is not complete."""
        if not self._has_ended:
            self._has_ended = True
            self._error = error
            self._source = None
            self._wake()

    def _wake(self) -> None:
        waiting = self._waiting
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    # For the reader

    def take(self) -> bytes | None:
        """Return what has arrived; empty at the end, None if the next part has not arrived."""
        data = self._take_pieces() if self._decoder is None else self._take_decoded(self._decoder)
        if data:
            return data
        if not self._has_ended:
            return None
        if self._error is not None:
            raise self._error
        return b""

    async def wait(self) -> None:
        """Wait until `take` has something to return, or to raise. One reader waits at a time."""
        if not self._pieces and not self._has_ended:
            self._waiting = asyncio.get_running_loop().create_future()
            try:
                await self._waiting
            finally:
                self._waiting = None

    def close(self) -> None:
        """Disconnect, unless the body has arrived as a whole. A pending `wait` returns."""
        if self._source is not None:
            self._break_off(ConnectionFailure("the connection was closed by the gateway"))

    def _break_off(self, error: Exception) -> None:
        """End the body before its end."""
        source = self._source
        self._pieces.clear()
        self._decoder = None
        self._has_ended = False
        self.end(error)
        if source is not None:
            source.abort()

    def _take_pieces(self) -> bytes:
        pieces = self._pieces
        if not pieces:
            return b""
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._size = 0
        if self._is_paused:
            self._is_paused = False
            if self._source is not None:
                self._source.resume_reading()
        return data

    def _take_decoded(self, decoder: BodyDecoder) -> bytes:
        """Decompress a limited part of what has arrived."""
        try:
            while decoder.has_more or self._pieces:
                data = decoder.decode(b"" if decoder.has_more else self._take_pieces())
                if data:
                    return data
            if self._has_ended and self._error is None:
                decoder.end()
        except (BrokenResponse, ConnectionFailure) as error:
            self._break_off(error)
        return b""


class BodyDecoder:
    """Decompresses a body, a limited part at a time. aiohttp's decompressor reads what its client
    reads: several members of gzip, and deflate with and without its header."""

    def __init__(self, encoding: str) -> None:
        self.has_more = False
        """Whether there is more to return without more to read."""
        self._encoding = encoding
        self._decompressor: ZLibDecompressor | None = None

    def decode(self, data: bytes) -> bytes:
        decompressor = self._decompressor
        if decompressor is None:
            is_raw = self._encoding == "deflate" and data[0] & 0xF != 8  # no header of RFC 1950
            decompressor = ZLibDecompressor(self._encoding, suppress_deflate_header=is_raw)
            self._decompressor = decompressor
        try:
            decoded = decompressor.decompress_sync(data, max_length=_DECODE_BYTES)
        except Exception as error:  # of zlib, or of what replaces it
            reason = f"the body cannot be decompressed ({self._encoding})"
            raise ConnectionFailure(reason) from error
        self.has_more = decompressor.data_available
        return decoded

    def end(self) -> None:
        """Check that the body was complete. gzip is not checked: some servers leave out its end."""
        decompressor = self._decompressor
        if decompressor and self._encoding == "deflate" and not decompressor.eof:
            raise BrokenResponse("the compressed body is not complete (deflate)")
