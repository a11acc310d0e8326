"""Upstreams: how a provider is called, over HTTP or inside the process (the built-in echo)."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Protocol

import aiohttp

from antiphon.config import TimeoutConfig
from antiphon.core.faults.fault import connection_fault, timeout_fault
from antiphon.core.plan.plan import Outbound
from antiphon.errors import UpstreamError
from antiphon.providers import echo
from antiphon.providers.registry import Provider

_HEADER_LIMIT = 64 * 1024  # some providers send many headers
_ERROR_BODY_LIMIT = 1024 * 1024


class UpstreamAnswer(Protocol):
    """An HTTP answer: its head has arrived, its body follows."""

    status: int
    headers: Mapping[str, str]

    async def next(self) -> bytes:
        """Return what has arrived; empty at the end."""

    async def read(self) -> bytes:
        """Return the whole body."""

    def close(self) -> None:
        """Disconnect. A pending read returns or raises."""


async def error_body(answer: UpstreamAnswer) -> bytes:
    """Read the body of an error answer, up to a limit; a broken connection ends it."""
    pieces: list[bytes] = []
    with suppress(UpstreamError):
        while sum(map(len, pieces)) < _ERROR_BODY_LIMIT and (piece := await answer.next()):
            pieces.append(piece)
    return b"".join(pieces)[:_ERROR_BODY_LIMIT]


class Upstream(Protocol):
    async def open(self, provider: Provider, outbound: Outbound, key: str) -> UpstreamAnswer: ...
    async def close(self) -> None: ...


class HTTPUpstream:
    """Providers on the network, through one connection pool."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        """`now` is the clock of request signatures."""
        self._now = now
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=60),
            timeout=aiohttp.ClientTimeout(total=None, sock_read=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=True,
            max_field_size=_HEADER_LIMIT,
        )

    async def open(self, provider: Provider, outbound: Outbound, key: str) -> UpstreamAnswer:
        headers = {
            "content-type": "application/json",
            "user-agent": "antiphon",
            **provider.authorization(key, outbound, self._timestamp),
            **provider.headers,
            **outbound.headers,
        }
        try:
            response = await self._session.post(
                provider.request_url(outbound),
                data=outbound.body,
                headers=headers,
                allow_redirects=False,
                timeout=_timeout(provider.timeouts),
            )
        except aiohttp.ConnectionTimeoutError as error:
            raise UpstreamError(timeout_fault("connect")) from error
        except (aiohttp.ClientError, OSError) as error:
            raise _connection_error(error) from error
        return _HTTPAnswer(response)

    async def close(self) -> None:
        await self._session.close()

    def _timestamp(self) -> str:
        """Return the timestamp of a request signature."""
        return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self._now()))


def _timeout(timeouts: TimeoutConfig) -> aiohttp.ClientTimeout:
    """Limit only connecting; the run limits the rest, by what it receives."""
    return aiohttp.ClientTimeout(total=None, connect=timeouts.connect_s)


def _connection_error(error: Exception) -> UpstreamError:
    """Map an error of the HTTP library to a connection fault."""
    return UpstreamError(connection_fault(type(error).__name__))


class _HTTPAnswer:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    async def next(self) -> bytes:
        content = self._response.content
        try:
            return await content.readany()
        except RuntimeError as error:  # aiohttp 3.14, after a chunk that it could not parse
            raise _connection_error(error) from error
        except (aiohttp.ClientError, OSError) as error:
            # aiohttp drops received bytes when the connection breaks (3.14); the end of the
            # answer may be among them.
            if isinstance(error, aiohttp.ClientError) and (received := content._read_nowait(-1)):
                return received
            raise _connection_error(error) from error

    async def read(self) -> bytes:
        try:
            return await self._response.read()
        except (aiohttp.ClientError, OSError) as error:
            raise _connection_error(error) from error

    def close(self) -> None:
        self._response.close()


class EchoUpstream:
    """The built-in echo provider: real Chat Completions bytes without a network."""

    async def open(self, provider: Provider, outbound: Outbound, key: str) -> UpstreamAnswer:
        return _EchoAnswer(echo.answer(outbound.body))

    async def close(self) -> None:
        return


class _EchoAnswer:
    def __init__(self, answer: echo.EchoAnswer) -> None:
        self.status = answer.status
        self.headers: Mapping[str, str] = {"content-type": answer.content_type}
        self._chunks = deque(answer.chunks)

    async def next(self) -> bytes:
        await asyncio.sleep(0)  # yields to other tasks, as a socket read does
        return self._chunks.popleft() if self._chunks else b""

    async def read(self) -> bytes:
        return b"".join(self._chunks)

    def close(self) -> None:
        self._chunks.clear()
