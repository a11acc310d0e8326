"""Connection of a WebSocket client. What it receives is kept as if it were a stream of events over
HTTP, so that the same rules apply."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

import msgspec

from tests.simulation.memory_transport import MemoryTransport
from tests.simulation.records import TERMINAL, Document, Exchange, Outcome

if TYPE_CHECKING:
    from tests.simulation.world import World

_TEXT, _CLOSE, _PING, _PONG = 1, 8, 9, 10
_CLOSE_S = 1.0


class SocketConnection(asyncio.Protocol):
    def __init__(self, world: World, tenant: str) -> None:
        self.tenant = tenant
        self.handshake: Exchange
        self.opened: asyncio.Future[None] = world.loop.create_future()
        """Done when the handshake is over, whatever its result."""
        self.is_over = False
        self._world = world
        self._loop = world.loop
        self._transport: MemoryTransport | None = None
        self._buffer = bytearray()
        self._lanes: dict[str | None, deque[tuple[Exchange, asyncio.Future[None]]]] = {}
        self._timers: list[asyncio.TimerHandle] = []
        self._lost: asyncio.Future[None] = world.loop.create_future()

    # What the client does

    def shake_hands(self, key: str) -> None:
        lines = (
            "GET /v1/responses HTTP/1.1",
            "host: gateway",
            f"authorization: Bearer {key}",
            "connection: Upgrade",
            "upgrade: websocket",
            "sec-websocket-version: 13",
            "sec-websocket-key: c2ltdWxhdGlvbi1zb2NrZQ==",
            "user-agent: OpenAI/Python 2.0",
            "",
            "",
        )
        assert self._transport is not None
        self._transport.write("\r\n".join(lines).encode())

    def send_request(self, exchange: Exchange, lane: str | None) -> asyncio.Future[None]:
        """Send a request; returns the future of its end."""
        exchange.is_websocket, exchange.process = True, self.handshake.process
        ended: asyncio.Future[None] = self._loop.create_future()
        self._lanes.setdefault(lane, deque()).append((exchange, ended))
        document = {"type": "response.create", **exchange.request}
        if lane is not None:
            document["stream_id"] = lane
        self._send(_TEXT, msgspec.json.encode(document))
        return ended

    async def wait_idle(self) -> None:
        while waiting := [ended for lane in self._lanes.values() for _, ended in lane]:
            await asyncio.wait(waiting)

    async def close(self) -> None:
        """Close it in order."""
        if not self.is_over:
            self._send(_CLOSE, b"\x03\xe8")
            assert self._transport is not None
            self.later(_CLOSE_S, self._transport.close)
        await self._lost

    def vanish(self) -> None:
        if not self.is_over:
            assert self._transport is not None
            self._end("vanished")
            self._transport.abort()

    def later(self, delay_s: float, callback: object) -> None:
        self._timers.append(self._loop.call_later(delay_s, callback))  # type: ignore[arg-type]

    # What it receives

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, MemoryTransport)
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        self._end("cut")
        for timer in self._timers:
            timer.cancel()
        if not self._lost.done():
            self._lost.set_result(None)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self.handshake.status and not self._read_handshake():
            return
        while (frame := self._take_frame()) is not None:
            self._receive(*frame)

    def _read_handshake(self) -> bool:
        head, separator, rest = bytes(self._buffer).partition(b"\r\n\r\n")
        if not separator:
            return False
        self.handshake.status = int(head.split(b" ", 2)[1])
        self.handshake.outcome, self.handshake.ended = "complete", self._loop.time()
        self._buffer = bytearray(rest)
        if self.handshake.status != 101:
            self.handshake.body += rest
            self._buffer.clear()
            self._end("cut")
            assert self._transport is not None
            self._transport.close()
        elif not self.opened.done():
            self.opened.set_result(None)
        return True

    def _take_frame(self) -> tuple[int, bytes] | None:
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        length, start = buffer[1] & 0x7F, 2
        if length >= 126:
            start = 4 if length == 126 else 10
            length = int.from_bytes(buffer[2:start], "big")
        if len(buffer) < start + length:
            return None
        opcode, data = buffer[0] & 0x0F, bytes(buffer[start : start + length])
        del buffer[: start + length]
        return opcode, data

    def _receive(self, opcode: int, data: bytes) -> None:
        if opcode == _PING:
            self._send(_PONG, data)
        elif opcode == _CLOSE and not self.is_over:
            assert self._transport is not None
            self._send(_CLOSE, data[:2])
            self._end("cut")
            self._transport.close()
        elif opcode == _TEXT:
            self._receive_document(msgspec.json.decode(data))

    def _receive_document(self, document: Document) -> None:
        lane = self._lanes.get(document.pop("stream_id", None))
        if not lane:
            kind = document.get("type")
            self._world.lifecycle.problems.append(f"WebSocket: {kind} in a lane without a request")
            return
        exchange, _ = lane[0]
        document.pop("headers", None)
        exchange.head_at = exchange.head_at or self._loop.time()
        if document["type"] == "error":
            exchange.status = document["status"]
            exchange.headers = document["error"].get("headers") or {}
            exchange.body += msgspec.json.encode({"error": document["error"]})
            self._finish_first(lane, "complete")
            return
        exchange.status = 200
        data = msgspec.json.encode(document)
        exchange.body += b"event: %b\ndata: %b\n\n" % (document["type"].encode(), data)
        if document["type"] in TERMINAL:
            exchange.body += b"data: [DONE]\n\n"
            stored = self._world.disk.read_response(document["response"]["id"])
            exchange.stored = {} if stored is None else stored
            self._finish_first(lane, "complete")

    def _finish_first(
        self, lane: deque[tuple[Exchange, asyncio.Future[None]]], outcome: Outcome
    ) -> None:
        exchange, ended = lane.popleft()
        exchange.outcome, exchange.ended = outcome, self._loop.time()
        self._world.note(self.tenant, f"{exchange.number}: WebSocket → {exchange.result}")
        if lane:
            lane[0][0].began = self._loop.time()
        if not ended.done():
            ended.set_result(None)

    def _end(self, outcome: Outcome) -> None:
        if self.is_over:
            return
        self.is_over = True
        if not self.handshake.outcome:
            self.handshake.outcome, self.handshake.ended = outcome, self._loop.time()
        if not self.opened.done():
            self.opened.set_result(None)
        for lane in self._lanes.values():
            while lane:
                if outcome == "vanished":
                    lane[0][0].closed_at = self._loop.time()
                    lane[0][0].behaviour = "vanishes"
                self._finish_first(lane, outcome)

    def _send(self, opcode: int, data: bytes) -> None:
        """Send a frame, masked with zeros."""
        size = len(data)
        if size < 126:
            length = bytes((0x80 | size,))
        elif size < 1 << 16:
            length = b"\xfe" + size.to_bytes(2, "big")
        else:
            length = b"\xff" + size.to_bytes(8, "big")
        assert self._transport is not None
        self._transport.write(bytes((0x80 | opcode,)) + length + bytes(4) + data)
