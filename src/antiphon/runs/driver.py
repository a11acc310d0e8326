"""Run driver: the one task that generates a streamed response, whoever reads it.

1. The driver opens the run, numbers and encodes each batch of events once, and hands it to the
   reader in the same turn of the event loop. The next batch waits for it: there is no queue.
2. A reader may leave at any time. A run that does not outlive its reader is cancelled then, and its
   response ends as `cancelled`; any other goes on without it.
3. Whatever happens, the run is left, and the reader hears of the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Protocol

from antiphon.core.diagnostic import Diagnostic
from antiphon.core.faults.fault import FaultType
from antiphon.engine.answer import SaveTurn
from antiphon.engine.run import Run
from antiphon.errors import UpstreamError
from antiphon.runs.event_log import EventLog
from antiphon.store.turn import Turn
from antiphon.wire.events import TERMINAL_TYPES, Event
from antiphon.wire.sse import SSEEncoder

START_AFTER_S = 0.2
"""A response that takes longer than this is stored when it begins, and not only in the end."""


class Reader(Protocol):
    """Whoever gets the batches of a run while they are made."""

    async def send(self, frames: bytes, last_seq: int, is_last: bool) -> None:
        """Send encoded events, the last of which has this number; returns when the reader is ready
        for more. Raises `ConnectionError` if the reader is gone."""


class Outlive(Protocol):
    """Whoever keeps a run that has lost its reader."""

    def reader_has_left(self) -> None: ...

    def reader_has_all(self) -> None: ...


class RunDriver:
    """Drives a run in a task of its own.

    For a first reader: `open`, `follow`, and `leave` in the end. For nobody in particular: `start`.
    """

    def __init__(
        self,
        run: Run,
        log: SSEEncoder | None = None,
        drivers: MutableMapping[str, RunDriver] | None = None,
        record_start: Callable[[Run], None] | None = None,
    ) -> None:
        """`log` numbers and encodes the events, and may keep them. `drivers` has every driver while
        it runs, by response id. `record_start` is called if the run takes longer than a moment."""
        self.run = run
        self.log = log or SSEEncoder()
        self.first: tuple[bytes, int, bool] = (b"", -1, False)
        """The events that the answer begins with, for the reader to send before `follow`: as the
        arguments of `Reader.send`."""
        self.outlive: Outlive | None = None
        """Set: the run goes on when its reader leaves."""
        self.save_turn: SaveTurn | None = None
        """Set: stores the turn in the end."""
        self._drivers = {} if drivers is None else drivers
        self._record_start = record_start
        self._start_timer: asyncio.TimerHandle | None = None
        self.is_deleted = False
        """Whether its response was deleted: nobody finds it any more."""
        self._reader: Reader | None = None
        self._is_open = False
        """Whether the provider has sent output: the first events are about to come."""
        self._is_writing = False
        self.error: Exception | None = None
        """What has broken the run, and not only the answer."""
        loop = asyncio.get_running_loop()
        self._began: asyncio.Future[None] = loop.create_future()
        self._attached: asyncio.Future[None] = loop.create_future()
        self._released: asyncio.Future[None] = loop.create_future()
        self.task: asyncio.Task[None] | None = None

    async def open(self, commit_after_s: float) -> None:
        """Wait until the answer may begin: for the first events, or for `commit_after_s`.

        Until then the diagnostics may change, and a fault is raised as `UpstreamError`, so that it
        can be an HTTP error. Afterwards a fault is a `response.failed` event.
        """
        loop = asyncio.get_running_loop()
        self.task = loop.create_task(self._drive(self._generate))
        timer = loop.call_later(commit_after_s, self._commit)
        try:
            await self._began
        finally:
            timer.cancel()

    def start(self) -> asyncio.Task[None]:
        """Generate the response for whoever reads its log; every fault is an event."""
        self._began.set_result(None)
        self._attached.set_result(None)
        is_streamed = self.run.prepared.request.stream
        generate = self._generate_from_start if is_streamed else self._generate_whole
        self.task = asyncio.get_running_loop().create_task(self._drive(generate))
        return self.task

    async def follow(self, reader: Reader) -> None:
        """Have everything after the first events sent to this reader; returns after the last."""
        if self.task is not None and not self.task.done():
            self._reader = reader
            self._attached.set_result(None)
            await self._released
        if self.error is not None:
            raise self.error
        if self.outlive is not None:
            self.outlive.reader_has_all()

    async def leave(self) -> None:
        """Take the reader away, which ends the run unless it outlives its readers. May be called
        more than once."""
        task, self._reader = self.task, None
        if not self._attached.done():
            self._attached.set_result(None)
        if task is None:
            return
        if self.outlive is not None:
            if self._is_writing and not task.done():
                task.cancel()  # only the write: see `_send`
            self.outlive.reader_has_left()
        elif not task.done():
            task.cancel()
            await asyncio.wait((task,))

    def cancel(self) -> None:
        """End the run as cancelled, with a terminal event for its readers."""
        self.outlive = None
        # A task that is cancelled before its first step would do nothing at all.
        asyncio.get_running_loop().call_soon(self._cancel_task)

    def _cancel_task(self) -> None:
        is_finishing = isinstance(self.log, EventLog) and self.log.is_finishing
        if self.task is not None and not is_finishing:
            self.task.cancel()

    def delete(self) -> bool:
        """End the run of a response that is deleted; False if it is being stored already."""
        self.is_deleted = True
        is_in_time = self.save_turn is not None or self.run.save_with(_save_nothing)
        self.cancel()
        return is_in_time

    def add_diagnostic(self, diagnostic: Diagnostic) -> None:
        self.run.add_diagnostic(diagnostic)

    def _commit(self) -> None:
        """Begin without the provider: a slow one must not leave the client without a byte."""
        if self._began.done() or self._is_open:
            return
        try:
            if events := self.run.start():  # else the first events wait only for the store
                self._begin(events)
        except Exception as error:
            self._began.set_exception(error)

    def _begin(self, events: list[Event]) -> None:
        frames = self.log.feed(events)
        self.first = (frames, self.log.sequence_number - 1, type(events[-1]) in TERMINAL_TYPES)
        self._began.set_result(None)
        if self._record_start is not None and self.run.prepared.request.store:
            loop = asyncio.get_running_loop()
            self._start_timer = loop.call_later(START_AFTER_S, self._record_start, self.run)

    async def _drive(self, generate: Callable[[], Awaitable[None]]) -> None:
        response_id = self.run.prepared.response.id
        self._drivers[response_id] = self
        try:
            async with self.run:
                if self.save_turn is not None:
                    self.run.save_with(self.save_turn)
                try:
                    await generate()
                except (asyncio.CancelledError, ConnectionError):
                    if events := await self.run.cancel():
                        await self._deliver(events)
                    raise
        except Exception as error:
            self.error = error
            if not self._began.done():
                self._began.set_exception(error)
        finally:
            del self._drivers[response_id]
            if self._start_timer is not None:
                self._start_timer.cancel()
            self._reader = None  # it refers to the driver: without the cycle both are freed at once
            if not self._released.done():
                self._released.set_result(None)

    async def _generate(self) -> None:
        try:
            await self.run.open()
        except UpstreamError as error:
            # Clients compact a thread only if they learn of the overflow inside of a stream.
            if not self._began.done() and error.fault.type is not FaultType.context_length:
                raise
            await self._deliver(await self.run.fail(error.fault))
            return
        self._is_open = True
        while events := await self.run.next_events():
            await self._deliver(events)

    async def _generate_from_start(self) -> None:
        events = self.run.start()
        is_announced = self.log.sequence_number > 0  # while it was queued
        await self._deliver(events[1:] if is_announced else events)
        await self._generate()

    async def _generate_whole(self) -> None:
        try:
            await self.run.response()
        except UpstreamError as error:
            await self.run.fail(error.fault)

    async def _deliver(self, events: list[Event]) -> None:
        """Number and encode a batch, and have it sent."""
        if not self._began.done():
            self._begin(events)
            return
        frames = self.log.feed(events)
        if self._reader is None and not self._attached.done():
            await self._attached
        if self._reader is not None:
            is_last = type(events[-1]) in TERMINAL_TYPES
            self._is_writing = True
            try:
                await self._reader.send(frames, self.log.sequence_number - 1, is_last)
            except (asyncio.CancelledError, ConnectionError) as error:
                if self.outlive is None:
                    raise
                self._lose_reader(error)
            self._is_writing = False

    def _lose_reader(self, error: BaseException) -> None:
        """Go on without the reader: it has left in the middle of a write, or its connection is
        gone."""
        self._reader = None
        if isinstance(error, asyncio.CancelledError):
            assert self.task is not None
            self.task.uncancel()
        elif not self._released.done():
            self._released.set_exception(error)


async def _save_nothing(turn: Turn, events: list[Event]) -> list[Event]:
    return events
