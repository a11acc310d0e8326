"""Live run: a response that is being generated, with its one task, its log and its readers.

1. The task opens the run, has each batch of events numbered by the log, and hands it to the first
   reader in the same turn of the event loop. The next batch waits for it: there is no queue. The
   reader renders the batch, so that nothing is rendered for a reader that has left.
2. The first reader may leave at any time. The run is then cancelled, and its response ends as
   `cancelled`; or it goes on and waits for its client, if its maker wants that. Other readers read
   the log (`runs/tail.py`), and the run does not depend on them.
3. The run is left on every path, and the first reader learns of the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from enum import Enum, auto
from functools import partial
from typing import Protocol

from antiphon.core.diagnostic import Diagnostic
from antiphon.core.events import TERMINAL_TYPES, Event
from antiphon.core.faults.fault import FaultType
from antiphon.dialects.client_dialect import EventBatch
from antiphon.engine.run import Run
from antiphon.engine.services import Prepared
from antiphon.errors import InvalidRequest, UpstreamError
from antiphon.runs.event_log import EventLog
from antiphon.runs.recovery import StartedTurns
from antiphon.store.run_log import BEFORE_FIRST
from antiphon.store.store import Store
from antiphon.store.turn import Turn

START_AFTER_S = 0.2
"""A response that takes longer than this is stored when it begins, and not only in the end."""


class Reader(Protocol):
    """Gets batches of events, and renders them for its client."""

    async def send(self, batch: EventBatch, is_last: bool) -> None:
        """Render and send events; returns when the client is ready for more. Raises
        `ConnectionError` if the client is gone."""


class EventSource(Protocol):
    """Where a reader gets its events from: a live run, or a tail of its log."""

    after: int
    """The number of the last event that the reader has before it follows; -1 for none."""

    def add_diagnostic(self, diagnostic: Diagnostic) -> None:
        """Report what was sent differently to this reader."""

    async def follow(self, reader: Reader) -> None:
        """Have all events after `after` sent to this reader; returns after the last."""

    async def leave(self) -> None:
        """Take the reader away. May be called more than once."""


class ReaderState(Enum):
    """Where the first reader is, as far as the run knows."""

    PRESENT = auto()
    """It reads, or will."""
    WRITING = auto()
    """A batch is being written to it."""
    LOST = auto()
    """It has left, and the run waits for its client."""
    DONE = auto()
    """It has everything; or the run was cancelled, and ends with its reader."""


class ForegroundTurn:
    """Saves the turn of one run (`SaveTurn`): in the end alone, or from the beginning on if the
    response takes longer than a moment, so that other processes know its status."""

    __slots__ = (
        "_is_deleted",
        "_is_saving",
        "_is_started",
        "_prepared",
        "_started_turns",
        "_store",
        "_timer",
    )

    def __init__(self, started_turns: StartedTurns, store: Store, prepared: Prepared) -> None:
        self._started_turns = started_turns
        self._store = store
        self._prepared = prepared
        self._timer: asyncio.TimerHandle | None = None
        self._is_started = False
        """Whether the beginning was stored, until the end is being stored."""
        self._is_saving = False
        self._is_deleted = False

    def abandon(self) -> None:
        """Delete a response that was deleted, end one whose run was broken."""
        if self._timer is not None:
            self._timer.cancel()
        if self._is_started:
            started = self._started_turns
            leave = started.delete if self._is_deleted else started.abandon
            leave(self._make_beginning())

    def response_began(self) -> None:
        """Store the beginning, if the end does not come in a moment."""
        if self._prepared.request.store:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(START_AFTER_S, self._record_start)

    def _record_start(self) -> None:
        self._timer = None
        if not self._is_saving and not self._is_deleted:
            self._started_turns.start(self._make_beginning())
            self._is_started = True

    def _make_beginning(self) -> Turn:
        """Make the turn as the response begins: it is made once more rather than kept."""
        prepared = self._prepared
        return prepared.make_turn(prepared.response, prepared.first_plan.provider)

    def delete(self) -> bool:
        """Store nothing from now on; False if the end is being stored already."""
        self._is_deleted = not self._is_saving
        return self._is_deleted

    async def __call__(self, turn: Turn, events: list[Event]) -> list[Event]:
        self._is_saving = True
        if self._is_deleted:
            return events
        if not self._is_started:
            conversation_id = self._prepared.request.conversation
            await self._store.save(turn, conversation_id=conversation_id)
        else:
            self._is_started = False
            await self._started_turns.finish(turn)
        return events


class LiveRun:
    """A run and the task that generates its response; the `EventSource` of the first reader.

    For a first reader: `open`, `follow`, and `leave` in the end. Without one: `start`.
    """

    __slots__ = (
        "_attached",
        "_began",
        "_first",
        "_on_reader_lost",
        "_reader",
        "_reader_state",
        "_released",
        "_turn",
        "is_deleted",
        "log",
        "run",
        "task",
    )

    after = BEFORE_FIRST

    def __init__(
        self,
        run: Run,
        log: EventLog,
        *,
        turn: ForegroundTurn | None = None,
        on_reader_lost: Callable[[LiveRun], None] | None = None,
    ) -> None:
        """`turn` stores the turn of a foreground response. `on_reader_lost` is called when the run
        has lost its reader and goes on; None: it ends with its reader."""
        self.run = run
        self.log = log
        self.task: asyncio.Task[Exception | None] | None = None
        self.is_deleted = False
        """Whether its response was deleted: it is not found any more."""
        self._turn = turn
        self._on_reader_lost = on_reader_lost
        self._reader: Reader | None = None
        self._reader_state = ReaderState.PRESENT
        loop = asyncio.get_running_loop()
        self._began: asyncio.Future[None] = loop.create_future()
        self._first: EventBatch | None = None
        """The events that the response begins with, while they wait for the reader."""
        self._attached: asyncio.Future[None] = loop.create_future()
        """Done when the first reader has come, or will not."""
        self._released: asyncio.Future[None] = loop.create_future()
        """Done when the first reader gets nothing more."""

    @property
    def error(self) -> Exception | None:
        """What has broken the run, and not only its response."""
        task = self.task
        if task is None or not task.done() or task.cancelled():
            return None
        return task.result()

    # The first reader

    async def open(self, commit_after_s: float, *, streams_overflow: bool = True) -> None:
        """Wait until the response may begin: for the first events, or for `commit_after_s` after
        the client was admitted.

        Until then the diagnostics may change, and a fault is raised as `UpstreamError`, so that it
        can be an HTTP error. Afterwards a fault is a `response.failed` event, and so is from the
        beginning a context that is too long, with `streams_overflow`.
        """
        generate = partial(
            self._generate, commit_after_s=commit_after_s, streams_overflow=streams_overflow
        )
        self.task = asyncio.get_running_loop().create_task(self._drive(generate))
        await self._began

    async def follow(self, reader: Reader) -> None:
        if (first := self._first) is not None:
            self._first = None
            await reader.send(first, type(first.events[-1]) in TERMINAL_TYPES)
            del first  # this frame is there as long as the stream
        if self.task is not None and not self.task.done():
            self._reader = reader
            self._attached.set_result(None)
            await self._released
        if self.error is not None:
            raise self.error
        self.reader_has_all()

    async def leave(self) -> None:
        """Take the reader away, which ends the run unless it waits for its client. May be called
        more than once."""
        self._reader = None
        if not self._attached.done():
            self._attached.set_result(None)
        task = self.task
        if task is None:
            self.run.discard()
        elif self._outlives_reader:
            if self._reader_state is ReaderState.WRITING and not task.done():
                task.cancel()  # only the write: see `_deliver`
                self._reader_state = ReaderState.PRESENT
            self.reader_has_left()
        elif not task.done():
            task.cancel()
            await asyncio.wait((task,))
            self.run.discard()  # if it was cancelled before its first step

    def reader_has_left(self) -> None:
        """Let a run wait whose client may come back, unless it was left or broken before."""
        if self._on_reader_lost is None or self.error is not None:
            return
        if self._reader_state is ReaderState.PRESENT:
            self._reader_state = ReaderState.LOST
            self._on_reader_lost(self)

    def reader_has_returned(self) -> None:
        """The client has come back, and reads the log."""
        self._reader_state = ReaderState.PRESENT

    def reader_has_all(self) -> None:
        """The client has the terminal event: the run waits for it no more."""
        self._reader_state = ReaderState.DONE

    @property
    def _outlives_reader(self) -> bool:
        return self._on_reader_lost is not None and self._reader_state is not ReaderState.DONE

    # From outside

    def start(self) -> asyncio.Task[Exception | None]:
        """Generate the response for the readers of its log; every fault is an event."""
        self._began.set_result(None)
        self._attached.set_result(None)
        loop = asyncio.get_running_loop()
        self.task = loop.create_task(self._drive(self._generate_without_reader))
        return self.task

    def cancel(self) -> None:
        """End the run as cancelled, with a terminal event for its readers."""
        self._reader_state = ReaderState.DONE
        # A task that is cancelled before its first step would do nothing at all.
        asyncio.get_running_loop().call_soon(self._cancel_task)

    def _cancel_task(self) -> None:
        if self.task is not None and not self.log.is_finishing:
            self.task.cancel()

    def delete(self) -> bool:
        """End the run of a response that is deleted; False if it is being stored already."""
        self.is_deleted = True
        is_in_time = self._turn is None or self._turn.delete()
        if is_in_time:  # else its reader gets the end that it has
            self.cancel()
        return is_in_time

    def add_diagnostic(self, diagnostic: Diagnostic) -> None:
        self.run.add_diagnostic(diagnostic)

    # The task

    async def _drive(self, generate: Callable[[], Awaitable[None]]) -> Exception | None:
        """Generate the response; return what has broken the run."""
        try:
            async with self.run:
                try:
                    await generate()
                except (asyncio.CancelledError, ConnectionError):
                    if events := await self.run.cancel():
                        await self._deliver(events)
                    raise
        except Exception as error:
            if not self._began.done():
                self._began.set_exception(error)
            return error
        finally:
            self._reader = None  # it refers to the run: without the cycle both are freed at once
            if not self._began.done():  # cancelled before the client was admitted
                self._began.cancel()
            if not self._released.done():
                self._released.set_result(None)
        return None

    async def _generate(
        self, *, commit_after_s: float | None = None, streams_overflow: bool = True
    ) -> None:
        commit: asyncio.TimerHandle | None = None
        if commit_after_s is not None:
            loop = asyncio.get_running_loop()
            commit = loop.call_later(commit_after_s, self._commit)
        try:
            await self.run.open()
        except UpstreamError as error:
            is_event = streams_overflow and error.fault.type is FaultType.context_length
            if not self._began.done() and not is_event:
                raise
            await self._deliver(await self.run.fail(error.fault))
            return
        finally:
            if commit is not None:
                commit.cancel()  # the first events are about to come
                del commit  # this frame is there as long as the stream
        while events := await self.run.next_events():
            await self._deliver(events)

    async def _generate_without_reader(self) -> None:
        if self.run.prepared.request.stream:
            events = self.run.start()
            is_announced = self.log.next_number > 0  # while it was queued
            await self._deliver(events[1:] if is_announced else events)
            await self._generate()
            return
        try:
            await self.run.response()
        except UpstreamError as error:
            await self.run.fail(error.fault)
        except InvalidRequest as error:  # known only after MCP servers have listed their tools
            await self.run.fail(error.message)

    def _commit(self) -> None:
        """Begin without the provider: a slow one must not leave the client without a byte."""
        if self._began.done():
            return
        try:
            if events := self.run.start():  # else the first events wait only for the store
                self._begin(events)
        except Exception as error:
            self._began.set_exception(error)

    def _begin(self, events: list[Event]) -> None:
        self._first = self.log.feed(events)
        self._began.set_result(None)
        if self._turn is not None:
            self._turn.response_began()

    async def _deliver(self, events: list[Event]) -> None:
        """Number a batch, and have it sent to the first reader, if there is one."""
        if not self._began.done():
            self._begin(events)
            return
        batch = self.log.feed(events)
        if self._reader is None and not self._attached.done():
            await self._attached
        if self._reader is None:
            return
        self._reader_state = ReaderState.WRITING
        try:
            await self._reader.send(batch, type(events[-1]) in TERMINAL_TYPES)
        except asyncio.CancelledError:
            if not self._outlives_reader:
                raise
            assert self.task is not None
            self.task.uncancel()  # the reader has left in the middle of a write: see `leave`
            self._reader = None
        except ConnectionError as error:
            if not self._outlives_reader:
                raise
            self._reader = None
            if not self._released.done():
                self._released.set_exception(error)
        if self._reader_state is ReaderState.WRITING:
            self._reader_state = ReaderState.PRESENT


def register(
    runs: MutableMapping[str, LiveRun], live: LiveRun, turn: ForegroundTurn | None = None
) -> None:
    """Put a live run into a table by response id, where it stays until its run is left; then its
    turn is ended, too."""
    response_id = live.run.prepared.response.id
    runs[response_id] = live
    live.run.hold(_Registration(runs, response_id, turn))


class _Registration:
    """The place of a live run in a table, and its turn."""

    __slots__ = ("_response_id", "_runs", "_turn")

    def __init__(
        self, runs: MutableMapping[str, LiveRun], response_id: str, turn: ForegroundTurn | None
    ) -> None:
        self._runs = runs
        self._response_id = response_id
        self._turn = turn

    def __enter__(self) -> None:
        return

    def __exit__(self, *exception: object) -> None:
        try:
            self._runs.pop(self._response_id)
        finally:
            if self._turn is not None:
                self._turn.abandon()
