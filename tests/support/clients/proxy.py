"""HTTP proxy between a client and the gateway: records requests, and may change streams."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from aiohttp import web

from tests.support.clients.gateway import ClientGateway

Change: TypeAlias = Callable[[list[bytes]], list[bytes]]
_OWN_HEADERS = {"content-length", "transfer-encoding", "host"}


@dataclass
class ChangingProxy:
    """A proxy, with method, path and status of each request."""

    gateway: ClientGateway
    """The same gateway at the address of the proxy."""
    seen: list[tuple[str, str, int]] = field(default_factory=list)


@asynccontextmanager
async def changing_proxy(
    gateway: ClientGateway, change: Change | None = None
) -> AsyncIterator[ChangingProxy]:
    """Run a proxy; `change` maps the frames of a stream to those that are sent instead."""
    proxy = ChangingProxy(gateway)

    async def forward(request: web.Request) -> web.StreamResponse:
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _OWN_HEADERS}
        url = gateway.gateway.base_url.removesuffix("/v1") + request.path_qs
        body = await request.read()
        async with gateway.gateway.client.request(
            request.method, url, data=body, headers=headers
        ) as response:
            data = await response.read()
            proxy.seen.append((request.method, request.path, response.status))
            if change and response.content_type == "text/event-stream":
                frames = [frame + b"\n\n" for frame in data.split(b"\n\n") if frame]
                data = b"".join(change(frames))
            kept = {k: v for k, v in response.headers.items() if k.lower() not in _OWN_HEADERS}
            return web.Response(status=response.status, headers=kept, body=data)

    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{path:.*}", forward)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        proxy.gateway = replace(gateway, base_url=url, address={"OPENAI_BASE_URL": url})
        yield proxy
    finally:
        await runner.cleanup()
