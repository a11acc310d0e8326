"""Retry-attach: a client that lost its connection and sends the same request again gets the rest of
the same response, so that nothing is paid for twice.

A run that has lost its reader waits for `window_s` seconds. The same request of the same client
within that time reads its log from the first event on. A run that failed, or whose reader got
everything, is not attached to: the same request again is then a request for another response.
"""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import closing
from functools import partial
from typing import NamedTuple, TypeAlias

import msgspec

from antiphon.config import AttachConfig
from antiphon.core.client_profile import ALL_CLIENTS, PROFILES
from antiphon.core.events import TERMINAL_EVENTS
from antiphon.core.items import Document
from antiphon.core.response import Response
from antiphon.dialects.client_dialect import EventBatch
from antiphon.engine.services import Prepared, Services
from antiphon.runs.event_log import EventLog
from antiphon.runs.live_run import LiveRun, Reader
from antiphon.runs.live_runs import LiveRuns
from antiphon.runs.tail import LogTail
from antiphon.store.run_log import BEFORE_FIRST

Key: TypeAlias = tuple[str, bytes]
"""The client's name, and the digest of its request."""


def digest_request(document: Document) -> bytes:
    """Return a digest that is the same for the same request, however it is written, and whether or
    not it wants a stream: Claude Code repeats a request whose stream was cut without one."""
    same = {name: value for name, value in document.items() if name != "stream"}
    return hashlib.sha256(msgspec.json.encode(same, order="sorted")).digest()


class _WaitingRun(NamedTuple):
    run: LiveRun
    timer: asyncio.TimerHandle


class AttachTable:
    """Runs without a reader that wait for their client."""

    def __init__(self, config: AttachConfig, live: LiveRuns) -> None:
        self._window_s = config.window_s
        clients = frozenset(config.clients)
        self.profiles = frozenset(PROFILES) if ALL_CLIENTS in clients else clients
        """Names of the kinds of clients that may attach."""
        self._live = live
        self._waiting: dict[Key, _WaitingRun] = {}

    @property
    def has_waiting(self) -> bool:
        """Whether a run waits for its client."""
        return bool(self._waiting)

    def create(self, services: Services, prepared: Prepared, key: Key) -> LiveRun:
        """Make a run that waits for its client if it loses its reader."""
        wait = partial(self._wait, key)
        run = self._live.create(services, prepared, log=EventLog(), on_reader_lost=wait)
        run.run.hold(closing(run.log))  # no reader waits for the end of a run that was broken
        return run

    def take(self, key: Key) -> LiveRun | None:
        """Return the run that waits for this request, which then waits no more."""
        waiting = self._waiting.pop(key, None)
        if waiting is None:
            return None
        waiting.timer.cancel()
        waiting.run.reader_has_returned()
        run = waiting.run
        is_broken = run.log.is_closed and not run.log.has_ended
        return None if run.log.has_failed or is_broken or run.is_deleted else run

    def _wait(self, key: Key, run: LiveRun) -> None:
        """Let a run wait until the window ends."""
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._window_s, self._expire, key, run)
        self._waiting[key] = _WaitingRun(run, timer)

    def _expire(self, key: Key, run: LiveRun) -> None:
        waiting = self._waiting.get(key)
        if waiting is not None and waiting.run is run:
            del self._waiting[key]
        run.cancel()


class LastEvent:
    """A reader that wants the terminal event alone."""

    def __init__(self) -> None:
        self.response: Response | None = None
        """The response in the end."""

    async def send(self, batch: EventBatch, is_last: bool) -> None:
        last = batch.events[-1]
        if is_last and isinstance(last, TERMINAL_EVENTS):
            self.response = last.response


class AttachedTail(LogTail):
    """The reader that has come back."""

    def __init__(self, run: LiveRun) -> None:
        super().__init__(run.log, BEFORE_FIRST)
        self._run = run

    async def follow(self, reader: Reader) -> None:
        try:
            await super().follow(reader)
        except ConnectionAbortedError:
            if self._run.error is not None:
                raise self._run.error from None
            raise
        self._run.reader_has_all()

    async def leave(self) -> None:
        self._run.reader_has_left()

    async def response(self) -> Response:
        """Wait for the end of the response, for a client that wants it whole."""
        reader = LastEvent()
        await self.follow(reader)
        assert reader.response is not None
        return reader.response
