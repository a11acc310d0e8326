"""Counters of limits that the workers of one machine share: their parent counts for all of them.

A worker sends a line of JSON for each call, and gets a line for each `Acquire`, in their order. The
parent is one thread: each call is a step of its own, and a burst waits its turn. What a worker that
is gone had running is released by the end of its connection.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

from antiphon.config import ClientLimitConfig
from antiphon.observe.counters import LimitState, MemoryLimitCounters


class Acquire(Struct, frozen=True, tag=True):
    client: str
    request_id: str
    limits: ClientLimitConfig


class Release(Struct, frozen=True, tag=True):
    client: str
    request_id: str
    tokens: int
    cost: int


class NoteSpent(Struct, frozen=True, tag=True):
    client: str
    spent: Mapping[str, int]


Call: TypeAlias = Acquire | Release | NoteSpent

_encode = msgspec.json.Encoder().encode
_decode_call = msgspec.json.Decoder(Call).decode
_decode_state = msgspec.json.Decoder(LimitState).decode


class _AskedParent(NamedTuple):
    call: Acquire
    state: asyncio.Future[LimitState | None]


class WorkerLimitCounters(asyncio.Protocol):
    """The counters of a worker; `memory` counts if the parent is gone, while the worker stops."""

    def __init__(self, parent: socket.socket, memory: MemoryLimitCounters) -> None:
        self._parent = parent
        self._memory = memory
        self._transport: asyncio.WriteTransport | None = None
        self._received = b""
        self._asked: deque[_AskedParent] = deque()

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_unix_connection(lambda: self, sock=self._parent)

    async def acquire(self, client: str, request_id: str, limits: ClientLimitConfig) -> LimitState:
        if self._transport is None:
            return self._memory.acquire_now(client, request_id, limits)
        asked = _AskedParent(
            Acquire(client, request_id, limits), asyncio.get_running_loop().create_future()
        )
        self._asked.append(asked)
        self._send(asked.call)
        state = await asked.state
        return state or self._memory.acquire_now(client, request_id, limits)

    def release(self, client: str, request_id: str, tokens: int, cost: int) -> None:
        self._memory.release(client, request_id, tokens, cost)
        self._send(Release(client, request_id, tokens, cost))

    def note_spent(self, client: str, spent: Mapping[str, int]) -> None:
        self._memory.note_spent(client, spent)
        self._send(NoteSpent(client, spent))

    async def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
            self._transport = None

    def data_received(self, data: bytes) -> None:
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            call, waiting = self._asked.popleft()
            state = _decode_state(line)
            if not waiting.done():
                waiting.set_result(state)
            elif state.refused_by is None:  # the request was given up while it waited
                self._send(Release(call.client, call.request_id, 0, 0))

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        for each in self._asked:
            if not each.state.done():
                each.state.set_result(None)
        self._asked.clear()

    def _send(self, call: Call) -> None:
        if self._transport is not None:
            self._transport.write(_encode(call) + b"\n")


class WorkerConnection:
    """The parent's side of the connection to one worker: lines in, lines out."""

    def __init__(self, counters: MemoryLimitCounters) -> None:
        self._counters = counters
        self._received = b""
        self._running: dict[str, str] = {}
        """Clients of the requests that this worker was admitted, by request."""

    def feed(self, data: bytes) -> bytes:
        """Count what has arrived; return the replies."""
        *lines, self._received = (self._received + data).split(b"\n")
        return b"".join(map(self._reply, map(_decode_call, lines)))

    def close(self) -> None:
        """Release what the worker had running."""
        for request_id, client in self._running.items():
            self._counters.release(client, request_id, 0, 0)

    def _reply(self, call: Call) -> bytes:
        match call:
            case Acquire(client, request_id, limits):
                state = self._counters.acquire_now(client, request_id, limits)
                if state.refused_by is None:
                    self._running[request_id] = client
                return _encode(state) + b"\n"
            case Release(client, request_id, tokens, cost):
                self._running.pop(request_id, None)
                self._counters.release(client, request_id, tokens, cost)
            case NoteSpent(client, spent):
                self._counters.note_spent(client, spent)
        return b""
