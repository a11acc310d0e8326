"""Counters behind the limits of clients: the protocol, and one process' own counters in memory.

A minute is the last 60 seconds at any moment, so that no burst at the turn of a clock minute is
twice the limit. Days and months are those of UTC.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct, field

from antiphon.config import ClientLimitConfig
from antiphon.engine.accounting import DOLLAR

MINUTE_S = 60.0
LimitName: TypeAlias = Literal[
    "requests_per_minute", "tokens_per_minute", "max_streams", "cost_per_day", "cost_per_month"
]


class LimitState(Struct, frozen=True, kw_only=True):
    """What a client has used of its limits, after a request was counted or refused."""

    refused_by: LimitName | None = None
    """The limit that refuses the request; None: it was counted, and may begin."""
    requests: int = 0
    """In the last minute, this one included."""
    tokens: int = 0
    spent: int = 0
    """In the period of the limit that refuses it, in billionths of a dollar."""
    requests_reset_s: float = 0.0
    """Seconds until a request may begin; if one may begin now, until all are available again."""
    tokens_reset_s: float = 0.0


class LimitCounters(Protocol):
    """Counts requests of clients. One implementation may be shared by several processes.

    `acquire` checks all limits and counts the request in one step, so that requests and running
    streams never exceed a limit. A burst waits its turn."""

    async def open(self) -> None:
        """Connect, if there is anything to connect to."""

    async def acquire(self, client: str, request_id: str, limits: ClientLimitConfig) -> LimitState:
        """Count a request, unless a limit refuses it."""

    def release(self, client: str, request_id: str, tokens: int, cost: int) -> None:
        """Count what a request has used; it runs no longer. Must not block: an implementation on a
        network sends it later."""

    def note_spent(self, client: str, spent: Mapping[str, int]) -> None:
        """Count at least what the store says that a client has spent, by month and by day
        (`list_periods`)."""

    async def close(self) -> None:
        """Send the counts that were not sent yet."""


class Window:
    """Sum of amounts over the last minute."""

    def __init__(self) -> None:
        self._entries: deque[tuple[float, int]] = deque()
        self.total = 0

    def add(self, now: float, amount: int) -> None:
        self._entries.append((now, amount))
        self.total += amount

    def expire(self, now: float) -> None:
        """Forget everything older than a minute."""
        while self._entries and self._entries[0][0] <= now - MINUTE_S:
            self.total -= self._entries.popleft()[1]

    def seconds_until(self, total: int, now: float) -> float:
        """Return the time until the sum is at most `total`, if nothing is added."""
        left = self.total
        for at, amount in self._entries:
            if left <= total:
                return 0.0
            left -= amount
            if left <= total:
                return max(0.0, at + MINUTE_S - now)
        return 0.0


class _ClientCounts(Struct):
    requests: Window = field(default_factory=Window)
    tokens: Window = field(default_factory=Window)
    running: set[str] = field(default_factory=set)
    spent: dict[str, int] = field(default_factory=dict)
    """By day and by month, in billionths of a dollar."""


class MemoryLimitCounters:
    """Counters of one process. `monotonic` measures minutes, `epoch_s` finds days and months."""

    def __init__(self, monotonic: Callable[[], float], epoch_s: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._epoch_s = epoch_s
        self._clients: defaultdict[str, _ClientCounts] = defaultdict(_ClientCounts)

    async def open(self) -> None:
        return

    async def acquire(self, client: str, request_id: str, limits: ClientLimitConfig) -> LimitState:
        return self.acquire_now(client, request_id, limits)

    def acquire_now(self, client: str, request_id: str, limits: ClientLimitConfig) -> LimitState:
        now = self._monotonic()
        counts = self._clients[client]
        counts.requests.expire(now)
        counts.tokens.expire(now)
        refused_by, spent = self._find_reached(counts, limits)
        if refused_by is None:
            self.count(client, request_id)
        return LimitState(
            refused_by=refused_by,
            requests=counts.requests.total,
            tokens=counts.tokens.total,
            spent=spent,
            requests_reset_s=_reset_s(counts.requests, limits.requests_per_minute, now),
            tokens_reset_s=_reset_s(counts.tokens, limits.tokens_per_minute, now),
        )

    def count(self, client: str, request_id: str) -> None:
        """Count a request that other counters have admitted."""
        counts = self._clients[client]
        counts.requests.add(self._monotonic(), 1)
        counts.running.add(request_id)

    def release(self, client: str, request_id: str, tokens: int, cost: int) -> None:
        counts = self._clients[client]
        counts.running.discard(request_id)
        if tokens:
            counts.tokens.add(self._monotonic(), tokens)
        if cost:
            spent = self._current_spent(client)
            for period in list_periods(self._epoch_s()):
                spent[period] = spent.get(period, 0) + cost

    def note_spent(self, client: str, spent: Mapping[str, int]) -> None:
        known = self._current_spent(client)
        for period in list_periods(self._epoch_s()):
            known[period] = max(known.get(period, 0), spent.get(period, 0))

    def _current_spent(self, client: str) -> dict[str, int]:
        """Return what a client has spent, without earlier months and days."""
        current = list_periods(self._epoch_s())
        spent = self._clients[client].spent
        for period in [period for period in spent if period not in current]:
            del spent[period]
        return spent

    async def close(self) -> None:
        return

    def spent(self, client: str) -> tuple[int, int]:
        """What a client has spent this month and today, as far as this process knows."""
        counts = self._clients.get(client)
        month, day = list_periods(self._epoch_s())
        return (0, 0) if counts is None else (counts.spent.get(month, 0), counts.spent.get(day, 0))

    def _find_reached(
        self, counts: _ClientCounts, limits: ClientLimitConfig
    ) -> tuple[LimitName | None, int]:
        """Return the limit that another request would exceed. A cost comes first: it cannot be
        waited for."""
        for name, spent, limit in self._list_costs(counts, limits):
            if limit is not None and spent >= limit * DOLLAR:
                return name, spent
        used: tuple[tuple[LimitName, int, int | None], ...] = (
            ("requests_per_minute", counts.requests.total, limits.requests_per_minute),
            ("tokens_per_minute", counts.tokens.total, limits.tokens_per_minute),
            ("max_streams", len(counts.running), limits.max_streams),
        )
        reached = (name for name, amount, most in used if most is not None and amount >= most)
        return next(reached, None), 0

    def _list_costs(
        self, counts: _ClientCounts, limits: ClientLimitConfig
    ) -> Iterator[tuple[LimitName, int, float | None]]:
        month, day = list_periods(self._epoch_s())
        yield "cost_per_month", counts.spent.get(month, 0), limits.cost_per_month
        yield "cost_per_day", counts.spent.get(day, 0), limits.cost_per_day


def _reset_s(window: Window, limit: int | None, now: float) -> float:
    if limit is None:
        return 0.0
    return window.seconds_until(limit - 1 if window.total >= limit else 0, now)


def list_periods(at: float) -> tuple[str, str]:
    """Return the month and the day of a Unix time."""
    time = datetime.fromtimestamp(at, UTC)
    return time.strftime("%Y-%m"), time.strftime("%Y-%m-%d")
