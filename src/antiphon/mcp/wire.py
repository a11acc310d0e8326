"""HTTP of MCP sessions, below the client package.

1. Connections go to addresses that were checked (`CheckedBackend`).
2. Every request must stay within what the policy admits; a redirect is refused, unless the operator
   named the server.
3. The body of a reply is bounded in bytes, and not compressed.
4. What goes wrong is noted in the `Exchange` of the request that it belongs to, which travels in a
   context variable: the client package runs each request in the context of its sender. It gets a
   reply with status 599 instead of an exception, which would end the whole session.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import cache
from typing import Any

import httpcore2
import httpx2

from antiphon.core.mcp.values import McpProblem
from antiphon.mcp.addresses import Network, is_internal
from antiphon.mcp.exchange import Exchange, current_exchange
from antiphon.mcp.policy import Endpoint
from antiphon.mcp.problems import http_problem, status_problem
from antiphon.mcp.urls import Location, read_url

FAILED = 599
"""The status of a reply that stands for a failure of ours or of the network."""
_NETWORK_ERRORS = (
    httpcore2.NetworkError,
    httpcore2.TimeoutException,
    httpcore2.ProtocolError,
    httpcore2.UnsupportedProtocol,
    OSError,
)
_CONNECTIONS = 32  # calls of one response that wait for one server at a time


class CheckedBackend(httpcore2.AsyncNetworkBackend):
    """Opens connections to one host, whose name is resolved once; raises `ConnectError`."""

    def __init__(
        self,
        endpoint: Endpoint,
        network: Network,
    ) -> None:
        self._endpoint = endpoint
        self._resolve = network.resolve
        self._addresses: Sequence[str] = ()
        self.is_refused = False
        """The name of the host has an address that is not one of the public internet."""
        self._backend = network.backend or httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature of the package
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        last: Exception = httpcore2.ConnectError("no address")
        for address in await self._find_addresses():
            try:
                return await self._backend.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                last = error
        raise last

    async def _find_addresses(self) -> Sequence[str]:
        location = self._endpoint.location
        if not self._addresses:
            found = await self._resolve(location.host, location.port)
            if not self._endpoint.is_trusted and any(map(is_internal, found)):
                self.is_refused = True
                raise httpcore2.ConnectError("an address that is not public")
            self._addresses = found
        return self._addresses


class CheckedTransport(httpx2.AsyncBaseTransport):
    """Sends the requests of one session."""

    def __init__(
        self,
        endpoint: Endpoint,
        admits: Callable[[Location], bool],
        network: Network,
        max_bytes: int,
        *,
        notes_streams: bool,
    ) -> None:
        """`notes_streams`: failures of GET requests matter, too (the older transport)."""
        self._endpoint = endpoint
        self._admits = admits
        self._max_bytes = max_bytes
        self._notes_streams = notes_streams
        self._backend = CheckedBackend(endpoint, network)
        is_plain = endpoint.location.scheme == "http"
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=network.tls if is_plain else network.tls or _make_ssl_context(),
            max_connections=_CONNECTIONS,
            max_keepalive_connections=_CONNECTIONS,
            network_backend=self._backend,
        )
        self._streamed = _Count()
        """Bytes of streams since the last message was sent."""

    async def aclose(self) -> None:
        await self._pool.aclose()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        exchange = self._find_exchange(request)
        problem = self._find_offence(str(request.url))
        if problem is None:
            try:
                return await self._exchange(request, exchange)
            except httpcore2.TimeoutException:
                problem = self._describe("did not respond in time")
            except _NETWORK_ERRORS as error:
                problem = self._explain(error)
        exchange.note(FAILED, problem)
        return httpx2.Response(FAILED)

    def _find_exchange(self, request: httpx2.Request) -> Exchange:
        """The exchange to note things in: that of the sender, or one that nothing reads."""
        found = current_exchange.get()
        noted = request.method == "POST" or (self._notes_streams and request.method == "GET")
        return found if found is not None and noted else Exchange()

    def _find_offence(self, url: str) -> McpProblem | None:
        """Whether a URL, which the server may have chosen, leaves what may be called."""
        location = read_url(url)
        if location is None or location.origin != self._endpoint.location.origin:
            return self._describe("refers to another server, which is not called")
        if self._endpoint.is_trusted or self._admits(location):
            return None
        return self._describe("refers to a URL that `allow` in [mcp] of the gateway does not list")

    async def _exchange(self, request: httpx2.Request, exchange: Exchange) -> httpx2.Response:
        """Send a request; the reply has arrived up to its body."""
        exchange.begin()
        if request.method == "POST":
            self._streamed.clear()
        url = request.url
        assert isinstance(request.stream, httpx2.AsyncByteStream)
        reply = await self._pool.handle_async_request(
            httpcore2.Request(
                method=request.method,
                url=httpcore2.URL(
                    scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
                ),
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        count = _Count() if request.method == "POST" else self._streamed
        body = _BoundedBody(reply, count, self._max_bytes, exchange, self._endpoint.label)
        response = httpx2.Response(
            reply.status, headers=reply.headers, stream=body, extensions=reply.extensions
        )
        refusal = self._find_refusal(url, response)
        if refusal is not None:
            await reply.aclose()
            exchange.note(FAILED, refusal)
            return httpx2.Response(FAILED)
        is_error = reply.status >= 400
        exchange.note(
            reply.status,
            status_problem(self._endpoint.label, reply.status) if is_error else None,
            is_session_lost=reply.status == 404 and "mcp-session-id" in request.headers,
        )
        return response

    def _find_refusal(self, url: httpx2.URL, response: httpx2.Response) -> McpProblem | None:
        if response.has_redirect_location and self._is_foreign(url, response):
            return self._describe("redirects to another URL, which is not called")
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            return self._describe("compressed its reply, which was not requested")
        return None

    def _is_foreign(self, url: httpx2.URL, response: httpx2.Response) -> bool:
        """Whether a redirect may not be followed; only a trusted server may redirect, and only
        within its origin."""
        if not self._endpoint.is_trusted:
            return True
        try:
            location = read_url(str(url.join(response.headers["location"])))
        except (httpx2.InvalidURL, ValueError):
            return True
        return location is None or location.origin != self._endpoint.location.origin

    def _explain(self, error: Exception) -> McpProblem:
        if self._backend.is_refused:
            allowed = "only the operator of the gateway can allow that"
            return self._describe(f"has an address that is not public; {allowed}")
        return self._describe(f"could not be reached ({type(error).__name__})")

    def _describe(self, what: str) -> McpProblem:
        return http_problem(f"MCP server '{self._endpoint.label}' {what}.")


@cache
def _make_ssl_context() -> ssl.SSLContext:
    """Made once: it reads the certificates of all authorities."""
    return httpx2.create_ssl_context()


class _Count:
    """Bytes that were received."""

    def __init__(self) -> None:
        self._bytes = 0

    def add(self, size: int) -> int:
        self._bytes += size
        return self._bytes

    def clear(self) -> None:
        self._bytes = 0


class _BoundedBody(httpx2.AsyncByteStream):
    """The body of a reply; raises `StreamError`, which fails one request and not the session."""

    def __init__(
        self,
        reply: httpcore2.Response,
        count: _Count,
        max_bytes: int,
        exchange: Exchange,
        label: str,
    ) -> None:
        self._reply = reply
        self._count = count
        self._max_bytes = max_bytes
        self._exchange = exchange
        self._label = label

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._reply.aiter_stream():
                if self._count.add(len(chunk)) > self._max_bytes:
                    raise self._fail(f"sent more than {self._max_bytes:,} bytes")
                yield chunk
        except _NETWORK_ERRORS as error:
            raise self._fail(f"broke off its reply ({type(error).__name__})") from None

    def _fail(self, what: str) -> httpx2.StreamError:
        problem = http_problem(f"MCP server '{self._label}' {what}.")
        self._exchange.note(FAILED, problem)
        return httpx2.StreamError(what)

    async def aclose(self) -> None:
        await self._reply.aclose()
