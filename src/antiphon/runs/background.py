"""Background responses: accepted durably, generated at most so many at a time, the others wait."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, MutableMapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from antiphon.core.client_profile import Profile
from antiphon.engine.engine import Engine
from antiphon.engine.run import Run, State
from antiphon.engine.services import Caller
from antiphon.errors import AntiphonError, InvalidRequest, StoreError
from antiphon.pipeline.log import Entry
from antiphon.runs.admission import skip_limits
from antiphon.runs.driver import RunDriver
from antiphon.runs.durable_log import DurableLog
from antiphon.runs.endings import RunEndings
from antiphon.runs.finished_items import read_batches
from antiphon.runs.lease import PROCESS_LOST, ProcessLease
from antiphon.store.run_log import BEFORE_FIRST, ClaimedRun, LoggedBatch, RunStart, RunStore
from antiphon.wire.events import Created, Queued
from antiphon.wire.items import Document
from antiphon.wire.request import Request
from antiphon.wire.response import Response
from antiphon.wire.sse import SSEEncoder


class QueuedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a process needs to generate a response that another one has accepted."""

    request: Document
    client: str
    request_id: str
    profile: Profile
    locale: str


_decode = msgspec.json.Decoder(QueuedRequest).decode


class BackgroundRuns:
    """The background responses of this process."""

    def __init__(
        self,
        engine: Engine,
        max_running: int,
        lease: ProcessLease,
        endings: RunEndings,
        drivers: MutableMapping[str, RunDriver],
    ) -> None:
        self.engine = engine
        """The engine of the configuration in effect."""
        self._free = max_running
        self._no_claim = asyncio.Event()
        """Not set while a claim of queued responses reserves the free places."""
        self._no_claim.set()
        self._lease = lease
        self._endings = endings
        self._drivers = drivers
        self._waiting: dict[str, Run] = {}
        """Prepared runs of responses that are queued, so that they need not be planned again."""
        self._tasks: dict[asyncio.Task[None], None] = {}  # in the order in which they began
        self.is_closed = False

    @property
    def _runs(self) -> RunStore:
        return self.engine.services.store.runs

    async def submit(self, run: Run) -> Response:
        """Accept a response durably and generate it as soon as there is room; return it queued.

        Whatever happens, `on_exit` of the run is called in the end, and not by the caller."""
        response = _queued_response(run)
        # In a task of its own: what is being stored must be run, even if the client leaves now.
        accepting = asyncio.ensure_future(self._accept(run, response))
        self._track(accepting)
        accepting.add_done_callback(_forget_failure)  # nobody may be left to hear of it
        await asyncio.shield(accepting)
        return response

    async def _accept(self, run: Run, response: Response) -> None:
        has_room = False
        try:
            has_room = await self._take_place()
            await self._begin(run, response, has_room)
        except BaseException:
            self._free += has_room
            self._lease.release(response.id)
            run.on_exit()
            raise

    async def _take_place(self) -> bool:
        """Take a free place if no other response waits for one. A claim has all free places until
        it is known how many it needs."""
        while not (self._no_claim.is_set() or self._waiting):
            await self._no_claim.wait()
        has_room = self._free > 0 and not self._waiting
        self._free -= has_room
        return has_room

    async def _begin(self, run: Run, response: Response, has_room: bool) -> None:
        prepared = run.prepared
        if has_room:
            await self._lease.hold(response.id)
        turn = prepared.make_turn(
            prepared.response if has_room else response, prepared.facts()["provider"]
        )
        start = RunStart(
            holder=self._lease.holder if has_room else None,
            is_background=True,
            is_streamed=prepared.request.stream,
            request=b"" if has_room else _encode_request(run),
        )
        token = await self._runs.begin(turn, start)
        if has_room:
            self._start(run, token)
            await asyncio.sleep(0)  # from now on it can be found
            return
        self._waiting[response.id] = run
        if start.is_streamed:
            with suppress(StoreError):  # or it was taken meanwhile: then it begins as any other
                await self._runs.append(response.id, token, [_announce(response)])
        self.fill()

    def fill(self) -> None:
        """Take as many queued responses as there is room for, soon."""
        self._spawn(self.take_queued())

    async def close(self) -> None:
        """Cancel what is running."""
        self.is_closed = True
        while tasks := [task for task in self._tasks if not task.done()]:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def cancel_queued(self, response_id: str) -> Document | None:
        """End a queued response as cancelled; None if it is not queued any more."""
        for claimed in await self._runs.claim(self._lease.holder, 1, response_id=response_id):
            self._drop(response_id)
            return await self._endings.end(claimed, is_cancelled=True)
        return None

    async def take_queued(self) -> None:
        """Take as many queued responses as there is room for."""
        if self._free <= 0 or self.is_closed:
            return
        free, self._free = self._free, 0  # nobody else takes them meanwhile
        self._no_claim.clear()
        known = {*self._waiting}
        try:
            await self._lease.hold("")
            claimed = await self._runs.claim(self._lease.holder, free)
        except StoreError as error:
            self._report("background.claim_failed", error)
            return
        finally:
            self._lease.release("")
            self._free += free
            self._no_claim.set()
        for each in claimed:
            self._free -= 1
            known.discard(each.turn.id)
            self._spawn(self._begin_claimed(each))
        if len(claimed) < free:
            self._forget(known)

    def _forget(self, gone: set[str]) -> None:
        """Forget responses that were deleted, or that another process has taken; look again for
        those that have come meanwhile."""
        for response_id in gone:
            self._drop(response_id)
        if self._waiting:
            self.fill()

    def _drop(self, response_id: str) -> None:
        """Forget a queued response that is not generated here."""
        if (run := self._waiting.pop(response_id, None)) is not None:
            run.on_exit()

    async def _begin_claimed(self, claimed: ClaimedRun) -> None:
        reason = PROCESS_LOST
        if not claimed.is_cancel_requested:
            try:
                waiting = self._waiting.pop(claimed.turn.id, None)
                run = waiting or await self._create(claimed)
                self._start(run, claimed.token, await self._load_log(claimed, waiting))
                return
            except AntiphonError as error:
                self._report("background.start_failed", error)
                if isinstance(error, InvalidRequest):  # others are for the operator
                    reason = error.message
        self._drop(claimed.turn.id)
        self._free += 1
        await self._end(claimed, reason)
        self.fill()

    async def _create(self, claimed: ClaimedRun) -> Run:
        """Make the run of a response that another process has accepted."""
        queued = _decode(claimed.start.request)
        caller = Caller(queued.client, queued.request_id, queued.profile, queued.locale)
        run = await self.engine.create(
            Request.read(queued.request),
            caller,
            response_id=claimed.turn.id,
            created_at=claimed.turn.created_at,
        )
        skip_limits(run)
        return run

    async def _load_log(self, claimed: ClaimedRun, waiting: Run | None) -> list[LoggedBatch]:
        """Return the events that a response has sent while it was queued, here or elsewhere."""
        if claimed.last_seq == BEFORE_FIRST:
            return []
        if waiting is not None:
            return [_announce(_queued_response(waiting))]
        turn = claimed.turn
        return [batch async for batch in read_batches(self._runs, turn.id, turn.client)]

    def _start(self, run: Run, token: int, earlier: Sequence[LoggedBatch] = ()) -> None:
        request, response_id = run.prepared.request, run.prepared.response.id
        self._lease.hold_soon(response_id)
        stream = request.stream
        log = DurableLog(self._runs, response_id, token, is_streamed=stream, earlier=earlier)
        driver = RunDriver(run, log, self._drivers)
        log.on_lost = driver.cancel
        driver.save_turn = log.finish
        task = driver.start()
        self._tasks[task] = None
        task.add_done_callback(lambda _: self._on_end(driver, log, token))

    def _on_end(self, driver: RunDriver, log: DurableLog, token: int) -> None:
        assert driver.task is not None
        del self._tasks[driver.task]
        log.on_lost = log.close
        if driver.run.state is State.PREPARED:
            driver.run.on_exit()  # it was cancelled before it was entered
        if not log.is_finished:
            self._spawn(self._end_broken(driver, log, token))
        else:
            self._lease.release(driver.run.prepared.response.id)
        self._free += 1
        if self._waiting:
            self.fill()

    async def _end_broken(self, driver: RunDriver, log: DurableLog, token: int) -> None:
        """End a run that has ended without a terminal event."""
        prepared = driver.run.prepared
        facts = {"response_id": prepared.response.id, "reason": type(driver.error).__name__}
        self.engine.services.emit(Entry("background.run_broken", "error", facts))
        await log.settle()
        turn = prepared.make_turn(prepared.response, prepared.facts()["provider"])
        start = RunStart(holder=self._lease.holder, is_streamed=prepared.request.stream)
        await self._end(ClaimedRun(turn, start, token, log.last_seq, False))
        log.close()
        self._lease.release(turn.id)

    async def _end(self, claimed: ClaimedRun, reason: str = PROCESS_LOST) -> None:
        """End a run that is not generated here; later, if the store cannot be written now."""
        try:
            is_cancelled = claimed.is_cancel_requested
            await self._endings.end(claimed, is_cancelled=is_cancelled, reason=reason)
        except StoreError as error:
            self._report("background.end_failed", error)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._track(asyncio.get_running_loop().create_task(work))

    def _track(self, task: asyncio.Task[None]) -> None:
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    def _report(self, event: str, error: AntiphonError) -> None:
        self.engine.services.emit(Entry(event, "error", {"reason": error.message}))


def _forget_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()


def _queued_response(run: Run) -> Response:
    return replace(run.prepared.response, status="queued")


def _announce(response: Response) -> LoggedBatch:
    """Make the first events of a streamed response that waits, so that its client knows its id."""
    return LoggedBatch(0, 1, SSEEncoder().feed([Created(response), Queued(response)]))


def _encode_request(run: Run) -> bytes:
    prepared = run.prepared
    caller = prepared.caller
    return msgspec.json.encode(
        QueuedRequest(
            request=dict(prepared.request.raw),
            client=caller.client,
            request_id=caller.request_id,
            profile=caller.profile,
            locale=caller.locale,
        )
    )
