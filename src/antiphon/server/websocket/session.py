"""Session: one WebSocket from its handshake to its end. It knows no web framework.

Frames are read one after another and put into lanes; a responder answers them. A session ends when
its client leaves, which ends its responses; and after `max_duration_s` or at the shutdown of the
gateway, as soon as its responses are over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec import Struct, field

from antiphon.core.items import Document
from antiphon.engine.runtime import InactivityTimer
from antiphon.errors import InvalidRequest
from antiphon.server.body import BodyDecoder, BodyScanner
from antiphon.server.content_encoding import PIECE_BYTES
from antiphon.server.exchange import Exchange
from antiphon.server.http import WebSocket
from antiphon.server.websocket.client_frames import SteerFrame, read_frame, read_stream_id
from antiphon.server.websocket.lanes import LaneLimits, Lanes
from antiphon.server.websocket.recent_turns import RecentTurns
from antiphon.server.websocket.responder import Responder
from antiphon.server.websocket.server_frames import steer_failed_frame

GOING_AWAY = 1001
"""The close code after which clients connect again."""


class SessionLimits(Struct, frozen=True, kw_only=True):
    """Limits of one connection."""

    max_duration_s: float = 3600.0
    lanes: LaneLimits = field(default_factory=LaneLimits)


class Session:
    """A `WebSocketSession` of one client."""

    def __init__(self, handshake: Exchange, limits: SessionLimits | None = None) -> None:
        process = handshake.process
        self.max_message_bytes = handshake.setup.server.max_body_bytes
        self.client = handshake.caller.client
        self._handshake = handshake
        self._limits = limits or SessionLimits()
        self._lanes = Lanes(self.client, process.websockets.waiting, self._limits.lanes)
        remembered = process.websockets.remembered
        self._turns = RecentTurns(handshake.services.store, remembered, self.client)
        self._socket: WebSocket | None = None
        self._is_expired = False
        self._is_revoked = False
        self._is_pinging = False
        self._tasks: dict[asyncio.Task[None], None] = {}  # in the order in which they began

    async def run(self, socket: WebSocket) -> None:
        self._socket = socket
        keepalive_s = self._handshake.setup.server.keepalive_s
        pings = InactivityTimer(keepalive_s, self._on_silence, repeat=True)
        loop = asyncio.get_running_loop()
        lifetime = loop.call_later(self._limits.max_duration_s, self._expire)
        sessions = self._handshake.process.websockets.sessions
        sessions[self] = None
        try:
            await self._read_frames()
        except ConnectionError:
            pass  # the client is gone
        finally:
            del sessions[self]
            pings.cancel()
            lifetime.cancel()
            for task in self._tasks:
                task.cancel()
            try:
                await self._lanes.close()
            finally:  # the connection may be lost while its responses end
                self._turns.close()

    @property
    def _connection(self) -> WebSocket:
        assert self._socket is not None, "the session runs"
        return self._socket

    def revoke(self) -> None:
        self._is_revoked = True
        self._spawn(self._close_when_idle("The API key of this connection was removed."))

    def stop(self) -> None:
        self._spawn(self._close_when_idle("The gateway is shutting down."))

    # Frames

    async def _read_frames(self) -> None:
        responder = Responder(self._handshake, self._turns, self._connection.send)
        while await self._read_frame(responder):
            pass

    async def _read_frame(self, responder: Responder) -> bool:
        """Read a frame and put it into its lane; False at the end of the connection. Nothing of it
        is held while the connection waits for the next one."""
        decoded: Document | None = None
        try:
            message = await self._connection.receive()
            if message is None:
                return False
            decoder = BodyDecoder(BodyScanner(self._handshake.setup.body_limits))
            await _feed(decoder, message)
            decoded = decoder.close()
            await self._take(decoded, len(message), decoder.scanner.is_large, responder)
        except InvalidRequest as error:
            exchange = responder.new_exchange(decoded)
            await responder.reject(error, exchange, _find_lane(decoded))
        return True

    async def _take(
        self, document: Document, size: int, is_large: bool, responder: Responder
    ) -> None:
        """Put a request into its lane; raises `InvalidRequest`."""
        frame = read_frame(document)
        if isinstance(frame, SteerFrame):
            target = self._turns.find(str(frame.response_id))
            lane = None if target is None else target.lane
            await self._connection.send(steer_failed_frame(frame, lane))
            return
        if self._is_expired:
            raise self._expired()
        if self._is_revoked:
            raise InvalidRequest(
                "The API key of this connection was removed from the gateway's configuration.",
                code="invalid_api_key",
                status=401,
            )
        respond = partial(responder.respond, frame, size, is_large=is_large)
        self._lanes.add(frame.stream_id, respond, size)

    # Time

    def _on_silence(self) -> None:
        if not self._is_pinging:  # else the client does not even read the last ping
            self._is_pinging = True
            self._spawn(self._ping())

    async def _ping(self) -> None:
        with suppress(ConnectionError):
            await self._connection.ping()
        self._is_pinging = False

    def _expire(self) -> None:
        self._is_expired = True
        self._spawn(self._close_expired())

    async def _close_expired(self) -> None:
        """Tell the client why, after the responses that have begun."""
        await self._lanes.wait_idle()
        responder = Responder(self._handshake, self._turns, self._connection.send)
        await responder.reject(self._expired(), responder.new_exchange(None), None)
        await self._close_when_idle("The connection has reached its maximum duration.")

    async def _close_when_idle(self, reason: str) -> None:
        await self._lanes.wait_idle()
        with suppress(ConnectionError):
            await self._connection.close(GOING_AWAY, reason)

    def _expired(self) -> InvalidRequest:
        minutes = self._limits.max_duration_s / 60
        return InvalidRequest(
            f"This connection has reached its maximum duration of {minutes:g} minutes. Open another"
            " one to continue.",
            code="websocket_connection_limit_reached",
        )

    def _spawn(self, step: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(step)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)


async def _feed(decoder: BodyDecoder, message: bytes) -> None:
    """Decode a message in pieces; others have their turn between them."""
    for start in range(0, len(message), PIECE_BYTES):
        if start:
            await asyncio.sleep(0)
        decoder.feed(message[start : start + PIECE_BYTES])


def _find_lane(document: Document | None) -> str | None:
    """The lane of a frame that was rejected, if its name can be read."""
    try:
        return read_stream_id(document or {})
    except InvalidRequest:
        return None
