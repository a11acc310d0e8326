"""WebSockets of aiohttp: the handshake, and messages to and from a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from aiohttp import WSMsgType, web

from antiphon.dialects.client_dialect import request_problem
from antiphon.dialects.responses.client import RESPONSES
from antiphon.server.errors import malformed_request
from antiphon.server.http import WebSocketSession
from antiphon.server.websocket.client_frames import binary_frame_error

_CLOSE_TIMEOUT_S = 1.0  # for the client to answer that it has closed, too


class AiohttpWebSocket:
    """A `WebSocket` of aiohttp's server."""

    def __init__(self, socket: web.WebSocketResponse[Literal[False]]) -> None:
        self._socket = socket

    async def receive(self) -> bytes | None:
        message = await self._socket.receive()
        if message.type is WSMsgType.TEXT:
            text: bytes = message.data
            return text
        if message.type is WSMsgType.BINARY:
            raise binary_frame_error()
        return None  # closed, by the client or because of a message that is not allowed

    async def send(self, message: bytes) -> None:
        await self._socket.send_frame(message, WSMsgType.TEXT)

    async def ping(self) -> None:
        await self._socket.ping()

    async def close(self, code: int, reason: str) -> None:
        await self._socket.close(code=code, message=reason.encode())


async def serve_websocket(
    request: web.BaseRequest, headers: Mapping[str, str], session: WebSocketSession
) -> web.StreamResponse:
    """Answer the handshake and run the session. A message that is too large closes it with 1009.

    Messages are not compressed: most are short, and each would cost more time than it saves."""
    socket = web.WebSocketResponse[Literal[False]](
        timeout=_CLOSE_TIMEOUT_S,
        compress=False,
        max_msg_size=session.max_message_bytes + 1,  # the first size that aiohttp refuses
        decode_text=False,
    )
    if not socket.can_prepare(request):
        error = malformed_request("the WebSocket handshake is incomplete")
        refused = RESPONSES.error(request_problem(error))
        return web.Response(
            status=refused.status, headers={**headers, **refused.headers}, body=refused.body
        )
    socket.headers.update(headers)
    await socket.prepare(request)
    await session.run(AiohttpWebSocket(socket))
    return socket
