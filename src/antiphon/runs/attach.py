"""Retry-attach: a client that lost its connection and sends the same request again gets the rest of
the same response, so that nothing is paid for twice.

A run that has lost its reader waits for `window_s` seconds. The same request of the same client
within that time reads its log from the first event on. A run that failed, and one whose reader got
everything, is never given to anybody: asking the same twice is a wish, losing a connection is not.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TypeAlias

import msgspec

from antiphon.config import AttachConfig
from antiphon.core.client_profile import ALL_CLIENTS, PROFILES
from antiphon.engine.run import Run
from antiphon.runs.driver import Reader, RunDriver
from antiphon.runs.event_log import EventLog
from antiphon.runs.live_runs import LiveRuns
from antiphon.runs.tail import LogTail
from antiphon.wire.items import Document

Key: TypeAlias = tuple[str, bytes]
"""The client's name, and the digest of its request."""


def digest_request(document: Document) -> bytes:
    """Return a digest that is the same for the same request, however it is written."""
    return hashlib.sha256(msgspec.json.encode(document, order="sorted")).digest()


class AttachTable:
    """Runs without a reader that wait for their client."""

    def __init__(self, config: AttachConfig, live: LiveRuns) -> None:
        self._window_s = config.window_s
        clients = frozenset(config.clients)
        self.profiles = frozenset(PROFILES) if ALL_CLIENTS in clients else clients
        """Names of the kinds of clients that may attach."""
        self._live = live
        self._waiting: dict[Key, AttachableRun] = {}

    def make_driver(self, run: Run, key: Key) -> RunDriver:
        """Make the driver of a run that outlives its reader for a while."""
        log, live = EventLog(), self._live
        driver = RunDriver(run, log, live.drivers, live.record_start)
        driver.outlive = AttachableRun(self, key, driver, log)
        return driver

    def take(self, key: Key) -> AttachableRun | None:
        """Return the run that waits for this request, which then waits no more."""
        waiting = self._waiting.pop(key, None)
        if waiting is None:
            return None
        waiting.stop_waiting()
        return None if waiting.log.has_failed else waiting

    def put(self, key: Key, run: AttachableRun) -> asyncio.TimerHandle:
        """Let a run wait until the window ends."""
        self._waiting[key] = run
        return asyncio.get_running_loop().call_later(self._window_s, self._expire, key, run)

    def _expire(self, key: Key, run: AttachableRun) -> None:
        if self._waiting.get(key) is run:
            del self._waiting[key]
        run.driver.cancel()


class AttachableRun:
    """A run that waits for its client whenever it has no reader."""

    def __init__(self, table: AttachTable, key: Key, driver: RunDriver, log: EventLog) -> None:
        self._table = table
        self._key = key
        self.driver = driver
        self.log = log
        self._timer: asyncio.TimerHandle | None = None
        self._is_complete = False

    def reader_has_left(self) -> None:
        if self.driver.error is None and not self._is_complete and self._timer is None:
            self._timer = self._table.put(self._key, self)

    def reader_has_all(self) -> None:
        self._is_complete = True
        self.driver.outlive = None  # it refers to the driver

    def stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class AttachedTail(LogTail):
    """The reader that has come back."""

    def __init__(self, run: AttachableRun) -> None:
        super().__init__(run.log, -1)
        self._run = run

    async def follow(self, reader: Reader) -> None:
        await super().follow(reader)
        self._run.reader_has_all()

    async def leave(self) -> None:
        self._run.reader_has_left()
