"""Ends of runs that nobody generates any more, written as soon as the store can.

A claimed run belongs to this process: while it lives, nobody else ends the run. An end that cannot
be stored now is therefore kept here and tried again.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from antiphon.runs.lease import PROCESS_LOST, ProcessLease, end_run
from antiphon.store.run_log import ClaimedRun, RunStore
from antiphon.wire.items import Document

_PAGE = 100
_ENDING = "the end of other runs"
"""What the lease is held for, in place of a response id."""


class _Ending(NamedTuple):
    run: ClaimedRun
    is_cancelled: bool
    reason: str = PROCESS_LOST
    """Why it has failed, if it was not cancelled."""


class RunEndings:
    """The runs that this process has to end."""

    def __init__(self, runs: RunStore, lease: ProcessLease) -> None:
        self._runs = runs
        self._lease = lease
        self._pending: dict[str, _Ending] = {}
        """By response id."""

    async def end(
        self, run: ClaimedRun, *, is_cancelled: bool, reason: str = PROCESS_LOST
    ) -> Document:
        """End a run as cancelled, or as failed for a reason; return the response. Raises
        `StoreError`: the next look tries again."""
        return await self._end(_Ending(run, is_cancelled, reason))

    async def _end(self, ending: _Ending) -> Document:
        response_id = ending.run.turn.id
        self._pending[response_id] = ending
        response = await end_run(
            self._runs, ending.run, is_cancelled=ending.is_cancelled, reason=ending.reason
        )
        self._pending.pop(response_id, None)
        return response

    async def end_expired(self) -> int:
        """End every run whose process is gone as failed; return how many were found."""
        await self._end_pending()
        count = 0
        while claimed := await self._runs.claim_expired(self._lease.holder, _PAGE):
            for run in claimed:
                self._pending[run.turn.id] = _Ending(run, run.is_cancel_requested)
            await self._end_pending()
            count += len(claimed)
        return count

    async def _end_pending(self) -> None:
        """End all at once, under a lease, so that no other process takes them meanwhile."""
        if not self._pending:
            return
        await self._lease.hold(_ENDING)
        try:
            ends = [self._end(ending) for ending in self._pending.values()]
            results = await asyncio.gather(*ends, return_exceptions=True)
        finally:
            self._lease.release(_ENDING)
        for result in results:
            if isinstance(result, BaseException):
                raise result
