"""HTTP clients for the SDKs of OpenAI and Anthropic that call the application in this process: no
server, no port.

Everything that takes an `http_client` (the official SDKs, the Agents SDK, LangChain, pydantic-ai)
then runs on any provider. Each needs its SDK: the extras `antiphon[openai]` and
`antiphon[anthropic]`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Literal, overload

import httpx2
from msgspec.structs import replace

from antiphon.library.application_host import ApplicationHost
from antiphon.library.blocking import LoopThread
from antiphon.library.settings import ConfigLike, resolve_config
from antiphon.server.http import HTTPRequest, HTTPResponse, StreamingBody


@overload
def openai_http_client(
    config: ConfigLike = None, *, blocking: Literal[False] = False
) -> httpx2.AsyncClient: ...


@overload
def openai_http_client(config: ConfigLike = None, *, blocking: Literal[True]) -> httpx2.Client: ...


def openai_http_client(
    config: ConfigLike = None, *, blocking: bool = False
) -> httpx2.AsyncClient | httpx2.Client:
    """Make the `http_client` of an `AsyncOpenAI`, or of an `OpenAI` if `blocking`, for Responses
    and Chat Completions.

    `config` is as for `antiphon.open`. Requests never leave the process except to the providers,
    whatever `base_url` the SDK has; the SDK's own key is not used.
    """
    from openai import DefaultAsyncHttpxClient, DefaultHttpxClient

    if blocking:
        return DefaultHttpxClient(transport=_BlockingTransport(_make_host(config)))
    return DefaultAsyncHttpxClient(transport=_AsyncTransport(_make_host(config)))


@overload
def anthropic_http_client(
    config: ConfigLike = None, *, blocking: Literal[False] = False
) -> httpx2.AsyncClient: ...


@overload
def anthropic_http_client(
    config: ConfigLike = None, *, blocking: Literal[True]
) -> httpx2.Client: ...


def anthropic_http_client(
    config: ConfigLike = None, *, blocking: bool = False
) -> httpx2.AsyncClient | httpx2.Client:
    """Make the `http_client` of an `AsyncAnthropic`, or of an `Anthropic` if `blocking`; as
    `openai_http_client` does for its SDK."""
    from anthropic import DefaultAsyncHttpxClient, DefaultHttpxClient

    if blocking:
        return DefaultHttpxClient(transport=_BlockingTransport(_make_host(config)))
    return DefaultAsyncHttpxClient(transport=_AsyncTransport(_make_host(config)))


def _make_host(config: ConfigLike) -> ApplicationHost:
    """Make the host of an application without client keys: they guard a port, and there is none."""
    resolved = resolve_config(config)
    return ApplicationHost(replace(resolved, server=replace(resolved.server, api_keys={})))


async def _handle(host: ApplicationHost, request: httpx2.Request, body: bytes) -> HTTPResponse:
    application = await host.open()
    headers = {**request.headers, "host": "localhost"}
    path = request.url.path
    query = request.url.query.decode("ascii")
    return await application.handle(
        HTTPRequest.with_body(request.method, path, headers, body, query=query)
    )


class _AsyncTransport(httpx2.AsyncBaseTransport):
    def __init__(self, host: ApplicationHost) -> None:
        self._host = host

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        reply = await _handle(self._host, request, await request.aread())
        if isinstance(reply.body, bytes):
            return httpx2.Response(reply.status, headers=reply.headers, content=reply.body)
        stream = _AsyncBody(reply.body)
        return httpx2.Response(reply.status, headers=reply.headers, stream=stream)

    async def aclose(self) -> None:
        await self._host.close()


class _AsyncBody(httpx2.AsyncByteStream):
    def __init__(self, body: StreamingBody) -> None:
        self._body = body
        self._pieces = body.__aiter__()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces

    async def aclose(self) -> None:
        try:
            await self._pieces.aclose()
        finally:
            await self._body.close()


class _BlockingTransport(httpx2.BaseTransport):
    """The application in a thread with a loop of its own, for clients without asyncio."""

    def __init__(self, host: ApplicationHost) -> None:
        self._host = host
        self._thread = LoopThread()

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        reply = self._thread.call(_handle(self._host, request, request.read()))
        headers: Mapping[str, str] = reply.headers
        if isinstance(reply.body, bytes):
            return httpx2.Response(reply.status, headers=headers, content=reply.body)
        stream = _BlockingBody(reply.body, self._thread)
        return httpx2.Response(reply.status, headers=headers, stream=stream)

    def close(self) -> None:
        self._thread.close(self._host.close())


class _BlockingBody(httpx2.SyncByteStream):
    def __init__(self, body: StreamingBody, thread: LoopThread) -> None:
        self._body = _AsyncBody(body)
        self._thread = thread

    def __iter__(self) -> Iterator[bytes]:
        pieces = self._body.__aiter__()
        while (piece := self._thread.call(_next_piece(pieces))) is not None:
            yield piece

    def close(self) -> None:
        self._thread.call(self._body.aclose())


async def _next_piece(pieces: AsyncIterator[bytes]) -> bytes | None:
    return await anext(pieces, None)
