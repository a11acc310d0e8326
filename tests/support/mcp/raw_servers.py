"""HTTP servers that are no MCP servers, or bad ones: each reply is made by hand."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

INITIALIZED = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {"listChanged": True}},
    "serverInfo": {"name": "raw", "version": "1"},
}


@dataclass
class Request:
    """A request, as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> dict[str, Any]:
        """The message of the protocol; empty if there is none."""
        found: dict[str, Any] = json.loads(self.body) if self.body else {}
        return found


@dataclass
class RawServer:
    """Replies to each request with the chunks of `reply`."""

    reply: Callable[[Request], Iterable[bytes] | None]
    """None: never replies."""
    url: str = ""
    requests: list[Request] = field(default_factory=list)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    sent: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            with contextlib.suppress(
                ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError
            ):
                await self._reply_to_all(reader, writer)
        finally:
            writer.transport.abort()

    async def _reply_to_all(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while True:
            request = await _read_request(reader)
            self.requests.append(request)
            chunks = self.reply(request)
            if chunks is None:
                await reader.read()  # until the client leaves
                return
            for chunk in chunks:
                writer.write(chunk)
                await writer.drain()
                self.sent += len(chunk)


async def _read_request(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    method, path, _ = first.split()
    return Request(method, path, headers, body)


@asynccontextmanager
async def raw_server(
    reply: Callable[[Request], Iterable[bytes] | None], certificate: Path | None = None
) -> AsyncIterator[RawServer]:
    state = RawServer(reply)
    context = None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
    server = await asyncio.start_server(state.serve, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    state.url = f"{'https' if certificate else 'http'}://127.0.0.1:{port}/mcp"
    try:
        yield state
    finally:
        server.close()
        for task in state.tasks:
            task.cancel()
        await asyncio.gather(*state.tasks, return_exceptions=True)


# Replies


def http(
    status: int, body: bytes = b"", kind: str = "application/json", **headers: str
) -> list[bytes]:
    lines = [f"HTTP/1.1 {status} Raw", f"content-type: {kind}", f"content-length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ["\r\n".join([*lines, "", ""]).encode() + body]


def result(request: Request, content: Any, **headers: str) -> list[bytes]:
    """The reply to a request of the protocol."""
    document = {"jsonrpc": "2.0", "id": request.message["id"], "result": content}
    return http(200, json.dumps(document).encode(), **headers)


def session_of(
    reply: Callable[[Request], Iterable[bytes] | None],
) -> Callable[[Request], Iterable[bytes] | None]:
    """A server that opens sessions as it should, and then replies with `reply`."""

    def handle(request: Request) -> Iterable[bytes] | None:
        method = request.message.get("method", "")
        if request.method != "POST":
            return http(405)
        if method == "server/discover":
            return http(400)
        if method == "initialize":
            return result(request, INITIALIZED)
        if "id" not in request.message:
            return http(202)
        return reply(request)

    return handle
