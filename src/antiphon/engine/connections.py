"""Connections to upstreams: pooled, and reused only if nothing came since the last response ended.

HTTP/1.1 has no request ids: what a connection delivers next is the response to the next request.
Bytes that arrive while no request is in flight would therefore reach another client. A connection
that has received any, or that ended a response in the middle of what it received, is closed.

1. `UpstreamConnection` closes itself as soon as such bytes arrive.
2. `UpstreamConnector` looks for bytes that the event loop has not read yet, before each reuse.
3. `UpstreamRequest` looks again right before it writes: no byte received earlier is its response.

A response whose framing is broken ends at once, with a `HttpProcessingError` after what arrived.

Two things save CPU time in streams of many small chunks. The chunks of one read of the network are
joined: aiohttp takes each out of its buffer by itself. Reading is resumed only if it was paused:
aiohttp does so after each chunk.

aiohttp (3.14) does none of this. Its private names that are used here are listed in
`aiohttp_names.py`.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import HttpProcessingError

from antiphon.engine.http1.connection import make_poll

if TYPE_CHECKING:
    from aiohttp.client_reqrep import ClientResponse
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

# A response that is complete in itself: a parser that holds nothing else returns exactly this one.
# No upstream can know its reason, and so none can send a beginning that this would complete.
_PROBE_REASON = secrets.token_hex(8)
_PROBE = f"HTTP/1.1 204 {_PROBE_REASON}\r\n\r\n".encode()

_MANY_CHUNKS = 8  # fewer are not worth a copy of what a slow reader has left in the buffer


class UpstreamConnection(ResponseHandler):
    """The protocol of one connection: idle between the end of a response and the next request."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._is_idle = False
        self._heads = 0
        """Heads of responses since the last one ended, but for informational ones (1xx)."""
        self._poll: Callable[[], bool] | None = None
        """Made once: a connection is asked twice before each request."""

    def is_reusable(self) -> bool:
        """Whether nothing has arrived since the last response, not even at the operating system."""
        if not self._is_idle:  # a new connection
            return True
        if not self.is_connected() or self.should_close:
            return False
        return not self._is_readable()

    def _is_readable(self) -> bool:
        """Whether the socket has unread bytes, or its end."""
        if self.transport is None:
            return True
        if self._poll is None:
            self._poll = make_poll(self.transport)
        return self._poll()

    def begin_request(self) -> None:
        """Note that a request is about to be written; what arrives from now on answers it."""
        if not self.is_reusable():
            self._reject()
        self._is_idle = False

    def data_received(self, data: bytes) -> None:
        if self._is_idle:
            if data:
                self._reject()
            return
        super().data_received(data)
        payload = self._payload
        if payload is None:
            return
        if self._heads and (payload.is_eof() or self._heads > 1):
            self._end_response()
        if payload is not aiohttp.EMPTY_PAYLOAD and len(payload._buffer) >= _MANY_CHUNKS:
            _join_chunks(payload._buffer)

    def resume_reading(self, resume_parser: bool = True) -> None:
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def feed_data(self, data: Any, size: int = 0) -> None:
        """Queue the head of a response; a second one belongs to no request."""
        self._heads += data[0].code >= 200
        if self._heads <= 1:
            super().feed_data(data, size)

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        """End the response, too: aiohttp leaves its reader waiting if the framing is broken."""
        super().set_exception(exc, *cause)
        payload = self._payload
        if payload is not None and not payload.is_eof() and payload.exception() is None:
            payload.set_exception(exc, *cause)
            payload.feed_eof()  # a reader that was woken before would wait again, and for ever

    def _end_response(self) -> None:
        is_clean = self._heads == 1 and (self._should_close or self._is_parser_empty())
        self._is_idle = True
        self._heads = 0
        if not is_clean:
            self._reject()

    def _is_parser_empty(self) -> bool:
        """Whether the end of the response was the last thing that the parser received."""
        assert self._parser is not None
        try:
            messages, _, _ = self._parser.feed_data(_PROBE)
        except HttpProcessingError:
            return False
        return [message.reason for message, _ in messages] == [_PROBE_REASON]

    def _reject(self) -> None:
        """Close the connection; a request that waits for it fails, and may be sent again."""
        self.abort()
        self.set_exception(aiohttp.ServerDisconnectedError("bytes before the request"))


def _join_chunks(buffer: deque[bytes]) -> None:
    joined = b"".join(buffer)
    buffer.clear()
    buffer.append(joined)


class UpstreamRequest(aiohttp.ClientRequest):
    """A request that takes its connection into use right before its first byte is written."""

    async def send(self, conn: Connection) -> ClientResponse:
        if not self.body:
            _begin_request(conn)
        return await super().send(conn)

    async def write_bytes(
        self, writer: AbstractStreamWriter, conn: Connection, content_length: int | None = None
    ) -> None:
        _begin_request(conn)  # on Python 3.11, the event loop has run since `send`
        await super().write_bytes(writer, conn, content_length)


def _begin_request(conn: Connection) -> None:
    assert isinstance(conn.protocol, UpstreamConnection)
    conn.protocol.begin_request()


class UpstreamConnector(aiohttp.TCPConnector):
    """A connection pool that closes what cannot be reused safely, and goes on to the next."""

    def __init__(self) -> None:
        super().__init__(limit=0, ttl_dns_cache=60)
        protocol: type[ResponseHandler] = UpstreamConnection
        self._factory = partial(protocol, loop=asyncio.get_running_loop())

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - a value, not a limit of this call
    ) -> Connection:
        while True:
            connection = await super().connect(req, traces, timeout)
            protocol = connection.protocol
            if not isinstance(protocol, UpstreamConnection) or protocol.is_reusable():
                return connection
            connection.close()


def open_session(**options: Any) -> aiohttp.ClientSession:
    """Open a session whose connections are reused safely; `options` are those of aiohttp."""
    return aiohttp.ClientSession(
        connector=UpstreamConnector(),
        request_class=UpstreamRequest,
        cookie_jar=aiohttp.DummyCookieJar(),
        **options,
    )
