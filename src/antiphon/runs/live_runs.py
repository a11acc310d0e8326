"""Live runs: the responses that this process generates, for those who retrieve or cancel them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from antiphon.config import BackgroundConfig
from antiphon.engine.engine import Engine
from antiphon.engine.run import Run
from antiphon.errors import LeaseLost, StoreError
from antiphon.pipeline.log import Entry
from antiphon.runs.background import BackgroundRuns
from antiphon.runs.driver import RunDriver
from antiphon.runs.endings import RunEndings
from antiphon.runs.event_log import EventLog
from antiphon.runs.lease import ProcessLease
from antiphon.store.conversation import conversation_of
from antiphon.store.run_log import (
    BEFORE_FIRST,
    FIRST_TOKEN,
    ClaimedRun,
    RenewedRuns,
    RunStart,
)
from antiphon.store.turn import Turn
from antiphon.wire.events import Event

LOOK_EVERY_S = 1.0
"""Longest time between two looks for runs whose process is gone and for queued ones."""


class LiveRuns:
    """Every run of this process by response id, its lease, and its background responses."""

    def __init__(self, engine: Engine, config: BackgroundConfig) -> None:
        self._config = config
        self.drivers: dict[str, RunDriver] = {}
        services = self._services = engine.services
        self.store = services.store
        holder = services.runtime.new_id("proc")
        self.lease = ProcessLease(self.store.runs, holder, config.lease_s, self._on_request)
        self._endings = RunEndings(self.store.runs, self.lease)
        self.background = BackgroundRuns(
            engine, config.max_running, self.lease, self._endings, self.drivers
        )
        self._watching: asyncio.Task[None] | None = None
        self._started: dict[str, ClaimedRun] = {}
        """Foreground responses that were stored when they began and whose end is not being
        stored."""
        self._finishing: dict[asyncio.Task[None], None] = {}
        self._unfinished: dict[str, str] = {}
        """Responses whose end could not be stored, and their owners: they are deleted instead."""

    def find(self, response_id: str, client: str) -> RunDriver | None:
        """Return the driver of a stored response that is being generated here for this client."""
        driver = self.drivers.get(response_id)
        if driver is None or driver.is_deleted:
            return None
        prepared = driver.run.prepared
        is_found = prepared.caller.client == client and prepared.request.store
        return driver if is_found else None

    def find_log(self, response_id: str, client: str) -> EventLog | None:
        """Return the log of a background response that is being generated here."""
        driver = self.find(response_id, client)
        log = None if driver is None else driver.log
        is_background = driver is not None and driver.run.prepared.request.background
        return log if is_background and isinstance(log, EventLog) else None

    def record_start(self, run: Run) -> None:
        """Store a foreground response that has begun, so that its status is known elsewhere."""
        if not run.save_with(self._finish_started):
            return  # its end is being stored
        prepared = run.prepared
        turn = prepared.make_turn(prepared.response, prepared.facts()["provider"])
        self.lease.hold_soon(turn.id)
        start = RunStart(holder=self.lease.holder, is_streamed=False)
        self.store.runs.begin_later(turn, start)
        self._started[turn.id] = ClaimedRun(turn, start, FIRST_TOKEN, BEFORE_FIRST, False)
        run.on_exit = partial(self._on_exit, turn.id, run.on_exit)

    def _on_exit(self, response_id: str, leave: Callable[[], object]) -> None:
        """End a response whose run was left without storing its end: it was deleted, or something
        has broken its run."""
        leave()
        if (started := self._started.pop(response_id, None)) is not None:
            loop = asyncio.get_running_loop()
            self._track(loop.create_task(self._end_unfinished(started)))

    async def start(self) -> None:
        """End what other processes have left behind, and go on with what is queued."""
        await self._look_around()
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def close(self) -> None:
        """Stop all tasks. Runs that have not ended are cancelled."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait((self._watching,))
        await self.background.close()
        await self._cancel_rest()
        await self.lease.close()

    async def _cancel_rest(self) -> None:
        """Cancel foreground runs that wait for their client to come back."""
        tasks = []
        for driver in tuple(self.drivers.values()):
            driver.cancel()
            if driver.task is not None:
                tasks.append(driver.task)
        if tasks:
            await asyncio.wait(tasks)
        if self._finishing:
            await asyncio.wait(tuple(self._finishing))

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(look_interval(self._config.lease_s))
            await self._look_around()

    async def _look_around(self) -> None:
        services = self._services
        try:
            await self.lease.renew()  # after a pause of this process its own runs look abandoned
            ended = await self._endings.end_expired()
        except StoreError as error:
            facts = {"reason": error.message}
            services.emit(Entry("runs.recovery_failed", "error", facts))
            return
        if ended:
            services.emit(Entry("runs.recovered", "warning", {"responses": ended}))
        await self.background.take_queued()
        for response_id, client in tuple(self._unfinished.items()):
            with suppress(StoreError):
                await self.store.delete(response_id, client=client)
                del self._unfinished[response_id]

    def _on_request(self, requested: RenewedRuns) -> None:
        for response_id in requested.cancelled:
            if (driver := self.drivers.get(response_id)) is not None:
                driver.cancel()
        for response_id in requested.deleted:
            if (driver := self.drivers.get(response_id)) is not None:
                driver.delete()

    async def _finish_started(self, turn: Turn, events: list[Event]) -> list[Event]:
        """End a response that was stored when it began, also if its reader leaves meanwhile:
        nobody else would end it."""
        self._started.pop(turn.id, None)
        finishing = asyncio.get_running_loop().create_task(self._finish(turn))
        self._track(finishing)
        await asyncio.shield(finishing)
        return events

    def _track(self, finishing: asyncio.Task[None]) -> None:
        self._finishing[finishing] = None
        finishing.add_done_callback(self._forget_finishing)

    def _forget_finishing(self, task: asyncio.Task[None]) -> None:
        del self._finishing[task]
        if not task.cancelled():
            task.exception()  # nobody may be left to hear of it

    async def _finish(self, turn: Turn) -> None:
        conversation_id = conversation_of(turn.response)
        try:
            await self.store.runs.finish(turn, FIRST_TOKEN, conversation_id=conversation_id)
        except LeaseLost:
            raise
        except StoreError:
            self._unfinished[turn.id] = turn.client
            raise
        finally:
            self.lease.release(turn.id)

    async def _end_unfinished(self, started: ClaimedRun) -> None:
        try:
            await self._endings.end(started, is_cancelled=False)
        except StoreError as error:  # the next look around tries again
            facts = {"reason": error.message}
            self._services.emit(Entry("runs.end_failed", "error", facts))
        finally:
            self.lease.release(started.turn.id)


def look_interval(lease_s: float) -> float:
    """Return the seconds between two looks around: a response ends this long after its lease."""
    return min(lease_s, LOOK_EVERY_S)
