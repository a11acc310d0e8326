"""ASGI application: the gateway mounted in Starlette, FastAPI or any ASGI server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import partial

from antiphon.library.application_host import ApplicationHost
from antiphon.library.asgi_websocket import Message, Receive, Send, serve_websocket
from antiphon.library.settings import ConfigLike
from antiphon.server.content_encoding import ContentDecoder
from antiphon.server.http import HTTPRequest, HTTPResponse, StreamingBody


def asgi_app(config: ConfigLike = None) -> ASGIApplication:
    """Make an ASGI application of all endpoints; `config` is as for `antiphon.open`.

    It is opened at start-up, or with the first request where a framework does not pass the
    `lifespan` events on to mounted applications.
    """
    return ASGIApplication(ApplicationHost(config))


class ASGIApplication:
    """The gateway's endpoints as an ASGI 3 application."""

    def __init__(self, host: ApplicationHost) -> None:
        self._host = host

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "lifespan":
                await self._run_lifespan(receive, send)
            case "http":
                await self._respond(scope, receive, send)
            case "websocket":
                http = _read_handshake(scope, receive)
                await serve_websocket(await self._host.open(), http, scope, receive, send)

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        await self._host.open()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._host.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _respond(self, scope: Message, receive: Receive, send: Send) -> None:
        application = await self._host.open()
        try:
            response = await application.handle(_read_request(scope, receive))
        except ConnectionError:
            return  # the client is gone
        body = response.body
        if isinstance(body, bytes):
            await _start(response, send)
            await send({"type": "http.response.body", "body": body})
            return
        try:
            await _start(response, send)
            await _stream(body, receive, send)
        finally:
            await body.close()


def _read_handshake(scope: Message, receive: Receive) -> HTTPRequest:
    """Read the request of a handshake, whose header `Upgrade` some servers leave out."""
    headers = [*scope["headers"], (b"upgrade", b"websocket")]
    return _read_request({**scope, "method": "GET", "headers": headers}, receive)


def _read_request(scope: Message, receive: Receive) -> HTTPRequest:
    headers = _read_headers(scope["headers"])
    return HTTPRequest(
        method=scope["method"],
        path=scope["path"].removeprefix(scope.get("root_path", "")),
        headers=headers,
        remote=(scope.get("client") or ("",))[0],
        read_body=partial(_read_body, receive, headers),
        query=scope.get("query_string", b"").decode("latin-1"),
    )


async def _start(response: HTTPResponse, send: Send) -> None:
    headers = [(name.encode(), value.encode("latin-1")) for name, value in response.headers.items()]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})


async def _stream(body: StreamingBody, receive: Receive, send: Send) -> None:
    """Send a streaming body; a client that disconnects ends it."""

    async def write(data: bytes) -> None:
        await send({"type": "http.response.body", "body": data, "more_body": True})

    writing = asyncio.ensure_future(body.write_to(write))
    tasks = (writing, asyncio.ensure_future(_wait_for_disconnect(receive)))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if writing.done():
            await writing
            await send({"type": "http.response.body", "body": b""})
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _read_body(
    receive: Receive, headers: Mapping[str, str], feed: Callable[[bytes], None]
) -> None:
    """Pass on the pieces of a body as they arrive, decompressed."""
    encoding = headers.get("content-encoding", "identity")
    decoder = None if encoding == "identity" else ContentDecoder(encoding)
    async for data in _receive_pieces(receive):
        for piece in [data] if decoder is None else decoder.feed(data):
            feed(piece)
    if decoder is not None:
        decoder.close()


async def _receive_pieces(receive: Receive) -> AsyncIterator[bytes]:
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionResetError("The client disconnected before its request was complete.")
        if body := message.get("body", b""):
            yield body
        more = message.get("more_body", False)


def _read_headers(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}
