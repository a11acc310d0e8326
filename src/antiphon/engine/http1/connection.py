"""A connection to a provider: one request at a time, and silence between two; and its responses.

HTTP/1.1 has no request ids: what a connection delivers next is the response to the next request.
Bytes that arrive while no request is in flight would reach another client. So a connection that
receives any, or that received more than its response, is closed; and before it is used again the
socket is asked for bytes that the event loop has not read. The request is written in the same step.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable, Mapping
from enum import Enum, auto

from aiohttp.compression_utils import ZLibDecompressor

from antiphon.engine.http1.parser import Head, ResponseParser
from antiphon.errors import BrokenResponse, ConnectionFailure

MAX_BUFFERED = 128 * 1024
"""How much of a body is kept unread before its connection is paused."""
_DECODE_BYTES = 64 * 1024  # at once, so that the event loop is not blocked for long
_LARGE_BODY = 512 * 1024
_WRITE_BYTES = 64 * 1024
_NOTHING = memoryview(b"")
_NO_RESPONSE = "the provider closed the connection without a response"
_HALF_A_RESPONSE = "the provider closed the connection in the middle of its response"


class Response:
    """One response. Its connection feeds it; its reader takes all of it, then waits."""

    __slots__ = (
        "_decoder",
        "_ends_at_close",
        "_error",
        "_has_ended",
        "_is_paused",
        "_pieces",
        "_size",
        "_source",
        "_waiting",
        "headers",
        "is_compressed",
        "status",
    )

    def __init__(self, head: Head, source: Connection) -> None:
        self.status = head.status
        self.headers: Mapping[str, str] = head.headers
        self.is_compressed = head.encoding is not None
        self._ends_at_close = head.ends_at_close
        self._decoder = BodyDecoder(head.encoding) if head.encoding else None
        self._source: Connection | None = source
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
        if self._waiting is not None:
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
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():  # it is done if the reader was cancelled
            waiting.set_result(None)

    # For the reader

    def take(self) -> bytes | None:
        """Return what has arrived; empty at the end, None if the next part has not arrived."""
        if self._decoder is not None:
            if data := self._take_decoded(self._decoder):
                return data
        elif self._pieces:
            return self._take_pieces()
        if not self._has_ended:
            return None
        if self._error is not None:
            raise self._error
        return b""

    def take_whole(self) -> bytes | None:
        """Return the rest of the body if all of it has arrived, and it is not compressed."""
        if not self._has_ended or self._error is not None or self._decoder is not None:
            return None
        return self._take_pieces()

    def wait(self) -> asyncio.Future[None]:
        """Return a future that is done when `take` has something to return, or to raise. One reader
        waits at a time."""
        waiting = self._waiting = asyncio.get_running_loop().create_future()
        if self._pieces or self._has_ended:
            self._wake()
        return waiting

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
            if self._has_ended and self._error is None and not decoder.is_complete():
                self._break_off(self._describe_missing_end())
        except ConnectionFailure as error:
            self._break_off(error)
        return b""

    def _describe_missing_end(self) -> Exception:
        """Name why a compressed body has no end: a cut connection, or wrong framing."""
        if self._ends_at_close:
            return ConnectionFailure(_HALF_A_RESPONSE)
        return BrokenResponse("the compressed body is not complete")


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

    def is_complete(self) -> bool:
        """Whether the body may end here. gzip is not checked: some servers leave out its end."""
        decompressor = self._decompressor
        return decompressor is None or self._encoding != "deflate" or decompressor.eof


class _State(Enum):
    NEW = auto()
    BUSY = auto()
    IDLE = auto()
    CLOSED = auto()


class Connection(asyncio.Protocol):
    """The protocol of one connection."""

    __slots__ = (
        "_early",
        "_forget",
        "_has_unread_bytes",
        "_is_reading_paused",
        "_is_writing_paused",
        "_parser",
        "_release",
        "_response",
        "_state",
        "_transport",
        "_unsent",
        "_waiting",
    )

    def __init__(
        self, release: Callable[[Connection], None], forget: Callable[[Connection], None]
    ) -> None:
        """`release` is called when the connection may be used again, `forget` when it is lost."""
        self._release = release
        self._forget = forget
        self._state = _State.NEW
        self._transport: asyncio.Transport | None = None
        self._parser = ResponseParser()
        self._early = b""
        """Bytes before the first request: a server may refuse a connection at once."""
        self._waiting: asyncio.Future[Response] | None = None
        self._response: Response | None = None
        self._unsent = _NOTHING
        self._is_reading_paused = False
        self._is_writing_paused = False
        self._has_unread_bytes: Callable[[], bool] | None = None

    # For the pool

    @property
    def is_closed(self) -> bool:
        return self._state is _State.CLOSED

    def is_reusable(self) -> bool:
        """Whether the connection is idle, and nothing has arrived, not even at the system."""
        transport = self._transport
        if self._state is not _State.IDLE or transport is None or transport.is_closing():
            return False
        if self._has_unread_bytes is None:
            self._has_unread_bytes = make_poll(transport)
        return not self._has_unread_bytes()

    async def send(self, head: bytes, body: bytes) -> Response:
        """Send a request; return its response when the head has arrived. If this is cancelled or
        fails, the connection is closed."""
        if self._state is _State.CLOSED:
            raise ConnectionFailure(_NO_RESPONSE)
        self._state = _State.BUSY
        waiting: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._waiting = waiting
        self._write(head, body)
        early, self._early = self._early, b""
        if early:
            self.resume_reading()
            self.data_received(early)
        try:
            return await waiting
        except BaseException:
            if waiting.cancelled() or waiting.exception() is not None:
                self.abort()
            else:  # cancelled after the head arrived: another request may use this connection
                waiting.result().close()
            raise

    def resume_reading(self) -> None:
        """Go on after a pause: the reader has taken what was kept."""
        if self._is_reading_paused and self._transport is not None:
            self._is_reading_paused = False
            if not self._transport.is_closing():
                self._transport.resume_reading()

    def abort(self) -> None:
        """Close the connection at once; what waits for it fails."""
        if self._state is _State.CLOSED:
            return
        self._state = _State.CLOSED
        self._unsent = _NOTHING
        self._fail(ConnectionFailure("the connection was closed by the gateway"))
        if self._transport is not None:
            self._transport.abort()

    # For the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        if self._state is not _State.BUSY:
            self._receive_unasked(data)
            return
        parser = self._parser
        body = parser.feed(data)
        response = self._response
        if response is None and parser.head is not None:
            response = self._begin_response(parser.head)
        if response is not None and body and response.feed(body):
            self._pause_reading()
        if parser.is_complete:
            self._end_response()
        elif parser.error is not None:
            self._fail(parser.error)
            self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        was_closed = self._state is _State.CLOSED
        self._state = _State.CLOSED
        self._unsent = _NOTHING
        self._forget(self)
        self._parser.close()
        if was_closed:
            return
        if self._response is None:
            self._fail(error if isinstance(error, OSError) else ConnectionFailure(_NO_RESPONSE))
        elif self._parser.head is not None and self._parser.head.ends_at_close:
            self._fail(None)
        else:
            self._fail(ConnectionFailure(_HALF_A_RESPONSE))

    def pause_writing(self) -> None:
        self._is_writing_paused = True

    def resume_writing(self) -> None:
        self._is_writing_paused = False
        self._write_more()

    # Parts

    def _receive_unasked(self, data: bytes) -> None:
        """Receive bytes while no request is in flight."""
        if self._state is _State.IDLE:
            self.abort()
        elif self._state is _State.NEW:
            self._early += data
            if len(self._early) > MAX_BUFFERED:
                self._pause_reading()

    def _pause_reading(self) -> None:
        if not self._is_reading_paused and self._transport is not None:
            self._is_reading_paused = True
            self._transport.pause_reading()

    def _begin_response(self, head: Head) -> Response | None:
        """Pass on a response; close the connection if its request was cancelled."""
        waiting, self._waiting = self._waiting, None
        if waiting is None or waiting.done():
            self.abort()
            return None
        response = self._response = Response(head, self)
        waiting.set_result(response)
        return response

    def _end_response(self) -> None:
        """End a response. The connection is used again if nothing else was sent or received."""
        response, self._response = self._response, None
        if response is not None:
            response.end()
        head = self._parser.head
        if head is None or not head.keeps_alive or self._parser.has_surplus or self._unsent:
            self.abort()
        elif self._state is _State.BUSY:
            self._state = _State.IDLE
            self.resume_reading()
            self._release(self)

    def _fail(self, failure: Exception | None) -> None:
        """End what waits: for the head with a failure, for the body perhaps without one."""
        if self._response is not None:
            self._response.end(failure)
            self._response = None
        elif failure is not None and self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(failure)

    def _write(self, head: bytes, body: bytes) -> None:
        assert self._transport is not None
        if len(body) < _LARGE_BODY:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._unsent = memoryview(body)
            self._write_more()

    def _write_more(self) -> None:
        """Write a large body in pieces, as fast as they are sent: it is never copied as a whole."""
        transport = self._transport
        while self._unsent and not self._is_writing_paused and transport is not None:
            transport.write(self._unsent[:_WRITE_BYTES])
            self._unsent = self._unsent[_WRITE_BYTES:]


def make_poll(transport: asyncio.BaseTransport) -> Callable[[], bool]:
    """Make a function that asks whether the socket has unread bytes, or its end. A transport
    without a socket has none."""
    socket = transport.get_extra_info("socket")
    if socket is None:
        return lambda: False
    descriptor = socket.fileno()
    if not hasattr(select, "poll"):  # Windows
        return lambda: bool(select.select([descriptor], [], [], 0)[0])
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return lambda: bool(poll.poll(0))
