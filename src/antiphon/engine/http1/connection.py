"""A connection to a provider: one request at a time, and silence between two.

HTTP/1.1 has no request ids: what a connection delivers next is the response to the next request.
Bytes that arrive while no request is in flight would reach another client. So a connection that
receives any, or that received more than its response, is closed; and before it is used again the
socket is asked for bytes that the event loop has not read. The request is written in the same step.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from enum import Enum, auto

from antiphon.engine.http1.parser import Head, ResponseParser
from antiphon.engine.http1.response import MAX_BUFFERED, Response
from antiphon.errors import ConnectionFailure

_LARGE_BODY = 512 * 1024
_WRITE_BYTES = 64 * 1024
_NOTHING = memoryview(b"")


class _State(Enum):
    NEW = auto()
    BUSY = auto()
    IDLE = auto()
    CLOSED = auto()


class Connection(asyncio.Protocol):
    """The protocol of one connection."""

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
            failure = self._parser.finish()
            assert failure is not None
            raise failure
        self._state = _State.BUSY
        self._parser.begin()
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
        if was_closed:
            return
        failure: Exception | None = self._parser.finish()
        if self._response is None and isinstance(error, OSError):
            failure = error
        self._fail(failure)

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
