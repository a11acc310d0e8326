"""Upstreams: how a provider is called, over HTTP or inside the process (the built-in echo)."""

from __future__ import annotations

import asyncio
import errno
import io
import os
import socket
import ssl
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Protocol

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from antiphon.core.faults.fault import (
    StreamProgress,
    connection_fault,
    cut_fault,
    out_of_files_fault,
    protocol_fault,
    timeout_fault,
)
from antiphon.core.faults.kinds import FaultKind
from antiphon.core.plan.plan import Outbound
from antiphon.engine.connections import open_session
from antiphon.engine.fault_report import explain_connection_error
from antiphon.engine.http1.connection import Response
from antiphon.engine.http1.pool import ConnectionPool, encode_head, find_target
from antiphon.errors import (
    BrokenResponse,
    ConnectionFailure,
    ConnectTimedOut,
    ResponseTooLarge,
    UpstreamError,
)
from antiphon.framing.limits import DEFAULT_LIMITS
from antiphon.providers import echo
from antiphon.providers.registry import Provider

_HEADER_LIMIT = 64 * 1024  # some providers send many headers
_LARGE_BODY = 512 * 1024
_ERROR_BODY_LIMIT = 1024 * 1024
_READ_BYTES = 64 * 1024  # read and decoded at once: the event loop is not blocked for long


class UpstreamResponse(Protocol):
    """An HTTP response: its head has arrived, its body follows."""

    status: int
    headers: Mapping[str, str]

    async def next(self) -> bytes:
        """Return what has arrived; empty at the end."""

    async def read(self) -> bytes:
        """Return the whole body."""

    def close(self) -> None:
        """Disconnect. A pending read returns or raises."""


async def error_body(response: UpstreamResponse) -> bytes:
    """Read the body of an error response, up to a limit; a broken connection ends it."""
    body = bytearray()
    with suppress(UpstreamError):
        while len(body) < _ERROR_BODY_LIMIT and (piece := await response.next()):
            body += piece
    return bytes(body[:_ERROR_BODY_LIMIT])


class Upstream(Protocol):
    async def open(self, provider: Provider, outbound: Outbound, key: str) -> UpstreamResponse: ...
    async def close(self) -> None: ...


class HTTPUpstream:
    """Providers on the network. Plain requests go through our own HTTP/1.1 client, which costs a
    fraction; aiohttp sends the others."""

    def __init__(
        self,
        max_body_bytes: int = DEFAULT_LIMITS.body_bytes,
        now: Callable[[], float] = time.time,
        *,
        tls: ssl.SSLContext | None = None,
        use_aiohttp: bool = False,
    ) -> None:
        """`max_body_bytes` limits whole responses, after decompression; `now` is the clock of
        request signatures; `tls` replaces the trust in the system's authorities; with
        `use_aiohttp`, aiohttp sends plain requests, too."""
        self._max_body_bytes = max_body_bytes
        self._now = now
        self._pool = None if use_aiohttp else ConnectionPool(tls)
        self._tls = True if tls is None else tls
        timeout = aiohttp.ClientTimeout(total=None, sock_read=None)
        self._session = open_session(
            timeout=timeout, max_field_size=_HEADER_LIMIT, read_bufsize=_READ_BYTES
        )

    async def open(self, provider: Provider, outbound: Outbound, key: str) -> UpstreamResponse:
        headers = {
            "content-type": "application/json",
            "user-agent": "antiphon",
            **provider.authorization(key, outbound, self._timestamp),
            **provider.headers,
            **outbound.headers,
        }
        url = provider.request_url(outbound)
        connect_s = provider.timeouts.connect_s
        began = asyncio.get_running_loop().time()
        target = find_target(url, headers) if self._pool is not None else None
        try:
            if self._pool is not None and target is not None:
                body = outbound.body
                head = encode_head(target, len(body))
                response = await self._pool.send(target, head, body, connect_s)
                return _PlainResponse(response, self._max_body_bytes, began)
            received = await self._session.post(
                url,
                data=_payload(outbound.body),
                headers=headers,
                allow_redirects=False,
                ssl=self._tls,
                timeout=_timeout(connect_s),
            )
        except (ConnectTimedOut, aiohttp.ConnectionTimeoutError) as error:
            raise UpstreamError(timeout_fault("connect")) from error
        except _ERRORS as error:
            raise _connection_error(error) from _without_frames(error)
        return _AiohttpResponse(received, self._max_body_bytes, began)

    async def close(self) -> None:
        try:
            if self._pool is not None:
                await self._pool.close()
        finally:
            await self._session.close()

    def _timestamp(self) -> str:
        """Return the timestamp of a request signature."""
        return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self._now()))


def _payload(body: bytes) -> bytes | io.BytesIO:
    """Return a large body as a file, which the HTTP library sends in pieces."""
    return body if len(body) < _LARGE_BODY else _LargeBody(body)


class _LargeBody(io.BytesIO):
    """A body as a file that is never copied as a whole: the HTTP library (aiohttp 3.14) asks
    `getbuffer` for its size, and that of `BytesIO` copies the bytes to make them writable."""

    def getbuffer(self) -> memoryview:
        return memoryview(self.getvalue())


@lru_cache(maxsize=64)
def _timeout(connect_s: float) -> aiohttp.ClientTimeout:
    """Limit only connecting; the run limits the rest, by what it receives."""
    return aiohttp.ClientTimeout(total=None, connect=connect_s)


OUT_OF_FILES = "no file descriptor is left; raise `ulimit -n` for the gateway"


def is_out_of_files(error: object) -> bool:
    """Whether the process or the system has no file descriptor left."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


def _has_no_files_left(error: Exception) -> bool:
    """Whether a name could not be resolved because its resolver cannot open a file."""
    is_of_resolver = isinstance(error.__cause__, socket.gaierror)
    if not is_of_resolver and not isinstance(error, aiohttp.ClientConnectorDNSError):
        return False
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as failure:
        return is_out_of_files(failure)
    return False


_ERRORS = (
    aiohttp.ClientError,
    HttpProcessingError,
    ConnectionFailure,
    BrokenResponse,
    OSError,
)
_BROKEN_FRAMING = (aiohttp.ClientResponseError, HttpProcessingError)


def _connection_error(error: Exception) -> UpstreamError:
    """Map an error of the HTTP library to a fault: of the connection, or of what it delivered."""
    if is_out_of_files(error) or _has_no_files_left(error):
        return UpstreamError(out_of_files_fault(OUT_OF_FILES))
    if isinstance(error, BrokenResponse):
        return UpstreamError(protocol_fault(f"the HTTP framing is broken: {error}"))
    if isinstance(error, _BROKEN_FRAMING):
        return UpstreamError(protocol_fault(f"the HTTP framing is broken: {error.message}"))
    return UpstreamError(connection_fault(explain_connection_error(error)))


def _without_frames(error: Exception) -> Exception:
    """Return an error without its traceback. aiohttp (3.14) raises one and the same exception for
    every connection that we close: it would keep the frames of all of them."""
    return error.with_traceback(None)


class _HTTPResponse(ABC):
    """What both clients have in common: the limit of a whole body, and the fault of a cut one."""

    __slots__ = ("_began", "_chunks", "_max_body_bytes", "headers", "status")

    def __init__(
        self, status: int, headers: Mapping[str, str], max_body_bytes: int, began: float
    ) -> None:
        """`began` is when the request was sent, by the clock of the event loop."""
        self.status = status
        self.headers = headers
        self._max_body_bytes = max_body_bytes
        self._began = began
        self._chunks = 0

    @abstractmethod
    async def next(self) -> bytes:
        """Return what has arrived of the body; empty at its end."""

    async def read(self) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while piece := await self.next():
            pieces.append(piece)
            size += len(piece)
            if size > self._max_body_bytes:
                raise self._too_large()
        return b"".join(pieces)

    def _too_large(self) -> UpstreamError:
        error = ResponseTooLarge("body_bytes", self._max_body_bytes)
        return UpstreamError(protocol_fault(error.message, FaultKind.RESPONSE_TOO_LARGE))

    def _map_error(self, error: Exception) -> UpstreamError:
        """Map an error; a connection that broke after the first chunk is a stream that was cut."""
        failure = _connection_error(error)
        if failure.fault.code != FaultKind.CONNECTION_FAILED or not self._chunks:
            return failure
        seconds = asyncio.get_running_loop().time() - self._began
        return UpstreamError(
            cut_fault(failure.fault.message, StreamProgress(self._chunks, seconds))
        )


class _PlainResponse(_HTTPResponse):
    """A response to a plain request."""

    __slots__ = ("_response",)

    def __init__(self, response: Response, max_body_bytes: int, began: float) -> None:
        super().__init__(response.status, response.headers, max_body_bytes, began)
        self._response = response

    async def next(self) -> bytes:
        response = self._response
        if response.is_compressed:  # reading never waits while there is something to decompress
            await asyncio.sleep(0)
        try:
            while (chunk := response.take()) is None:
                await response.wait()
        except _ERRORS as error:
            raise self._map_error(error) from _without_frames(error)
        self._chunks += 1
        return chunk

    async def read(self) -> bytes:
        body = self._response.take_whole()
        if body is None:
            return await super().read()
        if len(body) > self._max_body_bytes:
            raise self._too_large()
        return body

    def close(self) -> None:
        self._response.close()


class _AiohttpResponse(_HTTPResponse):
    """A response to a request that aiohttp has sent."""

    def __init__(self, response: aiohttp.ClientResponse, max_body_bytes: int, began: float) -> None:
        super().__init__(response.status, response.headers, max_body_bytes, began)
        self._response = response
        self._is_compressed = "content-encoding" in response.headers

    async def next(self) -> bytes:
        content = self._response.content
        if self._is_compressed:  # reading never waits while there is something to decompress
            await asyncio.sleep(0)
        try:
            chunk = await content.readany()
            if not chunk and (failure := content.exception()) is not None:
                raise failure
        except RuntimeError as error:  # aiohttp 3.14, after a chunk that it could not parse
            raise self._map_error(error) from _without_frames(error)
        except _ERRORS as error:
            # aiohttp drops received bytes when the connection breaks (3.14); the end of the
            # response may be among them.
            if not isinstance(error, OSError) and (received := content._read_nowait(-1)):
                return received
            raise self._map_error(error) from _without_frames(error)
        self._chunks += 1
        return chunk

    def close(self) -> None:
        self._response.close()


_ECHO_TICK_S = 0.05  # how soon a slow response notices that it was closed


class EchoUpstream:
    """The built-in echo provider: real Chat Completions bytes without a network."""

    def __init__(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """`sleep` waits between the chunks of a slow model."""
        self._sleep = sleep

    async def open(self, provider: Provider, outbound: Outbound, key: str) -> UpstreamResponse:
        return _EchoResponse(echo.respond(outbound.body), self._sleep)

    async def close(self) -> None:
        return


class _EchoResponse:
    def __init__(self, reply: echo.EchoResponse, sleep: Callable[[float], Awaitable[None]]) -> None:
        self.status = reply.status
        self.headers: Mapping[str, str] = {"content-type": reply.content_type}
        self._chunks = deque(reply.chunks)
        self._delay_s = reply.delay_s
        self._sleep = sleep

    async def next(self) -> bytes:
        await self._pause()
        return self._chunks.popleft() if self._chunks else b""

    async def read(self) -> bytes:
        await self._pause()
        return b"".join(self._chunks)

    async def _pause(self) -> None:
        """Yield to other tasks, as a socket read does; at a slow model, until its next chunk or
        until the response is closed."""
        if not self._delay_s:
            await asyncio.sleep(0)
        waited_s = 0.0
        while waited_s < self._delay_s and self._chunks:
            await self._sleep(_ECHO_TICK_S)
            waited_s += _ECHO_TICK_S

    def close(self) -> None:
        self._chunks.clear()
