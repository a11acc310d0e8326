"""HTTP proxy between a client and the gateway: records requests, and may change streams."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import aiohttp
from aiohttp import web

from tests.support.clients.gateway import ClientGateway

Change: TypeAlias = Callable[[list[bytes]], list[bytes]]
Handle: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]
OWN_HEADERS = {"content-length", "transfer-encoding", "host"}
"""Headers that each connection has for itself."""
_PASSED_ON = {"authorization", "user-agent", "originator"}


@dataclass
class ChangingProxy:
    """A proxy, with method, path and status of each request."""

    gateway: ClientGateway
    """The same gateway at the address of the proxy."""
    seen: list[tuple[str, str, int]] = field(default_factory=list)
    frames: list[dict[str, Any]] = field(default_factory=list)
    """What the client has sent over WebSockets."""

    async def connect(self, request: web.Request, url: str) -> web.WebSocketResponse:
        """Pass the frames of a WebSocket on, in both directions."""
        incoming = web.WebSocketResponse(max_msg_size=0)
        names = _PASSED_ON & {name.lower() for name in request.headers}
        headers = {name: request.headers[name] for name in names}
        client = self.gateway.gateway.client
        async with client.ws_connect(url, headers=headers, max_msg_size=0) as outgoing:
            self.seen.append((request.method, request.path, 101))
            await incoming.prepare(request)
            back = asyncio.ensure_future(_pass_on(outgoing, incoming))
            async for message in incoming:
                self.frames.append(json.loads(message.data))
                await outgoing.send_str(message.data)
            back.cancel()
        return incoming


async def _pass_on(source: aiohttp.ClientWebSocketResponse, target: web.WebSocketResponse) -> None:
    async for message in source:
        await target.send_str(message.data)
    await target.close()


@asynccontextmanager
async def changing_proxy(
    gateway: ClientGateway, change: Change | None = None
) -> AsyncIterator[ChangingProxy]:
    """Run a proxy; `change` maps the frames of a stream to those that are sent instead."""
    proxy = ChangingProxy(gateway)

    async def forward(request: web.Request) -> web.StreamResponse:
        headers = {k: v for k, v in request.headers.items() if k.lower() not in OWN_HEADERS}
        url = gateway.gateway.base_url.removesuffix("/v1") + request.path_qs
        if request.headers.get("upgrade", "").lower() == "websocket":
            try:
                return await proxy.connect(request, url)
            except aiohttp.WSServerHandshakeError as error:
                proxy.seen.append((request.method, request.path, error.status))
                return web.Response(status=error.status)
        body = await request.read()
        async with gateway.gateway.client.request(
            request.method, url, data=body, headers=headers
        ) as response:
            data = await response.read()
            proxy.seen.append((request.method, request.path, response.status))
            if change and response.content_type == "text/event-stream":
                frames = [frame + b"\n\n" for frame in data.split(b"\n\n") if frame]
                data = b"".join(change(frames))
            kept = {k: v for k, v in response.headers.items() if k.lower() not in OWN_HEADERS}
            return web.Response(status=response.status, headers=kept, body=data)

    async with serve_at_port(forward) as url:
        proxy.gateway = at_address(gateway, url)
        yield proxy


def at_address(gateway: ClientGateway, url: str) -> ClientGateway:
    """Return the same gateway at another address for clients."""
    return replace(gateway, base_url=url, address={"OPENAI_BASE_URL": url})


@asynccontextmanager
async def serve_at_port(handle: Handle) -> AsyncIterator[str]:
    """Serve every path on a port of its own; the value is the URL for clients."""
    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()
