"""An MCP server written with the official package: a tool for each kind of result and trouble.

It runs in a thread with an event loop of its own, on a free port of this machine.
"""

from __future__ import annotations

import base64
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import anyio
import uvicorn
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import EmbeddedResource, ResourceLink, TextContent, TextResourceContents
from pydantic import Field
from starlette.applications import Starlette
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
Transport: TypeAlias = Literal["streamable", "sse"]
_ANY_HOST = TransportSecuritySettings(enable_dns_rebinding_protection=False)


class ToolsServer:
    """The server, and what it has seen."""

    def __init__(self, *, is_legacy: bool = False, is_lenient: bool = False) -> None:
        self.url = ""
        self.token = ""
        """Requests must have this bearer token; empty: any."""
        self.requests: list[tuple[str, dict[str, str]]] = []
        """Method and headers of every HTTP request."""
        self.methods: list[str] = []
        """Methods of the protocol, in the order of their arrival."""
        self.waiting = threading.Event()
        self.cancelled = threading.Event()
        self.issued: set[str] = set()
        """Ids of sessions."""
        self.forgotten: set[str] = set()
        self.loses_all = False
        """Loses every session at once."""
        self.is_legacy = is_legacy
        """Without the stateless protocol of 2026: with sessions."""
        self.is_lenient = is_lenient
        """Refuses a session id that it does not know with 400, as some servers do."""
        self.mcp = MCPServer("tests")
        _add_plain_tools(self.mcp)
        _add_slow_tools(self.mcp, self)

    def require_token(self, token: str) -> None:
        self.token = token

    def lose_sessions(self) -> None:
        self.forgotten |= self.issued

    def count(self, method: str) -> int:
        return self.methods.count(method)


def _add_plain_tools(server: MCPServer) -> None:
    @server.tool(description="Greets.")
    def greet(name: str) -> str:
        return f"Hello {name}"

    @server.tool(structured_output=False)
    def picture() -> Image:
        return Image(data=PIXEL, format="png")

    @server.tool(structured_output=False)
    def document() -> list[TextContent | EmbeddedResource | ResourceLink]:
        inside = TextResourceContents(uri="file:///a.txt", mime_type="text/plain", text="inside")
        return [
            TextContent(type="text", text="Two files:"),
            EmbeddedResource(type="resource", resource=inside),
            ResourceLink(type="resource_link", uri="file:///b.txt", name="b.txt"),
        ]

    @server.tool()
    def weather() -> dict[str, int]:
        return {"degrees": 21}

    @server.tool()
    def broken() -> str:
        raise ToolError("There is no such city.")

    @server.tool()
    def large(size: int) -> str:
        return "x" * size

    @server.tool()
    def regional(
        region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})],
    ) -> str:
        return f"in {region}"

    @server.tool()
    def authorization(context: Context) -> str:
        return (context.headers or {}).get("authorization", "none")


def _add_slow_tools(server: MCPServer, state: ToolsServer) -> None:
    @server.tool()
    async def wait() -> str:
        state.waiting.set()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            state.cancelled.set()
            raise
        return ""

    @server.tool()
    async def work(steps: int, pause_s: float, context: Context) -> str:
        for step in range(steps):
            await anyio.sleep(pause_s)
            await context.report_progress(step + 1, steps)
        return f"{steps} steps"

    @server.tool()
    async def grow(context: Context) -> str:
        server.add_tool(lambda: "new", name=f"tool_{len(state.methods)}", description="New.")
        await context.session.send_tool_list_changed()
        return "grown"


class _Gate:
    """Sees every request first: refuses tokens and sessions, and notes what arrives."""

    def __init__(self, state: ToolsServer, app: ASGIApp) -> None:
        self._state = state
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = self._state
        headers = {key.decode(): value.decode() for key, value in scope["headers"]}
        state.requests.append((scope["method"], headers))
        body = await _read_body(receive)
        method = _read_method(body)
        state.methods.append(method)
        status = self._refuse(headers, method)
        if status:
            await _reply(send, status)
            return
        pending = [body]

        async def replay() -> Message:
            if pending:
                return {"type": "http.request", "body": pending.pop(), "more_body": False}
            return await receive()

        async def note(message: Message) -> None:
            if message["type"] == "http.response.start":
                found = {key.decode().lower(): value.decode() for key, value in message["headers"]}
                if "mcp-session-id" in found:
                    state.issued.add(found["mcp-session-id"])
            await send(message)

        await self._app(scope, replay, note)

    def _refuse(self, headers: dict[str, str], method: str) -> int:
        state = self._state
        if state.token and headers.get("authorization") != f"Bearer {state.token}":
            return 401
        if state.is_legacy and method == "server/discover":
            return 400
        id = headers.get("mcp-session-id")
        if id in state.forgotten or (id and state.loses_all and method == "tools/call"):
            return 400 if state.is_lenient else 404
        return 0


async def _read_body(receive: Receive) -> bytes:
    body: bytes = b""
    while True:
        message = await receive()
        body += bytes(message.get("body", b""))
        if not message.get("more_body"):
            return body


def _read_method(body: bytes) -> str:
    document: Any = json.loads(body) if body else {}
    return str(document.get("method", ""))


async def _reply(send: Send, status: int) -> None:
    error = {"code": -32000, "message": "Bad Request: No valid session ID provided"}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    kind = b"application/json" if status == 400 else b"text/plain"
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@contextmanager
def serve_app(app: ASGIApp, certificate: Path | None = None) -> Iterator[int]:
    """Serve an application on a free port, in a thread. The socket listens before this returns."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio asks `proto`
        config = uvicorn.Config(
            app,
            loop="asyncio",
            log_config=None,
            access_log=False,
            ws="none",
            timeout_graceful_shutdown=1,  # for event streams that a client has left open
            ssl_certfile=certificate,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def serve_tools(
    transport: Transport = "streamable",
    *,
    state: ToolsServer | None = None,
    json_response: bool = False,
    certificate: Path | None = None,
) -> Iterator[ToolsServer]:
    """Serve the tools over one of the transports."""
    state = state or ToolsServer()
    app: Starlette
    if transport == "sse":
        app = state.mcp.sse_app(transport_security=_ANY_HOST)
    else:
        app = state.mcp.streamable_http_app(
            json_response=json_response, transport_security=_ANY_HOST
        )
    with serve_app(_Gate(state, app), certificate) as port:
        scheme = "https" if certificate else "http"
        path = "sse" if transport == "sse" else "mcp"
        state.url = f"{scheme}://127.0.0.1:{port}/{path}"
        yield state


@contextmanager
def serve_named(*names: str) -> Iterator[str]:
    """Serve tools with these names, each of which adds two numbers; gives the URL."""
    server = MCPServer("named")
    for name in names:
        server.add_tool(_add, name=name)
    app = server.streamable_http_app(transport_security=_ANY_HOST)
    with serve_app(app) as port:
        yield f"http://127.0.0.1:{port}/mcp"


def _add(a: int = 0, b: int = 0) -> str:
    return str(a + b)
