"""Retry-attach: a client that lost its connection and sends the same request again gets the rest of
the same response, so that nothing is paid for twice.

A run that has lost its reader waits for `window_s` seconds. The same request of the same client
within that time reads its log from the first event on. A run that failed, or whose reader got
everything, is not attached to: the same request again is then a request for another response.
"""

from __future__ import annotations

import asyncio
import hashlib
from functools import partial
from typing import NamedTuple, TypeAlias

import msgspec

from antiphon.config import AttachConfig
from antiphon.core.client_profile import ALL_CLIENTS, PROFILES
from antiphon.core.items import Document
from antiphon.engine.services import Prepared, Services
from antiphon.runs.event_log import EventLog
from antiphon.runs.live_run import LiveRun, Reader
from antiphon.runs.live_runs import LiveRuns
from antiphon.runs.tail import LogTail
from antiphon.store.run_log import BEFORE_FIRST

Key: TypeAlias = tuple[str, bytes]
"""The client's name, and the digest of its request."""


def digest_request(document: Document) -> bytes:
    """Return a digest that is the same for the same request, however it is written."""
    return hashlib.sha256(msgspec.json.encode(document, order="sorted")).digest()


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

    def create(self, services: Services, prepared: Prepared, key: Key) -> LiveRun:
        """Make a run that waits for its client if it loses its reader."""
        wait = partial(self._wait, key)
        return self._live.create(services, prepared, log=EventLog(), on_reader_lost=wait)

    def take(self, key: Key) -> LiveRun | None:
        """Return the run that waits for this request, which then waits no more."""
        waiting = self._waiting.pop(key, None)
        if waiting is None:
            return None
        waiting.timer.cancel()
        waiting.run.reader_has_returned()
        return None if waiting.run.log.has_failed else waiting.run

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


class AttachedTail(LogTail):
    """The reader that has come back."""

    def __init__(self, run: LiveRun) -> None:
        super().__init__(run.log, BEFORE_FIRST)
        self._run = run

    async def follow(self, reader: Reader) -> None:
        await super().follow(reader)
        self._run.reader_has_all()

    async def leave(self) -> None:
        self._run.reader_has_left()
