"""Worker processes: forked from a parent without threads, ready when they say so, and stopped by
signals or by the end of the parent."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from antiphon.config import Config
from antiphon.server.workers.listeners import Listeners

RETIRE = signal.SIGUSR1
"""Finish what has begun, because another worker has taken over."""
_RESET = (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, RETIRE)


@dataclass(frozen=True)
class Inherited:
    """Open files that a worker gets from its parent."""

    listeners: Listeners
    parent: int
    """A pipe that is readable when the parent is gone."""
    limits: socket.socket
    """A connection to the counters of limits that all workers share."""


@dataclass(frozen=True)
class WorkerContext:
    """What a worker gets from its parent."""

    number: int
    """Counts from 1; a replacement has the number of its predecessor."""
    inherited: Inherited
    _report: int

    @property
    def parent(self) -> int:
        return self.inherited.parent

    @property
    def listeners(self) -> Listeners:
        return self.inherited.listeners

    def report_ready(self) -> None:
        """Tell the parent that the worker accepts connections."""
        os.write(self._report, b"1")

    def report_retired(self) -> None:
        """Tell the parent that the worker accepts no further connections."""
        os.close(self._report)


Work = Callable[[Config, WorkerContext], int]
"""Runs a worker until it is stopped; returns its exit code."""


@dataclass(eq=False)
class WorkerProcess:
    """A worker, as its parent sees it."""

    pid: int
    place: int
    config: Config
    report: int
    """A pipe: readable when the worker is ready, at its end when the worker accepts no further
    connections, or has ended."""
    started_at: float = field(default_factory=time.monotonic)
    is_ready: bool = False
    is_retired: bool = False
    is_accepting: bool = True
    kill_at: float = inf
    """When it is killed: it has not become ready, or has not ended, by then."""

    def read_report(self) -> bool:
        """Whether the worker has reported that it is ready; False at the end of the pipe."""
        self.is_accepting = bool(os.read(self.report, 1))
        return self.is_accepting

    def mark_ready(self) -> None:
        """The worker has started in time."""
        self.is_ready = True
        self.kill_at = inf

    def send(self, number: int, patience_s: float) -> None:
        """Send a signal after which the worker should end in time."""
        self.is_retired = True
        self.kill_at = min(self.kill_at, time.monotonic() + patience_s)
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End a worker that has neither started nor ended in time."""
        self.kill_at = inf
        os.kill(self.pid, signal.SIGKILL)

    def reap(self) -> int | None:
        """Return the exit code of a worker that has ended, a negative one for a signal."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None


def fork_worker(
    number: int,
    config: Config,
    inherited: Inherited,
    close_inherited: Callable[[], None],
    work: Work,
    *,
    start_s: float,
) -> WorkerProcess:
    """Start a worker that runs `work` and must be ready in `start_s`; `close_inherited` closes the
    files of the parent. The connection to the counters is closed in the parent."""
    report, report_end = os.pipe()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, (*_RESET, signal.SIGINT))
    pid = os.fork()
    if pid == 0:
        os.close(report)
        close_inherited()
        signal.set_wakeup_fd(-1)
        for each in _RESET:
            signal.signal(each, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, too
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        _run_and_exit(lambda: work(config, WorkerContext(number, inherited, report_end)))
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    os.close(report_end)
    inherited.limits.close()
    return WorkerProcess(pid, number, config, report, kill_at=time.monotonic() + start_s)


def _run_and_exit(work: Callable[[], int]) -> None:
    """Run the work of a worker, and never return to the code of the parent."""
    code = 1
    try:
        code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
