"""WebSockets for tests: one in memory, and a client of a real one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import aiohttp

from antiphon.errors import InvalidRequest
from antiphon.server.http import WebSocketSession
from tests.support.applications import LOCAL, OpenApplication
from tests.support.waiting import until

Frame: TypeAlias = dict[str, Any]
UPGRADE = {**LOCAL, "connection": "Upgrade", "upgrade": "websocket"}
ENDINGS = {
    "response.completed",
    "response.incomplete",
    "response.failed",
    "response.steer.failed",
    "error",
}


def create_frame(text: str = "Hello", **fields: Any) -> Frame:
    """A request to the echo model, which is not stored."""
    return {
        "type": "response.create",
        "model": "echo/echo",
        "input": text,
        "store": False,
        **fields,
    }


def output_text(frames: list[Frame]) -> str:
    text: str = frames[-1]["response"]["output_text"]
    return text


def response_id(frames: list[Frame]) -> str:
    id: str = frames[-1]["response"]["id"]
    return id


def _is_set() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@dataclass
class MemorySocket:
    """A `WebSocket` whose client is the test."""

    sent: list[Frame] = field(default_factory=list)
    pings: int = 0
    closed: tuple[int, str] | None = None
    is_lost: bool = False
    """Whether sending fails, because the client is gone."""
    reads_pings: asyncio.Event = field(default_factory=_is_set)
    """Whether the client reads: a ping waits for it."""
    _incoming: asyncio.Queue[bytes | InvalidRequest | None] = field(default_factory=asyncio.Queue)

    async def receive(self) -> bytes | None:
        message = await self._incoming.get()
        if isinstance(message, InvalidRequest):
            raise message
        return message

    async def send(self, message: bytes) -> None:
        if self.is_lost:
            raise ConnectionResetError
        self.sent.append(json.loads(message))

    async def ping(self) -> None:
        self.pings += 1
        await self.reads_pings.wait()

    async def close(self, code: int, reason: str) -> None:
        self.closed = (code, reason)
        self._incoming.put_nowait(None)

    def put(self, message: Frame | bytes | InvalidRequest | None) -> None:
        """Send a message from the client; None closes the connection."""
        self._incoming.put_nowait(
            json.dumps(message).encode() if isinstance(message, dict) else message
        )

    async def turn(self, message: Frame | bytes | InvalidRequest) -> list[Frame]:
        """Send a message, and wait for the frames that answer it."""
        begin = len(self.sent)
        self.put(message)
        await until(lambda: self.ends(begin), "the end of a turn")
        return self.sent[begin:]

    def ends(self, begin: int = 0) -> int:
        """How many turns have ended."""
        return sum(frame["type"] in ENDINGS for frame in self.sent[begin:])


@asynccontextmanager
async def connected(opened: OpenApplication, **headers: str) -> AsyncIterator[MemorySocket]:
    """A connection to an application, without a port."""
    response = await opened.request("GET", "/v1/responses", headers={**UPGRADE, **headers})
    assert response.session is not None, response.body
    async with running_session(response.session) as socket:
        yield socket


@asynccontextmanager
async def running_session(session: WebSocketSession) -> AsyncIterator[MemorySocket]:
    socket = MemorySocket()
    running = asyncio.ensure_future(session.run(socket))
    try:
        yield socket
    finally:
        socket.put(None)
        await running


async def read_turn(socket: aiohttp.ClientWebSocketResponse) -> list[Frame]:
    """Read frames from a real connection, up to the end of a turn."""
    frames: list[Frame] = []
    while not frames or frames[-1]["type"] not in ENDINGS:
        frames.append(json.loads(await socket.receive_str()))
    return frames


async def ask(socket: aiohttp.ClientWebSocketResponse, frame: Frame) -> list[Frame]:
    await socket.send_str(json.dumps(frame))
    return await read_turn(socket)
