"""Recovery: ends of runs whose process is gone, or that were left without their end.

A claimed run belongs to this process: while it lives, no other process ends the run. An end that
cannot be stored now is therefore kept here and tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from antiphon.core.events import Event, HostedToolEvent
from antiphon.core.items import Document
from antiphon.core.response import ResponseUsage, text_of_output
from antiphon.dialects.client_dialect import EventBatch
from antiphon.errors import LeaseLost, StoreError, StoreRefused
from antiphon.runs.event_log import finished_items
from antiphon.runs.lease import ProcessLease
from antiphon.runs.stored_log import encode_batch, read_stored_log
from antiphon.stages.log import Entry
from antiphon.store.run_log import (
    BEFORE_FIRST,
    FIRST_TOKEN,
    UNFINISHED,
    ClaimedRun,
    LoggedBatch,
    RunStart,
    RunStore,
)
from antiphon.store.store import Store
from antiphon.store.turn import Turn

PROCESS_LOST = "The gateway that generated this response stopped."
_PAGE = 100
_ENDING = "the end of other runs"
"""What the lease is held for, in place of a response id."""
_QUEUED = "response.queued"
"""The last event of a response that waits."""
_NO_USAGE = msgspec.to_builtins(ResponseUsage())


class _Ending(NamedTuple):
    run: ClaimedRun
    is_cancelled: bool
    reason: str = PROCESS_LOST
    """Why it has failed, if it was not cancelled."""
    keeps_output: bool = True


class AbandonedRuns:
    """The runs that this process has to end, and does not generate."""

    def __init__(self, store: Store, lease: ProcessLease) -> None:
        self._store = store
        self._lease = lease
        self._pending: dict[str, _Ending] = {}
        """By response id."""

    async def end(
        self, run: ClaimedRun, *, is_cancelled: bool, reason: str = PROCESS_LOST
    ) -> Document:
        """End a run as cancelled, or as failed for a reason; return the response. Raises
        `StoreError`: the next recovery tries again."""
        ending = _Ending(run, is_cancelled, reason)
        self._keep(ending)
        return await self._end(ending)

    def _keep(self, ending: _Ending) -> None:
        """Keep an end until it is stored; of a run that was claimed twice, that of the later claim:
        the store refuses the other."""
        run = ending.run
        known = self._pending.get(run.turn.id)
        if known is None or known.run.token <= run.token:
            self._pending[run.turn.id] = ending

    async def _end(self, ending: _Ending) -> Document:
        response_id = ending.run.turn.id
        response = await _store_end(self._store, ending)
        if self._pending.get(response_id) is ending:  # else it was claimed again in the meantime
            del self._pending[response_id]
        return response

    async def end_expired(self) -> int:
        """End every run whose process is gone as failed; return how many were found."""
        await self._end_pending()
        count = 0
        while claimed := await self._store.runs.claim_expired(self._lease.holder, _PAGE):
            for run in claimed:
                self._keep(_Ending(run, run.is_cancel_requested))
            await self._end_pending()
            count += len(claimed)
        return count

    async def _end_pending(self) -> None:
        """End all at once, under a lease, so that no other process takes them at the same time."""
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


class StartedTurns:
    """Turns of this process that were stored when their responses began, until they are ended."""

    def __init__(
        self,
        store: Store,
        lease: ProcessLease,
        abandoned: AbandonedRuns,
        emit: Callable[[Entry], None],
    ) -> None:
        self._store = store
        self._lease = lease
        self._abandoned = abandoned
        self._emit = emit
        self._ending: dict[asyncio.Task[None], None] = {}
        self._unfinished: dict[str, str] = {}
        """Responses that are to be deleted, and their owners: those that a client has deleted, and
        those whose end could not be stored."""

    def start(self, turn: Turn) -> None:
        """Store the beginning soon."""
        self._lease.hold_soon(turn.id)
        self._store.runs.begin_later(turn, self._make_start())

    def _make_start(self) -> RunStart:
        return RunStart(holder=self._lease.holder, is_streamed=False)

    async def finish(self, turn: Turn) -> None:
        """Store the end of a response, also if its reader leaves at the same time: no other process
        would end it."""
        ending = asyncio.get_running_loop().create_task(self._finish(turn))
        self._track(ending)
        await asyncio.shield(ending)

    def abandon(self, turn: Turn) -> None:
        """End a response whose run was left without storing its end; it began as this turn."""
        self._track(asyncio.get_running_loop().create_task(self._abandon(turn)))

    def delete(self, turn: Turn) -> None:
        """Delete a response that a client has deleted: its beginning may still be written."""
        self._unfinished[turn.id] = turn.client
        self._track(asyncio.get_running_loop().create_task(self._delete(turn.id)))

    async def delete_unfinished(self) -> None:
        """Delete the responses that were not deleted when they should have been."""
        for response_id, client in tuple(self._unfinished.items()):
            with suppress(StoreError):
                await self._store.delete(response_id, client=client)
                self._unfinished.pop(response_id, None)

    async def close(self) -> None:
        """Wait for the ends that are being stored."""
        if self._ending:
            await asyncio.wait(tuple(self._ending))

    def _track(self, ending: asyncio.Task[None]) -> None:
        self._ending[ending] = None
        ending.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        del self._ending[task]
        if not task.cancelled():
            task.exception()  # its reader may have left

    async def _finish(self, turn: Turn) -> None:
        conversation_id = turn.conversation_id
        try:
            await self._store.runs.finish(turn, FIRST_TOKEN, conversation_id=conversation_id)
        except LeaseLost:
            raise
        except StoreError:
            self._unfinished[turn.id] = turn.client
            raise
        finally:
            self._lease.release(turn.id)

    async def _delete(self, response_id: str) -> None:
        try:
            await self.delete_unfinished()
        finally:
            self._lease.release(response_id)

    async def _abandon(self, turn: Turn) -> None:
        run = ClaimedRun(turn, self._make_start(), FIRST_TOKEN, BEFORE_FIRST, False)
        try:
            await self._abandoned.end(run, is_cancelled=False)
        except StoreError as error:  # the next recovery tries again
            self._emit(Entry("runs.end_failed", "error", {"reason": error.message}))
        finally:
            self._lease.release(turn.id)


async def _store_end(store: Store, ending: _Ending) -> Document:
    """End a run; return the response. One that is too large to be stored ends as failed without its
    output; if not even that can be stored, it is deleted."""
    try:
        return await _end_run(store.runs, ending)
    except StoreRefused as error:
        smaller = ending._replace(is_cancelled=False, reason=error.message, keeps_output=False)
    try:
        return await _end_run(store.runs, smaller)
    except StoreRefused:
        turn = ending.run.turn
        await store.delete(turn.id, client=turn.client)
        return turn.response


async def _end_run(runs: RunStore, ending: _Ending) -> Document:
    """End a run that is not generated any more, with the items that its log has; return the
    response. One that has ended stays as it is: its client was told, and only its beginning
    reached the store late."""
    run = ending.run
    turn = run.turn
    if turn.status not in UNFINISHED:
        with suppress(LeaseLost, StoreRefused):  # deleted, or larger than what is stored now
            await runs.finish(turn, run.token)
        return turn.response
    output: list[Document] = []
    has_begun = False
    async for batch in read_stored_log(runs, turn.id, turn.client):
        output += finished_items([batch]) if ending.keeps_output else []
        has_begun = not _is_queued(batch.events[-1])
    error = {"code": "server_error", "message": ending.reason}
    response = {
        **turn.response,
        "status": "cancelled" if ending.is_cancelled else "failed",
        "error": None if ending.is_cancelled else error,
        "output": output,
        "output_text": text_of_output(output),
        "usage": _NO_USAGE,
    }
    turn = turn.with_response(response)
    events = _first_events(run, has_begun=has_begun)
    batches = [_final_batch(run, events, response)] if run.start.is_streamed else ()
    with suppress(LeaseLost):  # it was deleted
        await runs.finish(turn, run.token, batches, conversation_id=turn.conversation_id)
    return response


def _is_queued(event: Event) -> bool:
    return type(event) is HostedToolEvent and event.type == _QUEUED


def _first_events(run: ClaimedRun, *, has_begun: bool) -> list[Event]:
    """Make the events that come before all others, as far as the log has none of them."""
    fields = {"response": {**run.turn.response, "status": "in_progress"}}
    kinds = ["response.created"] if run.last_seq == BEFORE_FIRST else []
    kinds += [] if has_begun else ["response.in_progress"]
    return [HostedToolEvent(kind, fields) for kind in kinds]


def _final_batch(run: ClaimedRun, events: Sequence[Event], response: Document) -> LoggedBatch:
    """Make the last batch of a log: these events, and the terminal one."""
    kind = "response.incomplete" if response["status"] == "cancelled" else "response.failed"
    ending = HostedToolEvent(kind, {"response": response})
    return encode_batch(EventBatch(run.last_seq + 1, [*events, ending]))
