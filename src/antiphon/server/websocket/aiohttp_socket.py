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

PROTOCOL_ERROR = b"\x88\x02\x03\xea"
"""The frame that closes a connection with code 1002, without a reason: a frame is not masked."""

_MASKED = 0x80
_LENGTHS = {126: 2, 127: 8}
"""Bytes of an extended length, by the short one."""
_MASK_BYTES = 4
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


class FrameHeads:
    """Follows the frames of one client from head to head, in whatever pieces they arrive.

    A server must close a connection on which it receives an unmasked frame (RFC 6455, 5.1): a
    client that chooses the bytes on the wire could fill the cache of a proxy. aiohttp does not
    look."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._payload_left = 0

    def are_masked(self, data: bytes) -> bool:
        """Take the next bytes; False as soon as the head of a frame says that it is not masked."""
        position = 0
        while position < len(data):
            if self._payload_left:
                step = min(self._payload_left, len(data) - position)
                self._payload_left -= step
                position += step
                continue
            self._head.append(data[position])
            position += 1
            if len(self._head) == 2 and not self._head[1] & _MASKED:
                return False
            self._end_head()
        return True

    def _end_head(self) -> None:
        """Go on to the payload, if the head is complete."""
        if len(self._head) < 2:
            return
        short = self._head[1] & ~_MASKED
        extended = _LENGTHS.get(short, 0)
        if len(self._head) == 2 + extended + _MASK_BYTES:
            length = self._head[2 : 2 + extended]
            self._payload_left = int.from_bytes(length) if extended else short
            self._head.clear()
