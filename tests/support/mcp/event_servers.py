"""Servers of the older transport (SSE), made by hand: one stream has the replies to messages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from aiohttp import web

from tests.support.mcp.raw_servers import INITIALIZED

Document = dict[str, Any]
Said: TypeAlias = Iterable[bytes] | int | None
"""What a server does about a message: bytes for the stream, the status of the POST request, or
nothing. An empty chunk ends the stream."""
Respond: TypeAlias = Callable[[Document], Said]


class EventServer:
    """Opens sessions as it should, unless `opens` is False; `respond` decides about every other
    request."""

    def __init__(self, respond: Respond, *, opens: bool) -> None:
        self._respond = respond
        self._opens = opens
        self._streams: list[asyncio.Queue[bytes]] = []
        self.url = ""
        self.methods: list[str] = []
        self.sent = 0

    async def stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._streams.append(queue)
        await response.write(b"event: endpoint\ndata: /messages\n\n")
        while chunk := await queue.get():
            await response.write(chunk)
            self.sent += len(chunk)
        return response

    async def post(self, request: web.Request) -> web.Response:
        message: Document = await request.json()
        method = message.get("method", "")
        self.methods.append(method)
        if "id" not in message:
            return web.Response(status=202)
        is_opening = self._opens and method == "initialize"
        said = event(message, INITIALIZED) if is_opening else self._respond(message)
        if isinstance(said, int):
            return web.Response(status=said)
        self.say(said or ())
        return web.Response(status=202)

    def say(self, chunks: Iterable[bytes], session: int = -1) -> None:
        """Send on the stream of a session, by default the last one that was opened."""
        for chunk in chunks:
            self._streams[session].put_nowait(chunk)


def event(message: Mapping[str, Any], result: Any) -> list[bytes]:
    """The reply to a request of the protocol, as an event of the stream."""
    document = {"jsonrpc": "2.0", "id": message["id"], "result": result}
    return [f"event: message\ndata: {json.dumps(document)}\n\n".encode()]


@asynccontextmanager
async def event_server(respond: Respond, *, opens: bool = True) -> AsyncIterator[EventServer]:
    state = EventServer(respond, opens=opens)
    app = web.Application()
    app.router.add_get("/sse", state.stream)
    app.router.add_post("/messages", state.post)
    runner = web.AppRunner(app, shutdown_timeout=0, handler_cancellation=True)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        state.url = f"http://127.0.0.1:{port}/sse"
        yield state
    finally:
        await runner.cleanup()
