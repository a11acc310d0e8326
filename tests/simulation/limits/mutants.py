"""Planted defects of the limits of clients."""

from __future__ import annotations

from typing import Any

import antiphon.runs.background as background_module
from antiphon.engine.accounting import Accounting
from antiphon.observe.counters import MemoryLimitCounters
from antiphon.observe.limits import ClientLimiter
from tests.simulation.mutant import Mutant, do_nothing


def _admit_everything(_: Any) -> Any:
    async def admit(self: ClientLimiter, client: str, request_id: str) -> dict[str, str]:
        return {}

    return admit


def _run_uncounted(original: Any) -> Any:
    async def acquire(self: MemoryLimitCounters, client: str, *arguments: Any) -> Any:
        state = await original(self, client, *arguments)
        self._clients[client].running.clear()
        return state

    return acquire


def _count_twice(original: Any) -> Any:
    async def acquire(self: MemoryLimitCounters, client: str, *arguments: Any) -> Any:
        self._clients[client].requests.add(self._monotonic(), 1)
        return await original(self, client, *arguments)

    return acquire


def _admit_again(_: Any) -> Any:
    """Check the limits of a background response when it begins, too."""
    return None


LIMIT_MUTANTS: tuple[Mutant, ...] = (
    Mutant("limits are not checked", ClientLimiter, "admit", _admit_everything),
    Mutant("running responses are not counted", MemoryLimitCounters, "acquire", _run_uncounted),
    Mutant("requests count twice", MemoryLimitCounters, "acquire", _count_twice),
    Mutant("a running response counts for ever", MemoryLimitCounters, "release", do_nothing),
    Mutant("a queued response counts for ever", Accounting, "withdraw", do_nothing),
    Mutant("an accepted response is refused", background_module, "admit_always", _admit_again),
)
