"""WebSockets of ASGI servers: the handshake, and messages to and from a session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from antiphon.server.application import Application
from antiphon.server.http import HTTPRequest, HTTPResponse
from antiphon.server.websocket.client_frames import binary_frame_error

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

_REFUSAL = "websocket.http.response"
"""The extension of ASGI for servers that can respond to a handshake with any HTTP response."""


class ASGIWebSocket:
    """A `WebSocket` of an ASGI server, which sends pings by itself."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send

    async def receive(self) -> bytes | None:
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            return None
        text = message.get("text")
        if text is None:
            raise binary_frame_error()
        return str(text).encode()

    async def send(self, message: bytes) -> None:
        await self._pass_on({"type": "websocket.send", "text": message.decode()})

    async def ping(self) -> None:
        pass

    async def close(self, code: int, reason: str) -> None:
        await self._pass_on({"type": "websocket.close", "code": code, "reason": reason})

    async def _pass_on(self, message: Message) -> None:
        try:
            await self._send(message)
        except OSError as error:  # as ASGI requires of a server whose client is gone
            raise ConnectionResetError("The client has closed the connection.") from error


async def serve_websocket(
    application: Application, http: HTTPRequest, scope: Message, receive: Receive, send: Send
) -> None:
    """Respond to a handshake, and run its session."""
    await receive()  # websocket.connect
    response = await application.handle(http)
    if response.session is None:
        await _refuse(response, scope, send)
        return
    await send({"type": "websocket.accept", "headers": _headers(response)})
    await response.session.run(ASGIWebSocket(receive, send))


async def _refuse(response: HTTPResponse, scope: Message, send: Send) -> None:
    """Respond with the response itself where the server can; else it responds with 403."""
    if _REFUSAL not in scope.get("extensions", {}):
        await send({"type": "websocket.close"})
        return
    start = {"status": response.status, "headers": _headers(response)}
    await send({"type": f"{_REFUSAL}.start", **start})
    await send({"type": f"{_REFUSAL}.body", "body": response.body})


def _headers(response: HTTPResponse) -> list[tuple[bytes, bytes]]:
    """The headers without the date: some servers add their own, and fail if it is there twice."""
    return [
        (name.encode(), value.encode("latin-1"))
        for name, value in response.headers.items()
        if name != "date"
    ]
