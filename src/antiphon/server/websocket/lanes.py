"""Lanes: the order in which the requests of one connection are answered.

Requests of one lane are answered one after another, those of different lanes at the same time. Of
all lanes together, at most `max_active` requests are being answered; the others wait in order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct

from antiphon.errors import InvalidRequest

Job: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
"""Answers one request. It raises nothing: whoever waits for its end cannot handle it."""


class LaneLimits(Struct, frozen=True, kw_only=True):
    """Limits of one connection."""

    max_active: int = 16
    """Responses at the same time."""
    max_names: int = 32
    """Names of lanes, from the beginning to the end of the connection."""
    max_waiting: int = 64
    """Requests that wait for others."""
    max_waiting_bytes: int = 64 * 1024 * 1024


class _Waiting(NamedTuple):
    job: Job
    size: int


class Lanes:
    """The lanes of one connection, by name; None is the default lane."""

    def __init__(self, limits: LaneLimits | None = None) -> None:
        self._limits = limits or LaneLimits()
        self._waiting: dict[str | None, deque[_Waiting]] = {None: deque()}
        self._ready: deque[str | None] = deque()
        """Lanes whose next request could be answered now, in order."""
        self._active: dict[str | None, asyncio.Task[None]] = {}
        self._waiting_count = self._waiting_bytes = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def is_idle(self) -> bool:
        return self._idle.is_set()

    async def wait_idle(self) -> None:
        """Wait until every request has been answered."""
        await self._idle.wait()

    def add(self, name: str | None, job: Job, size: int) -> None:
        """Answer a request as soon as its lane is free; `size` is the memory that it takes while
        it waits. Raises `InvalidRequest` if a limit is reached."""
        self._check_name(name)
        self._check_room(size)
        self._waiting.setdefault(name, deque()).append(_Waiting(job, size))
        self._waiting_count += 1
        self._waiting_bytes += size
        self._idle.clear()
        if name not in self._active and len(self._waiting[name]) == 1:
            self._ready.append(name)
        self._start_ready()

    async def close(self) -> None:
        """End every request: those that wait are dropped, the others cancelled."""
        self._ready.clear()
        self._waiting.clear()
        tasks = [*self._active.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _check_name(self, name: str | None) -> None:
        limit = self._limits.max_names
        if name in self._waiting or len(self._waiting) - 1 < limit:
            return
        raise InvalidRequest(
            f"A connection can have {limit} different values of 'stream_id'. Use one of them"
            " again, or open another connection.",
            param="stream_id",
            code="websocket_stream_limit_reached",
        )

    def _check_room(self, size: int) -> None:
        limits = self._limits
        if not self._waiting_count:
            return  # a single request may be as large as the limit of its size allows
        if (
            self._waiting_count < limits.max_waiting
            and self._waiting_bytes + size <= limits.max_waiting_bytes
        ):
            return
        raise InvalidRequest(
            f"Too many requests wait on this connection: at most {limits.max_waiting}, with"
            f" {limits.max_waiting_bytes} bytes in total. Wait for responses to end.",
            code="websocket_request_limit_reached",
            status=429,
            kind="rate_limit_error",
        )

    def _start_ready(self) -> None:
        while self._ready and len(self._active) < self._limits.max_active:
            name = self._ready.popleft()
            job, size = self._waiting[name].popleft()
            self._waiting_count -= 1
            self._waiting_bytes -= size
            task = self._active[name] = asyncio.get_running_loop().create_task(job())
            task.add_done_callback(partial(self._on_end, name))

    def _on_end(self, name: str | None, _: asyncio.Task[None]) -> None:
        del self._active[name]
        if self._waiting.get(name):
            self._ready.append(name)
        self._start_ready()
        if not self._active:
            self._idle.set()
