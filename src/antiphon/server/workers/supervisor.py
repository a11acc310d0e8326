"""Parent of the workers: starts them one by one, replaces those that die, and passes on signals.

SIGHUP validates the configuration and replaces the workers one after the other: each is retired
only when its successor accepts connections. SIGTERM and SIGINT stop all of them.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Sequence
from functools import partial
from math import inf

from antiphon.config import Config
from antiphon.errors import ConfigError
from antiphon.server.workers.limit_server import LimitServer
from antiphon.server.workers.listeners import Listeners, close_listeners
from antiphon.server.workers.worker_process import (
    RETIRE,
    Inherited,
    WorkerContext,
    WorkerProcess,
    fork_worker,
)
from antiphon.stages.log import Entry

START_S = 60.0
"""Seconds in which a worker must be ready."""
_EXIT_S = 15.0  # for terminal events and for closing the store, after the deadline of the streams
_STABLE_S = 10.0  # a worker that lived as long is replaced at once
_MIN_BACKOFF_S = 0.5
_MAX_BACKOFF_S = 10.0
_UNCHANGED = "the configuration has not changed"

Work = Callable[[Config, WorkerContext], int]
"""Runs a worker until it is stopped; returns its exit code."""


class Supervisor:
    """Keeps a worker at each place, with the last configuration that was usable."""

    def __init__(
        self,
        config: Config,
        listeners: Sequence[Listeners],
        *,
        load: Callable[[], Config],
        work: Work,
        emit: Callable[[Entry], None],
        announce: Callable[[], None],
        on_end: Callable[[int], None] = lambda pid: None,
    ) -> None:
        """`load` reads the configuration again, and raises `ConfigError` if it cannot be used.
        `on_end` is called with the process id of every worker that has ended."""
        self._usable = self._wanted = config
        self._listeners = listeners
        self._load = load
        self._work = work
        self._emit = emit
        self._announce = announce
        self._on_worker_end = on_end
        places = range(1, len(listeners) + 1)
        self._serving: dict[int, WorkerProcess | None] = dict.fromkeys(places)
        self._not_before = dict.fromkeys(places, 0.0)
        self._backoff_s = dict.fromkeys(places, 0.0)
        self._workers: dict[int, WorkerProcess] = {}
        self._is_complete = False
        self._is_announced = False
        self._is_stopping = False
        self._exit_code = 0
        self._selector = selectors.DefaultSelector()
        """Its data are functions, which are called when their file is ready."""
        self._limits = LimitServer(self._selector)
        self._alive, self._alive_end = os.pipe()
        self._signals, self._signals_end = socket.socketpair()

    def run(self) -> int:
        """Run until a signal has stopped all workers; return the exit code."""
        self._watch_signals()
        self._advance()
        while self._workers or not self._is_stopping:
            for key, _ in self._selector.select(self._find_timeout()):
                key.data()
            self._reap()
            self._kill_late()
            self._advance()
        return self._exit_code

    def _watch_signals(self) -> None:
        for each in (self._signals, self._signals_end):
            each.setblocking(False)
        self._selector.register(self._signals, selectors.EVENT_READ, self._on_signals)
        signal.set_wakeup_fd(self._signals_end.fileno())
        for number in (signal.SIGCHLD, signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _ignore)

    def _find_timeout(self) -> float | None:
        """Seconds until something must be done without an event."""
        times = [worker.kill_at for worker in self._workers.values()]
        if self._may_start():
            times += [self._not_before[place] for place in self._list_outdated()]
        due = min(times, default=inf)
        return None if due == inf else max(0.0, due - time.monotonic())

    # Starting, one worker at a time

    def _advance(self) -> None:
        """Start the next worker that is missing or has another configuration, if none is starting;
        report when there is none left."""
        if not self._may_start():
            return
        outdated = self._list_outdated()
        now = time.monotonic()
        for place in outdated:
            if self._not_before[place] <= now:
                self._start(place)
                return
        if not (outdated or self._is_complete or self._has_outdated_accepting()):
            self._is_complete = True
            self._report_complete()

    def _may_start(self) -> bool:
        return not self._is_stopping and all(each.is_ready for each in self._workers.values())

    def _list_outdated(self) -> list[int]:
        """List the places without a worker, or with one that has another configuration."""
        return [
            place
            for place, worker in self._serving.items()
            if worker is None or worker.config is not self._wanted
        ]

    def _has_outdated_accepting(self) -> bool:
        """Whether a worker that has been told to retire may still accept a connection."""
        return any(each.is_retired and each.is_accepting for each in self._workers.values())

    def _start(self, place: int) -> None:
        own = self._listeners[place - 1]
        others = [each for each in self._listeners if each is not own]
        others = [tuple(each for each in group if each not in own) for group in others]

        def close_inherited() -> None:
            close_listeners(others)
            self._limits.close()
            self._selector.close()
            os.close(self._alive_end)
            self._signals.close()
            self._signals_end.close()

        inherited = Inherited(own, self._alive, self._limits.connect())
        worker = fork_worker(place, self._wanted, inherited, close_inherited, self._work)
        worker.kill_at = time.monotonic() + START_S
        self._workers[worker.pid] = worker
        on_report = partial(self._on_report, worker)
        self._selector.register(worker.report, selectors.EVENT_READ, on_report)

    def _report_complete(self) -> None:
        if not self._is_announced:
            self._is_announced = True
            self._announce()
            return
        self._emit(Entry("config.reloaded", "info", {"workers": len(self._serving)}))

    def _on_report(self, worker: WorkerProcess) -> None:
        if not worker.read_report():  # it has retired, or has ended: see `_reap`
            self._selector.unregister(worker.report)
            os.close(worker.report)
            return
        worker.is_ready = True
        worker.kill_at = inf
        before, self._serving[worker.place] = self._serving[worker.place], worker
        self._usable = worker.config
        if before is not None:
            before.send(RETIRE, 2 * before.config.server.shutdown_s + _EXIT_S)

    # Signals

    def _on_signals(self) -> None:
        numbers = self._signals.recv(4096)
        if signal.SIGTERM in numbers or signal.SIGINT in numbers:
            self._stop(0)
        elif signal.SIGHUP in numbers and self._is_announced:
            self._reload()

    def _reload(self) -> None:
        try:
            config = self._load()
        except ConfigError as error:
            self._report_refusal(error.message)
            return
        self._wanted = config
        self._is_complete = False
        self._not_before = dict.fromkeys(self._not_before, 0.0)

    def _report_refusal(self, reason: str) -> None:
        facts = {"reason": reason, "effect": _UNCHANGED}
        self._emit(Entry("config.reload_failed", "error", facts))

    def _stop(self, exit_code: int) -> None:
        """Accept nothing new, and stop every worker. The second time changes nothing."""
        if self._is_stopping:
            return
        self._is_stopping = True
        self._exit_code = exit_code
        close_listeners(self._listeners)
        for worker in self._workers.values():
            worker.send(signal.SIGTERM, worker.config.server.shutdown_s + _EXIT_S)

    # Ends of workers

    def _reap(self) -> None:
        for worker in tuple(self._workers.values()):
            if (code := worker.reap()) is not None:
                del self._workers[worker.pid]
                self._on_worker_end(worker.pid)
                self._on_end(worker, code)

    def _on_end(self, worker: WorkerProcess, code: int) -> None:
        if self._serving[worker.place] is worker:
            self._serving[worker.place] = None
        if worker.is_retired:
            self._report_retired(worker, code)
        elif not self._is_announced:
            self._stop(code if code > 0 else 1)
        elif not worker.is_ready and worker.config is not self._usable:
            if worker.config is self._wanted:  # else another one has been read since
                self._wanted = self._usable
                self._is_complete = True
            self._report_refusal(f"a worker with the new configuration {_describe(code)}")
        else:
            self._schedule(worker, code)

    def _report_retired(self, worker: WorkerProcess, code: int) -> None:
        """Report a worker that did not end as it was asked to: its streams were cut."""
        if code not in (0, -RETIRE, -signal.SIGTERM):
            facts = {"worker": worker.place, "pid": worker.pid, "reason": _describe(code)}
            self._emit(Entry("worker.died", "error", facts))

    def _schedule(self, worker: WorkerProcess, code: int) -> None:
        """Have a worker replaced: at once, or later if it dies soon again and again."""
        place = worker.place
        now = time.monotonic()
        is_stable = worker.is_ready and now - worker.started_at >= _STABLE_S
        delay_s = 0.0 if is_stable else self._backoff_s[place]
        self._not_before[place] = now + delay_s
        self._backoff_s[place] = min(max(_MIN_BACKOFF_S, 2 * delay_s), _MAX_BACKOFF_S)
        facts = {"worker": place, "pid": worker.pid, "reason": _describe(code)}
        self._emit(Entry("worker.died", "error", {**facts, "restart_in_s": delay_s}))

    def _kill_late(self) -> None:
        now = time.monotonic()
        for worker in self._workers.values():
            if worker.kill_at <= now:
                worker.kill_at = inf
                os.kill(worker.pid, signal.SIGKILL)


def _describe(code: int) -> str:
    if code >= 0:
        return f"ended with exit status {code}"
    return f"was ended by {signal.Signals(-code).name}"


def _ignore(number: int, frame: object) -> None:
    """Leave a signal to the event loop, which is woken by it."""
