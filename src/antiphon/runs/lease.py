"""Lease of a process on the runs it has begun."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress

from antiphon.errors import StoreError
from antiphon.store.run_log import RenewedRuns, RunStore

_RENEW_S = 1.0


class ProcessLease:
    """One lease for all runs of this process, renewed while it has any."""

    def __init__(
        self, runs: RunStore, holder: str, lease_s: float, on_request: Callable[[RenewedRuns], None]
    ) -> None:
        """`on_request` is called with what other processes have requested of the runs."""
        self.holder = holder
        self._runs = runs
        self._lease_s = lease_s
        self._on_request = on_request
        self._interval_s = min(_RENEW_S, lease_s / 3)
        self._renewed_at = -math.inf
        self._held: set[str] = set()
        self._renewing: asyncio.Task[None] | None = None
        self._first: asyncio.Task[None] | None = None
        """Renews the lease for all runs that are about to begin."""

    async def hold(self, response_id: str) -> None:
        """Hold the lease before a run begins, half of it at least; raises `StoreError`."""
        if not self._is_fresh():
            if self._first is None:
                self._first = asyncio.get_running_loop().create_task(self._renew_now())
                self._first.add_done_callback(self._forget_first)
            await asyncio.shield(self._first)
        self.hold_soon(response_id)

    def hold_soon(self, response_id: str) -> None:
        """Hold the lease of a run without waiting for the store."""
        self._held.add(response_id)
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.get_running_loop().create_task(self._renew())

    def release(self, response_id: str) -> None:
        self._held.discard(response_id)

    async def renew(self) -> None:
        """Extend the lease now, if there are runs that need it; raises `StoreError`."""
        if self._held:
            await self._renew_now()

    async def close(self) -> None:
        """End the lease: another process ends the runs that are left."""
        task, self._renewing = self._renewing, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))
            with suppress(StoreError):  # it expires by itself
                await self._runs.renew(self.holder, 0)

    async def _renew(self) -> None:
        is_due = not self._is_fresh()
        while self._held:
            if is_due:
                with suppress(StoreError):  # the next renewal may be in time
                    await self.renew()
            await asyncio.sleep(self._interval_s)
            is_due = True

    def _is_fresh(self) -> bool:
        """Whether half of the lease is left."""
        return asyncio.get_running_loop().time() < self._renewed_at + self._lease_s / 2

    async def _renew_now(self) -> None:
        began = asyncio.get_running_loop().time()
        self._on_request(await self._runs.renew(self.holder, self._lease_s))
        self._renewed_at = began

    def _forget_first(self, task: asyncio.Task[None]) -> None:
        self._first = None
        if not task.cancelled():
            task.exception()  # those that waited for it may have left
