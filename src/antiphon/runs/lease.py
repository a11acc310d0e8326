"""Lease of a process on the runs it has begun, and the end of runs whose process is gone."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from antiphon.errors import LeaseLost, StoreError
from antiphon.runs.finished_items import finished_items, read_batches
from antiphon.store.conversation import conversation_of
from antiphon.store.run_log import (
    BEFORE_FIRST,
    UNFINISHED,
    ClaimedRun,
    LoggedBatch,
    RenewedRuns,
    RunStore,
)
from antiphon.wire.events import HostedToolEvent
from antiphon.wire.items import Document
from antiphon.wire.response import ResponseUsage, text_of_output
from antiphon.wire.sse import SSEEncoder

PROCESS_LOST = "The gateway that generated this response stopped."
_RENEW_S = 1.0
_QUEUED = b"event: response.queued\n"
"""In the first batch of a response that waits, as its last event."""
_NO_USAGE = msgspec.to_builtins(ResponseUsage())


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
        """End the lease: whatever is left is ended by another process."""
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
            task.exception()  # nobody may be left to hear of it


async def end_run(
    runs: RunStore, run: ClaimedRun, *, is_cancelled: bool, reason: str = PROCESS_LOST
) -> Document:
    """End a run that is not generated any more, with the items that its log has; return the
    response. One that has ended stays as it is: its client was told, and only its beginning
    reached the store late."""
    turn, output, has_begun = run.turn, list[Document](), False
    if turn.status not in UNFINISHED:
        with suppress(LeaseLost):  # it was deleted meanwhile
            await runs.finish(turn, run.token)
        return turn.response
    async for batch in read_batches(runs, turn.id, turn.client):
        output += finished_items([batch])
        has_begun = _QUEUED not in batch.frames
    status = "cancelled" if is_cancelled else "failed"
    response = {
        **turn.response,
        "status": status,
        "error": None if is_cancelled else {"code": "server_error", "message": reason},
        "output": output,
        "output_text": text_of_output(output),
        "usage": _NO_USAGE,
    }
    turn = replace(turn, status=status, output=tuple(output), response=response)
    events = _first_events(run, has_begun=has_begun)
    batches = [_final_batch(run, events, response)] if run.start.is_streamed else ()
    with suppress(LeaseLost):  # it was deleted meanwhile
        await runs.finish(turn, run.token, batches, conversation_id=conversation_of(response))
    return response


def _first_events(run: ClaimedRun, *, has_begun: bool) -> list[msgspec.Struct]:
    """Make the events that come before all others, as far as the log has none of them."""
    fields = {"response": {**run.turn.response, "status": "in_progress"}}
    kinds = ["response.created"] if run.last_seq == BEFORE_FIRST else []
    kinds += [] if has_begun else ["response.in_progress"]
    return [HostedToolEvent(kind, fields) for kind in kinds]


def _final_batch(
    run: ClaimedRun, events: Sequence[msgspec.Struct], response: Document
) -> LoggedBatch:
    """Make the last batch of a log: these events, and the terminal one."""
    encoder = SSEEncoder()
    first = encoder.sequence_number = run.last_seq + 1
    kind = "response.incomplete" if response["status"] == "cancelled" else "response.failed"
    frames = encoder.feed([*events, HostedToolEvent(kind, {"response": response})])
    return LoggedBatch(first, encoder.sequence_number - 1, frames)
