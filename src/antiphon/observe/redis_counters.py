"""Counters of limits that processes share over Redis; see `[shared]`.

Requests are sent to the server in batches, one batch at a time over one connection: a burst waits
its turn, and cannot exhaust a pool or the patience with the server. The server is away if it cannot
be reached, or does not reply to a batch. Then no request waits for it: each process goes on
counting by itself, what it has admitted before included, until the server replies again.

Minutes are those of the server's clock, so that gateways whose clocks differ count the same. A
running request is counted for a minute at a time, and renewed while it runs: those of a process
that is gone do not stay.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import Any

from msgspec import Struct

from antiphon.config import ClientLimitConfig, SharedConfig
from antiphon.engine.runtime import Runtime
from antiphon.observe.counters import LimitState, MemoryLimitCounters
from antiphon.observe.redis_scripts import (
    TIMEOUT_S,
    LimitScripts,
    Script,
    ScriptConnection,
    ServerClock,
    read_state,
)
from antiphon.stages.log import Entry

RETRY_S = 1.0
_BATCH = 100  # requests in one round trip
_RENEW_S = 20.0
_MAX_QUEUED = 10_000
_PER_PROCESS = "each process counts the limits of clients by itself"


class _Release(Struct, frozen=True):
    client: str
    request_id: str
    tokens: int
    cost: int
    at: float
    """Of the monotonic clock."""
    epoch_s: float
    """For day and month."""


class _Asked(Struct, eq=False):
    """A request that waits for its turn. Its state is None if the server is away."""

    client: str
    request_id: str
    limits: ClientLimitConfig
    state: asyncio.Future[LimitState | None]


class RedisLimitCounters:
    """Counters of all processes; `memory` counts for this one while the server is away."""

    def __init__(
        self,
        config: SharedConfig,
        runtime: Runtime,
        memory: MemoryLimitCounters,
        emit: Callable[[Entry], None],
        *,
        timeout_s: float = TIMEOUT_S,
        now: ServerClock = lambda: None,
    ) -> None:
        """A server that does not reply within `timeout_s` is away."""
        self._connection = ScriptConnection(config.url, timeout_s)
        self._scripts = LimitScripts(config.prefix, now)
        self._address = config.address
        self._runtime = runtime
        self._emit = emit
        self._memory = memory
        self._asked: deque[_Asked] = deque()
        self._running: dict[str, str] = {}
        """Clients of the requests that were admitted and not released, by request."""
        self._releases: list[_Release] = []
        self._is_away = False
        self._sending: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        return

    async def acquire(self, client: str, request_id: str, limits: ClientLimitConfig) -> LimitState:
        state = None if self._is_away else await self._ask(client, request_id, limits)
        if state is None:
            state = self._memory.acquire_now(client, request_id, limits)
        elif state.refused_by is None:
            self._memory.count(client, request_id)
        if state.refused_by is None:
            self._running[request_id] = client
            self._keep_renewing()
        return state

    async def _ask(
        self, client: str, request_id: str, limits: ClientLimitConfig
    ) -> LimitState | None:
        """Ask the server in the next batch; None if it is away."""
        state: asyncio.Future[LimitState | None] = asyncio.get_running_loop().create_future()
        self._asked.append(_Asked(client, request_id, limits, state))
        self._keep_sending()
        return await state

    def release(self, client: str, request_id: str, tokens: int, cost: int) -> None:
        self._memory.release(client, request_id, tokens, cost)
        self._running.pop(request_id, None)
        self._queue(client, request_id, tokens, cost)
        self._keep_sending()

    def note_spent(self, client: str, spent: Mapping[str, int]) -> None:
        """Count it in this process: the counters of the server have it already, or are lower."""
        self._memory.note_spent(client, spent)

    async def close(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait((self._renewing,))
        self._keep_sending()
        if self._sending is not None:
            await asyncio.wait((self._sending,))
        await self._connection.close()

    def _queue(self, client: str, request_id: str, tokens: int, cost: int) -> None:
        at = self._runtime.monotonic()
        epoch_s = self._runtime.epoch_s()
        self._releases.append(_Release(client, request_id, tokens, cost, at, epoch_s))
        del self._releases[:-_MAX_QUEUED]
        self._keep_renewing()

    # Sending, one batch at a time

    def _keep_sending(self) -> None:
        if not self._is_away and (self._sending is None or self._sending.done()):
            self._sending = asyncio.get_running_loop().create_task(self._send_all())

    async def _send_all(self) -> None:
        while (self._asked or self._releases) and not self._is_away:
            batch = [self._asked.popleft() for _ in range(min(_BATCH, len(self._asked)))]
            try:
                replies = await self._call(*map(self._to_acquire, batch))
            except self._connection.errors as error:
                self._report_away(error)
                _settle([*batch, *self._asked], [])
                self._asked.clear()
                return
            for each in _settle(batch, [read_state(reply) for reply in replies]):
                self._queue(each.client, each.request_id, 0, 0)

    async def _call(self, *calls: Script) -> list[Any]:
        """Make calls in one round trip, after everything that was released before; return their
        results."""
        releases, self._releases = self._releases, []
        try:
            scripts = [*map(self._to_release, releases), *calls]
            return (await self._connection.run(scripts))[len(releases) :]
        except BaseException:
            self._releases = [*releases, *self._releases]
            raise

    # Renewing, and looking for a server that is away

    def _keep_renewing(self) -> None:
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.get_running_loop().create_task(self._renew_all())

    async def _renew_all(self) -> None:
        """Look for the server if it is away, send what could not be sent, and renew what runs,
        until there is nothing left to do."""
        renewed_at = self._runtime.monotonic()
        while self._running or self._releases or self._is_away:
            await self._runtime.sleep(RETRY_S)
            if self._is_away and not await self._is_back():
                continue
            self._keep_sending()
            now = self._runtime.monotonic()
            if self._running and now >= renewed_at + _RENEW_S:
                with suppress(*self._connection.errors):
                    await self._renew()
                    renewed_at = now

    async def _is_back(self) -> bool:
        try:
            await self._call()
        except self._connection.errors:
            return False
        self._is_away = False
        self._emit(Entry("limits.shared", "info", {"server": self._address}))
        return True

    def _report_away(self, error: Exception) -> None:
        self._is_away = True
        reason = f"{type(error).__name__}: {error}"
        facts = {"server": self._address, "reason": reason, "effect": _PER_PROCESS}
        self._emit(Entry("limits.not_shared", "warning", facts))
        self._keep_renewing()

    async def _renew(self) -> None:
        sent = dict(self._running)
        calls = []
        for client in dict.fromkeys(sent.values()):
            ids = [id for id, each in sent.items() if each == client]
            calls.append(self._scripts.renew(client, ids, self._runtime.epoch_s()))
        await self._call(*calls)
        for id in sent.keys() - self._running.keys():  # released during the call, maybe before
            self._queue(sent[id], id, 0, 0)

    def _to_acquire(self, each: _Asked) -> Script:
        spent = self._memory.spent(each.client)
        epoch_s = self._runtime.epoch_s()
        return self._scripts.acquire(each.client, each.request_id, each.limits, spent, epoch_s)

    def _to_release(self, each: _Release) -> Script:
        age_s = self._runtime.monotonic() - each.at
        return self._scripts.release(
            each.client, each.request_id, each.tokens, each.cost, age_s, each.epoch_s
        )


def _settle(batch: Sequence[_Asked], states: Sequence[LimitState]) -> list[_Asked]:
    """Tell requests their states, or without any that the server is away; return those that were
    admitted and have been given up."""
    withdrawn = []
    for each, state in zip_longest(batch, states):
        if not each.state.done():
            each.state.set_result(state)
        elif state is not None and state.refused_by is None:
            withdrawn.append(each)
    return withdrawn
