"""HTTP proxy between a client and the gateway that passes each event on as it comes.

It may cancel a response, or cut a connection, at a chosen event.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

from tests.support.clients.gateway import ClientGateway
from tests.support.clients.proxy import OWN_HEADERS, at_address, serve_at_port

_KEEP_ALIVE = b"event: keepalive\n"


@dataclass
class StreamProxy:
    """A proxy, and the streams that it has passed on."""

    gateway: ClientGateway
    """The same gateway at the address of the proxy."""
    cut_after: int = 0
    """Cut the connection of the next stream after this many events, once; 0: never."""
    cancels_at: str = ""
    """Make each response a background response, and cancel it at an event with this text."""
    streams: list[list[dict[str, Any]]] = field(default_factory=list)
    """The events of each stream that the client was sent."""
    attached: list[str] = field(default_factory=list)
    """The response that each stream was attached to, or an empty text."""
    keep_alive: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by every keep-alive event."""
    is_attached: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by a stream that is attached to a response."""

    async def wait_for_keep_alive(self) -> None:
        """Wait for the next keep-alive event."""
        self.keep_alive.clear()
        await self.keep_alive.wait()

    def cut_next(self, count: int) -> None:
        """Cut the connection of the next stream after this many events."""
        self.cut_after = count
        self.is_attached.clear()

    def prepare_body(self, body: bytes) -> bytes:
        if not self.cancels_at or not body:
            return body
        return json.dumps({**json.loads(body), "background": True, "store": True}).encode()

    async def pass_on(self, source: aiohttp.ClientResponse, target: web.StreamResponse) -> bool:
        """Pass the events of a stream on; return whether all of them were."""
        events: list[dict[str, Any]] = []
        self.streams.append(events)
        self.attached.append(source.headers.get("antiphon-attached", ""))
        if self.attached[-1]:
            self.is_attached.set()
        async for frame in _read_frames(source):
            await target.write(frame)
            if frame.startswith(_KEEP_ALIVE):
                self.keep_alive.set()
            data = frame.partition(b"data: ")[2]
            if data.startswith(b"{"):
                events.append(json.loads(data))
            if self.cut_after and len(events) == self.cut_after:
                self.cut_after = 0
                return False
            if self.cancels_at and self.cancels_at.encode() in frame:
                self.cancels_at = ""
                await self.cancel(events[0]["response"]["id"], source)
        return True

    async def cancel(self, response_id: str, source: aiohttp.ClientResponse) -> None:
        running = self.gateway.gateway
        headers = {"authorization": source.request_info.headers["authorization"]}
        url = f"{running.base_url}/responses/{response_id}/cancel"
        async with running.client.post(url, headers=headers) as answer:
            assert answer.status == 200, await answer.text()


async def _read_frames(source: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    rest = b""
    async for data in source.content.iter_any():
        *frames, rest = (rest + data).split(b"\n\n")
        for frame in frames:
            yield frame + b"\n\n"


@asynccontextmanager
async def stream_proxy(
    gateway: ClientGateway, *, cancels_at: str = ""
) -> AsyncIterator[StreamProxy]:
    """Run a proxy in front of a gateway."""
    proxy = StreamProxy(gateway, cancels_at=cancels_at)

    async def forward(request: web.Request) -> web.StreamResponse:
        headers = {k: v for k, v in request.headers.items() if k.lower() not in OWN_HEADERS}
        url = gateway.gateway.base_url.removesuffix("/v1") + request.path_qs
        body = proxy.prepare_body(await request.read())
        async with gateway.gateway.client.request(
            request.method, url, data=body, headers=headers
        ) as source:
            kept = {k: v for k, v in source.headers.items() if k.lower() not in OWN_HEADERS}
            if source.content_type != "text/event-stream":
                return web.Response(status=source.status, headers=kept, body=await source.read())
            target = web.StreamResponse(status=source.status, headers=kept)
            await target.prepare(request)
            is_complete = await proxy.pass_on(source, target)
        if is_complete:
            await target.write_eof()
        elif request.transport is not None:
            request.transport.abort()
        return target

    async with serve_at_port(forward) as url:
        proxy.gateway = at_address(gateway, url)
        yield proxy
