"""Planted defects of what one client may take."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from typing import Any

from msgspec.structs import replace

import antiphon.store.sqlite.runs as sqlite_runs_module
from antiphon.observe.counters import MemoryLimitCounters
from antiphon.store.sqlite.store import SQLiteStore
from tests.simulation.mutant import Mutant


def _without_limit(original: Any) -> Any:
    async def chain(self: SQLiteStore, *arguments: Any, **options: Any) -> Any:
        limits = self._limits
        self._limits = replace(limits, max_history_items=10**9, max_history_bytes=10**12)
        loading = asyncio.ensure_future(original(self, *arguments, **options))
        await asyncio.sleep(0)  # the query has its limits now
        self._limits = limits
        return await loading

    return chain


def _count_later(_: Any) -> Any:
    """Admit a burst by what was counted before it."""

    async def acquire(self: MemoryLimitCounters, client: str, request_id: str, limits: Any) -> Any:
        before = deepcopy(self._clients[client])
        await asyncio.sleep(0.001)
        counted = self._clients[client]
        self._clients[client] = before
        state = self.acquire_now(client, request_id, limits)
        self._clients[client] = counted
        if state.refused_by is None:
            self.count(client, request_id)
        return state

    return acquire


def _by_arrival(original: str) -> str:
    return original.replace("place, served, run.turn", "run.turn").replace(
        "next.place, next.served, run.turn", "run.turn"
    )


def _ties_by_arrival(original: str) -> str:
    """Order clients that have equally many places by arrival."""
    return original.replace("place, served, run.turn", "place, run.turn").replace(
        "next.place, next.served, run.turn", "next.place, run.turn"
    )


BOUNDS_MUTANTS: tuple[Mutant, ...] = (
    Mutant("a history has no limit", SQLiteStore, "chain", _without_limit),
    Mutant("a burst is counted later", MemoryLimitCounters, "acquire", _count_later),
    Mutant("a queue goes by arrival", sqlite_runs_module, "_NEXT", _by_arrival),
    Mutant("a single place goes by arrival", sqlite_runs_module, "_NEXT", _ties_by_arrival),
)
