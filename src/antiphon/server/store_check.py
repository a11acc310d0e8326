"""Availability of the store, for the readiness probe: checked by writing, at most once a second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from antiphon.errors import StoreError
from antiphon.pipeline.log import Entry
from antiphon.store.store import Store

CHECK_EVERY_S = 1.0
TIMEOUT_S = 3.0


class StoreCheck:
    """Knows whether the store could be written when it was last checked, and logs each change."""

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float],
        emit: Callable[[Entry], None],
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.store = store
        self._clock = clock
        self._emit = emit
        self._timeout_s = timeout_s
        self._checked_at: float | None = None
        self._available = True

    async def is_available(self) -> bool:
        """Whether turns can be saved. Probes between two checks get the result of the first."""
        now = self._clock()
        if self._checked_at is None or now - self._checked_at >= CHECK_EVERY_S:
            self._checked_at = now
            self._report(await self._find_problem())
        return self._available

    async def _find_problem(self) -> str:
        try:
            async with asyncio.timeout(self._timeout_s):
                await self.store.check()
        except TimeoutError:
            return f"{self.store.name}: no answer within {self._timeout_s:g} s."
        except StoreError as error:
            return error.message
        return ""

    def _report(self, problem: str) -> None:
        if self._available == (not problem):
            return
        self._available = not problem
        if problem:
            self._emit(Entry("store.unavailable", "error", {"reason": problem}))
        else:
            self._emit(Entry("store.available", "info", {"store": self.store.name}))
