"""Lanes: the order in which the requests of one connection are answered.

Requests of one lane are answered one after another, those of different lanes at the same time. Of
all lanes together, at most `max_active` requests are being answered; the others wait in order.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct

from antiphon.errors import InvalidRequest

Job: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
"""Answers one request. It raises nothing: the lane that waits for its end could not handle it."""


class LaneLimits(Struct, frozen=True, kw_only=True):
    """Limits of one connection."""

    max_active: int = 16
    """Responses at the same time."""
    max_names: int = 32
    """Names of lanes, from the beginning to the end of the connection."""
    max_waiting: int = 64
    """Requests that wait for others."""


class WaitingRequests:
    """Bytes of the requests that wait on all WebSockets of this process: those of one client are
    limited, and those of all clients together."""

    def __init__(
        self, max_client_bytes: int = 64 * 1024 * 1024, max_bytes: int = 256 * 1024 * 1024
    ) -> None:
        self._max_client_bytes = max_client_bytes
        self._max_bytes = max_bytes
        self._bytes: Counter[str] = Counter()

    def add(self, client: str, size: int) -> None:
        """Count a request; raises `InvalidRequest` if there is no room for it. A single one may be
        as large as the limit of its size allows."""
        own = self._bytes[client]
        total = self._bytes.total()
        if own and own + size > self._max_client_bytes:
            raise _too_many(f"{self._max_client_bytes} bytes of one client")
        if total and total + size > self._max_bytes:
            raise _too_many(f"{self._max_bytes} bytes of all clients together")
        self._bytes[client] += size

    def remove(self, client: str, size: int) -> None:
        self._bytes[client] -= size
        if not self._bytes[client]:
            del self._bytes[client]


def _too_many(limit: str) -> InvalidRequest:
    return InvalidRequest(
        f"Too many requests wait on WebSockets: at most {limit}. Wait for responses to end.",
        code="websocket_request_limit_reached",
        status=429,
        kind="rate_limit_error",
    )


class _Waiting(NamedTuple):
    job: Job
    size: int


class Lanes:
    """The lanes of one connection, by name; None is the default lane."""

    def __init__(
        self, client: str, waiting_requests: WaitingRequests, limits: LaneLimits | None = None
    ) -> None:
        self._client = client
        self._waiting_requests = waiting_requests
        self._limits = limits or LaneLimits()
        self._waiting: dict[str | None, deque[_Waiting]] = {None: deque()}
        self._ready: deque[str | None] = deque()
        """Lanes whose next request could be answered now, in order."""
        self._active: dict[str | None, asyncio.Task[None]] = {}
        self._waiting_count = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def is_idle(self) -> bool:
        return self._idle.is_set()

    async def wait_idle(self) -> None:
        """Wait until every request has been answered."""
        await self._idle.wait()

    def add(self, name: str | None, job: Job, size: int) -> None:
        """Answer a request when it is its turn; raises `InvalidRequest` beyond a limit. `size` is
        that of the request."""
        self._check_name(name)
        waiting = self._waiting.setdefault(name, deque())
        is_free = name not in self._active and not waiting
        if is_free and len(self._active) < self._limits.max_active:
            self._start(name, job)
            return
        if self._waiting_count >= self._limits.max_waiting:
            raise _too_many(f"{self._limits.max_waiting} on one connection")
        self._waiting_requests.add(self._client, size)
        self._waiting_count += 1
        waiting.append(_Waiting(job, size))
        if is_free:
            self._ready.append(name)

    async def close(self) -> None:
        """End every request: those that wait are dropped, the others cancelled."""
        self._ready.clear()
        for waiting in self._waiting.values():
            for each in waiting:
                self._waiting_requests.remove(self._client, each.size)
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

    def _start(self, name: str | None, job: Job) -> None:
        self._idle.clear()
        task = self._active[name] = asyncio.get_running_loop().create_task(job())
        task.add_done_callback(partial(self._on_end, name))

    def _start_ready(self) -> None:
        while self._ready and len(self._active) < self._limits.max_active:
            name = self._ready.popleft()
            job, size = self._waiting[name].popleft()
            self._waiting_count -= 1
            self._waiting_requests.remove(self._client, size)
            self._start(name, job)

    def _on_end(self, name: str | None, _: asyncio.Task[None]) -> None:
        del self._active[name]
        if self._waiting.get(name):
            self._ready.append(name)
        self._start_ready()
        if not self._active:
            self._idle.set()
