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
from antiphon.server.workers.places import Place, Rollout
from antiphon.server.workers.worker_process import (
    RETIRE,
    Inherited,
    Work,
    WorkerProcess,
    fork_worker,
)
from antiphon.stages.log import Entry

START_S = 60.0
"""Seconds in which a worker must be ready."""
_EXIT_S = 15.0  # for terminal events and for closing the store, after the deadline of the streams
_UNCHANGED = "the configuration has not changed"


class SignalSocket:
    """The signals of this process, as bytes of a socket that a selector can watch."""

    def __init__(self) -> None:
        self.reader, self._writer = socket.socketpair()

    def watch(self, *numbers: int) -> None:
        """Have these signals written to the socket, and do nothing else with them."""
        for each in (self.reader, self._writer):
            each.setblocking(False)
        signal.set_wakeup_fd(self._writer.fileno())
        for number in numbers:
            signal.signal(number, _ignore)

    def read(self) -> bytes:
        """The numbers of signals that have arrived, one byte each."""
        return self.reader.recv(4096)

    def close(self) -> None:
        self.reader.close()
        self._writer.close()


class ParentFiles:
    """Open files of the parent: what each worker gets of them, and what it closes."""

    def __init__(self, listeners: Sequence[Listeners]) -> None:
        """`listeners`: of each place."""
        self._listeners = listeners
        self.selector = selectors.DefaultSelector()
        """Its data are functions, which are called when their file is ready."""
        self.signals = SignalSocket()
        self._limits = LimitServer(self.selector)
        self._alive, self._alive_end = os.pipe()

    def open_for(self, place: Place) -> Inherited:
        """The files of the next worker at a place, with a new connection to the counters."""
        return Inherited(self._listeners[place.number - 1], self._alive, self._limits.connect())

    def close_in_worker(self, own: Listeners) -> None:
        """Close the files that a worker has inherited and does not use."""
        others = [each for each in self._listeners if each is not own]
        close_listeners([tuple(each for each in group if each not in own) for group in others])
        self._limits.close()
        self.selector.close()
        os.close(self._alive_end)
        self.signals.close()

    def close_listeners(self) -> None:
        close_listeners(self._listeners)


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
        self._load = load
        self._work = work
        self._emit = emit
        self._announce = announce
        self._on_worker_end = on_end
        self._rollout = Rollout(config)
        self._places = {number: Place(number) for number in range(1, len(listeners) + 1)}
        self._workers: dict[int, WorkerProcess] = {}
        self._files = ParentFiles(listeners)
        self._is_announced = False
        self._is_stopping = False
        self._exit_code = 0

    def run(self) -> int:
        """Run until a signal has stopped all workers; return the exit code."""
        self._watch_signals()
        self._advance()
        while self._workers or not self._is_stopping:
            for key, _ in self._files.selector.select(self._find_timeout()):
                key.data()
            self._reap()
            self._kill_late()
            self._advance()
        return self._exit_code

    def _watch_signals(self) -> None:
        signals = self._files.signals
        self._files.selector.register(signals.reader, selectors.EVENT_READ, self._on_signals)
        signals.watch(signal.SIGCHLD, signal.SIGHUP, signal.SIGTERM, signal.SIGINT)

    def _find_timeout(self) -> float | None:
        """Seconds until something must be done without an event."""
        times = [worker.kill_at for worker in self._workers.values()]
        if self._may_start():
            times += [place.start_at for place in self._list_outdated()]
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
            if place.start_at <= now:
                self._start(place)
                return
        if not (outdated or self._rollout.is_complete or self._has_outdated_accepting()):
            self._rollout.complete()
            self._report_complete()

    def _may_start(self) -> bool:
        return not self._is_stopping and all(each.is_ready for each in self._workers.values())

    def _list_outdated(self) -> list[Place]:
        """List the places without a worker, or with one that has another configuration."""
        wanted = self._rollout.wanted
        return [place for place in self._places.values() if place.is_outdated(wanted)]

    def _has_outdated_accepting(self) -> bool:
        """Whether a worker that has been told to retire may still accept a connection."""
        return any(each.is_retired and each.is_accepting for each in self._workers.values())

    def _start(self, place: Place) -> None:
        inherited = self._files.open_for(place)
        worker = fork_worker(
            place.number,
            self._rollout.wanted,
            inherited,
            partial(self._files.close_in_worker, inherited.listeners),
            self._work,
            start_s=START_S,
        )
        self._workers[worker.pid] = worker
        on_report = partial(self._on_report, worker)
        self._files.selector.register(worker.report, selectors.EVENT_READ, on_report)

    def _report_complete(self) -> None:
        if not self._is_announced:
            self._is_announced = True
            self._announce()
            return
        self._emit(Entry("config.reloaded", "info", {"workers": len(self._places)}))

    def _on_report(self, worker: WorkerProcess) -> None:
        if not worker.read_report():  # it has retired, or has ended: see `_reap`
            self._files.selector.unregister(worker.report)
            os.close(worker.report)
            return
        worker.mark_ready()
        before = self._places[worker.place].occupy(worker)
        self._rollout.confirm(worker.config)
        if before is not None:
            before.send(RETIRE, 2 * before.config.server.shutdown_s + _EXIT_S)

    # Signals

    def _on_signals(self) -> None:
        numbers = self._files.signals.read()
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
        self._rollout.begin(config)
        for place in self._places.values():
            place.start_at_once()

    def _report_refusal(self, reason: str) -> None:
        facts = {"reason": reason, "effect": _UNCHANGED}
        self._emit(Entry("config.reload_failed", "error", facts))

    def _stop(self, exit_code: int) -> None:
        """Accept nothing new, and stop every worker. The second time changes nothing."""
        if self._is_stopping:
            return
        self._is_stopping = True
        self._exit_code = exit_code
        self._files.close_listeners()
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
        place = self._places[worker.place]
        place.vacate(worker)
        if worker.is_retired:
            if code not in (
                0,
                -RETIRE,
                -signal.SIGTERM,
            ):  # not as it was asked to: streams were cut
                self._report_death(worker, code)
        elif not self._is_announced:
            self._stop(code if code > 0 else 1)
        elif not (worker.is_ready or self._rollout.is_confirmed(worker.config)):
            self._rollout.give_up(worker.config)
            self._report_refusal(f"a worker with the new configuration {_describe(code)}")
        else:
            self._report_death(worker, code, restart_in_s=place.delay_start(worker))

    def _report_death(self, worker: WorkerProcess, code: int, **facts: float) -> None:
        known = {"worker": worker.place, "pid": worker.pid, "reason": _describe(code)}
        self._emit(Entry("worker.died", "error", {**known, **facts}))

    def _kill_late(self) -> None:
        now = time.monotonic()
        for worker in self._workers.values():
            if worker.kill_at <= now:
                worker.kill()


def _describe(code: int) -> str:
    if code >= 0:
        return f"ended with exit status {code}"
    return f"was ended by {signal.Signals(-code).name}"


def _ignore(number: int, frame: object) -> None:
    """Leave a signal to the event loop, which is woken by it."""
