"""Background responses: accepted durably, generated at most so many at a time, the others wait.

Their limits are checked when they are requested, and not when they begin, because a response that
was accepted must be generated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, MutableMapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from antiphon.core.events import Created, Queued
from antiphon.core.items import Document
from antiphon.core.response import Response
from antiphon.dialects.client_dialect import EventBatch
from antiphon.dialects.responses.render import with_frames
from antiphon.engine.accounting import Accounting
from antiphon.engine.engine import Engine
from antiphon.engine.run import Run, admit_always
from antiphon.engine.services import Caller, Prepared
from antiphon.errors import AntiphonError, InvalidRequest, StoreError
from antiphon.runs.background_queue import (
    AcceptedRequest,
    BackgroundQueue,
    encode_request,
    prepare_queued,
)
from antiphon.runs.durable_log import DurableLog
from antiphon.runs.lease import ProcessLease
from antiphon.runs.live_run import LiveRun, register
from antiphon.runs.recovery import PROCESS_LOST, AbandonedRuns
from antiphon.runs.stored_log import encode_batch, read_stored_log
from antiphon.stages.log import Entry
from antiphon.store.run_log import BEFORE_FIRST, ClaimedRun, RunStart, RunStore

_T = TypeVar("_T")


async def admit(accounting: Accounting, caller: Caller, held: ExitStack) -> Mapping[str, str]:
    """Count a response that is generated later as running until `held` is closed; return the
    headers of the reply to its request. Raises `LimitExceeded`."""
    headers = await accounting.admit(caller.client, caller.request_id)
    held.callback(accounting.withdraw, caller.client, caller.request_id)
    return headers


def _ignore(response_id: str) -> None:
    """Do nothing about a response that was stored."""


class BackgroundRuns:
    """The background responses of this process."""

    def __init__(
        self,
        engine: Engine,
        max_running: int,
        lease: ProcessLease,
        abandoned: AbandonedRuns,
        live: MutableMapping[str, LiveRun],
    ) -> None:
        """`live` has the runs of this process by response id."""
        self._engine = engine
        self._queue = BackgroundQueue(max_running)
        self._lease = lease
        self._abandoned = abandoned
        self._live = live
        self._tasks: dict[asyncio.Task[Any], None] = {}  # in the order in which they began
        self.is_closed = False

    def use_engine(self, engine: Engine) -> None:
        """Generate responses by another configuration from now on."""
        self._engine = engine

    @property
    def _runs(self) -> RunStore:
        return self._engine.services.store.runs

    async def submit(
        self, accepted: AcceptedRequest, on_stored: Callable[[str], None] = _ignore
    ) -> Response:
        """Accept a response durably and generate it as soon as there is room; return it queued.

        Whatever happens, `accepted.held` is closed in the end, and not by the caller. `on_stored`
        is called with the id once it is stored, even if the caller is cancelled before."""
        queued = _queued_response(accepted.prepared)
        # Once it is stored it must be run, even if the client leaves now.
        await self._finish(self._accept(accepted, queued, on_stored))
        return queued

    async def _accept(
        self, accepted: AcceptedRequest, queued: Response, on_stored: Callable[[str], None]
    ) -> None:
        has_room = False
        try:
            has_room = await self._queue.take_place()
            await self._begin(accepted, queued, has_room)
            on_stored(queued.id)
        except BaseException:
            if has_room:
                self._queue.return_place()
            self._lease.release(queued.id)
            accepted.held.close()
            raise

    async def _begin(self, accepted: AcceptedRequest, queued: Response, has_room: bool) -> None:
        """Store a response, as queued if there is no room for it, and generate it if there is."""
        prepared = accepted.prepared
        if has_room:
            await self._lease.hold(queued.id)
        response = prepared.response if has_room else queued
        turn = prepared.make_turn(response, prepared.first_plan.provider)
        start = RunStart(
            holder=self._lease.holder if has_room else None,
            is_background=True,
            is_streamed=prepared.request.stream,
            request=b"" if has_room else encode_request(prepared),
        )
        token = await self._runs.begin(turn, start)
        if has_room:
            try:
                self._start(accepted, token)
            except Exception:  # a bug: it is stored, and no other process ends it
                await self._end(ClaimedRun(turn, start, token, BEFORE_FIRST, False))
                raise
            return
        self._queue.add(queued.id, accepted)
        if start.is_streamed:
            with suppress(StoreError):  # or it was claimed: then it begins as any other
                await self._runs.append(queued.id, token, [encode_batch(_announce(queued))])
        self.fill()

    def fill(self) -> None:
        """Take as many queued responses as there is room for, soon."""
        self._spawn(self.take_queued())

    async def close(self) -> None:
        """Cancel every task, and wait until none is left."""
        self.is_closed = True
        while tasks := [task for task in self._tasks if not task.done()]:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def cancel_queued(self, response_id: str) -> Document | None:
        """End a queued response as cancelled; None if it is not queued any more."""
        # Once it is claimed no other process ends it, even if the client leaves now.
        return await self._finish(self._cancel_queued(response_id))

    async def _cancel_queued(self, response_id: str) -> Document | None:
        for claimed in await self._runs.claim(self._lease.holder, 1, response_id=response_id):
            self._queue.drop(response_id)
            return await self._abandoned.end(claimed, is_cancelled=True)
        return None

    async def take_queued(self) -> None:
        """Take as many queued responses as there is room for."""
        if self._queue.free <= 0 or self.is_closed:
            return
        known = self._queue.ids()
        with self._queue.reserve_places() as free:
            try:
                await self._lease.hold("")
                claimed = await self._runs.claim(self._lease.holder, free)
            except StoreError as error:
                self._report("background.claim_failed", error)
                return
            finally:
                self._lease.release("")
        for each in claimed:
            self._queue.use_place()
            self._lease.hold_soon(each.turn.id)  # preparing its request may take long
            self._spawn(self._begin_claimed(each))
        if len(claimed) < free:  # the others were deleted, or another process has taken them
            self._queue.drop(*(known - {each.turn.id for each in claimed}))
            if self._queue.has_waiting:
                self.fill()

    async def _begin_claimed(self, claimed: ClaimedRun) -> None:
        reason = PROCESS_LOST
        if not claimed.is_cancel_requested:
            waiting = self._queue.take(claimed.turn.id)
            try:
                accepted = waiting or await prepare_queued(self._engine, claimed)
                self._start(accepted, claimed.token, await _load_log(self._runs, claimed, waiting))
                return
            except Exception as error:  # also a bug, or a request that another version has stored
                self._report("background.start_failed", error, response_id=claimed.turn.id)
                if isinstance(error, InvalidRequest):  # others are for the operator
                    reason = error.message
                if waiting is not None:
                    waiting.held.close()
        self._queue.drop(claimed.turn.id)
        self._queue.return_place()
        await self._end(claimed, reason)
        self._lease.release(claimed.turn.id)
        self.fill()

    def _start(
        self, accepted: AcceptedRequest, token: int, earlier: Sequence[EventBatch] = ()
    ) -> None:
        prepared = accepted.prepared
        response_id = prepared.response.id
        self._lease.hold_soon(response_id)
        log = DurableLog(
            self._runs,
            response_id,
            token,
            is_streamed=prepared.request.stream,
            on_lost=partial(_cancel, self._live, response_id),
            earlier=earlier,
        )
        run = Run(accepted.services, prepared, save=log.finish, admit=admit_always)
        run.hold(accepted.held)
        live = LiveRun(run, log)
        register(self._live, live)
        task = live.start()
        self._tasks[task] = None
        task.add_done_callback(lambda _: self._on_end(live, log, token))

    def _on_end(self, live: LiveRun, log: DurableLog, token: int) -> None:
        assert live.task is not None
        del self._tasks[live.task]
        live.run.discard()  # if it was cancelled before it was entered
        if not log.is_finished:
            self._spawn(self._end_broken(live, log, token))
        else:
            self._lease.release(live.run.prepared.response.id)
        self._queue.return_place()
        if self._queue.has_waiting:
            self.fill()

    async def _end_broken(self, live: LiveRun, log: DurableLog, token: int) -> None:
        """End a run that has ended without a terminal event."""
        prepared = live.run.prepared
        facts = {"response_id": prepared.response.id, "reason": type(live.error).__name__}
        self._engine.services.emit(Entry("background.run_broken", "error", facts))
        await log.settle()
        turn = prepared.make_turn(prepared.response, prepared.first_plan.provider)
        start = RunStart(holder=self._lease.holder, is_streamed=prepared.request.stream)
        await self._end(ClaimedRun(turn, start, token, log.last_visible, False))
        log.close()
        self._lease.release(turn.id)

    async def _end(self, claimed: ClaimedRun, reason: str = PROCESS_LOST) -> None:
        """End a run that is not generated here; later, if the store cannot be written now."""
        try:
            is_cancelled = claimed.is_cancel_requested
            await self._abandoned.end(claimed, is_cancelled=is_cancelled, reason=reason)
        except StoreError as error:
            self._report("background.end_failed", error, response_id=claimed.turn.id)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._track(asyncio.get_running_loop().create_task(work))

    async def _finish(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Do what is done to its end, even if the caller is cancelled."""
        task = asyncio.get_running_loop().create_task(work)
        self._track(task)
        task.add_done_callback(_forget_failure)  # the caller may have left
        return await asyncio.shield(task)

    def _track(self, task: asyncio.Task[Any]) -> None:
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    def _report(self, event: str, error: Exception, **facts: str) -> None:
        reason = error.message if isinstance(error, AntiphonError) else type(error).__name__
        self._engine.services.emit(Entry(event, "error", {"reason": reason, **facts}))


def _forget_failure(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


def _queued_response(prepared: Prepared) -> Response:
    return replace(prepared.response, status="queued")


def _announce(response: Response) -> EventBatch:
    """Make the first events of a streamed response that waits, so that its client knows its id."""
    return with_frames(EventBatch(0, [Created(response), Queued(response)]))


async def _load_log(
    runs: RunStore, claimed: ClaimedRun, waiting: AcceptedRequest | None
) -> list[EventBatch]:
    """Return the events that a response has sent while it was queued, here or elsewhere."""
    if claimed.last_seq == BEFORE_FIRST:
        return []
    if waiting is not None:
        return [_announce(_queued_response(waiting.prepared))]
    turn = claimed.turn
    return [batch async for batch in read_stored_log(runs, turn.id, turn.client)]


def _cancel(live: Mapping[str, LiveRun], response_id: str) -> None:
    """Cancel a run whose response is not this process's any more."""
    if (run := live.get(response_id)) is not None:
        run.cancel()
