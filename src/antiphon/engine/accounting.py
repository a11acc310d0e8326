"""Accounting: the limits of clients before a run, and the reports of runs for those who count."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from antiphon.engine.report import RunReport, TraceContext

DOLLAR = 1_000_000_000
"""Units of a cost: exact sums need whole numbers."""
TraceHeaders: TypeAlias = tuple[str, str]
"""The headers `traceparent` and `tracestate` of a request; empty: it has none."""
_NO_HEADERS: Mapping[str, str] = {}


class RequestLimiter(Protocol):
    """Limits of clients, checked before a provider is called and counted after."""

    async def admit(self, client: str, request_id: str) -> Mapping[str, str]:
        """Count a request that begins, and return headers for its response; raises
        `LimitExceeded`. `release` must follow."""

    def release(self, report: RunReport) -> None:
        """Count what an admitted request has used. Never blocks."""

    def withdraw(self, client: str, request_id: str) -> None:
        """Count an admitted request as running no longer, whether or not it was released."""


@dataclass
class Accounting:
    """Limits of clients, and the queue of reports for those who observe runs."""

    limiter: RequestLimiter | None = None
    ended: deque[RunReport] = field(default_factory=deque)
    observers: list[Callable[[Sequence[RunReport]], object]] = field(default_factory=list)
    """Called with the reports, some time after the ends of their runs."""
    queue_observers: list[Callable[[], object]] = field(default_factory=list)
    """Called when a report is added to the empty queue. Without any, reports are not kept."""
    rejection_observers: list[Callable[[str], object]] = field(default_factory=list)
    """Called with the error code of a request that was rejected before it had a run."""
    new_context: Callable[[TraceHeaders], TraceContext] | None = None
    """Makes the ids of a request in a distributed trace; None: there are none."""

    def drain(self) -> None:
        """Pass the queue on to the observers."""
        ended = tuple(self.ended)
        self.ended.clear()
        for observe in self.observers:
            observe(ended)

    async def admit(self, client: str, request_id: str) -> Mapping[str, str]:
        """Check the limits of a client, and return headers for its response; raises
        `LimitExceeded`. `record` or `withdraw` must follow."""
        if self.limiter is None:
            return _NO_HEADERS
        return await self.limiter.admit(client, request_id)

    def withdraw(self, client: str, request_id: str) -> None:
        """Count an admitted request as running no longer. May be called after its end."""
        if self.limiter is not None:
            self.limiter.withdraw(client, request_id)

    def record(self, report: RunReport) -> None:
        """Take the report of a run that has ended."""
        if self.limiter is not None:
            self.limiter.release(report)
        if not self.queue_observers:
            return
        if not self.ended:
            for on_queued in self.queue_observers:
                on_queued()
        self.ended.append(report)

    def record_rejection(self, code: str) -> None:
        """Take the error code of a request that was rejected before it had a run."""
        for observe in self.rejection_observers:
            observe(code)
