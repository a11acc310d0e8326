"""Worker processes, as the parent and as they themselves see them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from math import inf

import pytest

from antiphon.config import Config
from antiphon.server.workers.worker_process import Inherited, WorkerContext, WorkerProcess

FORK = """
import os, signal, socket, sys
from antiphon.config import Config
from antiphon.server.workers.worker_process import Inherited, fork_worker

def work(config, context):
    print("worker", context.number, signal.getsignal(signal.SIGTERM).name, end=" ")
    if sys.argv[1] == "fails":
        raise ValueError("broken")
    context.report_ready()
    return 3

signal.signal(signal.SIGTERM, lambda *_: None)
inherited = Inherited((), -1, socket.socket())
worker = fork_worker(2, Config(), inherited, lambda: None, work, start_s=60.0)
assert 50 < worker.kill_at - worker.started_at < 70
is_ready = worker.read_report()
os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
print("ready" if is_ready else "not ready", worker.reap())
"""


@pytest.mark.parametrize(
    ("how", "expected"), [("works", "ready 3"), ("fails", "not ready 1")], ids=["works", "fails"]
)
def test_a_worker_runs_its_work_and_exits(how: str, expected: str) -> None:
    """In a process of its own: that of the tests has threads, and must not be forked."""
    ran = subprocess.run([sys.executable, "-c", FORK, how], capture_output=True, check=True)
    assert ran.stdout.decode() == f"worker 2 SIG_DFL {expected}\n"
    assert (b"ValueError: broken" in ran.stderr) == (how == "fails")


def test_a_worker_reports_that_it_is_ready_and_that_it_has_retired() -> None:
    report, report_end = os.pipe()
    with socket.socket() as limits:
        context = WorkerContext(1, Inherited((), -1, limits), report_end)
    worker = WorkerProcess(1, 1, Config(), report)
    reports = []
    for report_next in (context.report_ready, context.report_retired):
        report_next()
        reports.append((worker.read_report(), worker.is_accepting))
    assert reports == [(True, True), (False, False)]
    os.close(report)


def test_a_worker_that_was_sent_a_signal_is_retired() -> None:
    child = subprocess.Popen([sys.executable, "-Sc", "import signal; signal.pause()"])
    worker = WorkerProcess(child.pid, 1, Config(), -1)
    assert worker.reap() is None
    worker.send(signal.SIGKILL, patience_s=5.0)
    assert worker.is_retired
    assert worker.kill_at < worker.started_at + 60
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert worker.reap() == -signal.SIGKILL
    child.returncode = -signal.SIGKILL  # it has been reaped


def test_a_worker_is_killed_once_and_one_that_is_ready_not_at_all() -> None:
    child = subprocess.Popen([sys.executable, "-Sc", "import signal; signal.pause()"])
    worker = WorkerProcess(child.pid, 1, Config(), -1, kill_at=0.0)
    worker.kill()
    assert worker.kill_at == inf
    assert not worker.is_retired
    assert child.wait(60) == -signal.SIGKILL
    started = WorkerProcess(child.pid, 1, Config(), -1, kill_at=0.0)
    started.mark_ready()
    assert (started.is_ready, started.kill_at) == (True, inf)
