"""Web searches of one answer: started together, reported in order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from antiphon.core.filters.web_search import SearchCall, SearchOutcome

Search: TypeAlias = Callable[[SearchCall], Awaitable[SearchOutcome]]
"""Never raises: a search that fails is an outcome, too."""


async def find_nothing(call: SearchCall) -> SearchOutcome:
    """Return no results, for a gateway without a search backend (no search tool is declared)."""
    return SearchOutcome()


class Searches:
    def __init__(self, search: Search) -> None:
        self._search = search
        self._tasks: dict[str, asyncio.Future[SearchOutcome]] = {}

    async def outcome(self, calls: Sequence[SearchCall]) -> SearchOutcome:
        """Return the outcome of the first call; start the others meanwhile."""
        for call in calls:
            if call.call_id not in self._tasks:
                self._tasks[call.call_id] = asyncio.ensure_future(self._search(call))
        task = self._tasks[calls[0].call_id]
        await asyncio.wait({task})  # cancelling a search must not cancel the run
        if task.cancelled() or task.exception() is not None:
            return SearchOutcome(failed=True)
        return task.result()

    def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
