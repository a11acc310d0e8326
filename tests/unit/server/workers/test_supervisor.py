"""Parent of the workers, with workers that only wait for signals.

It runs in a process of its own: that of the tests has threads, and must not be forked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# A worker fails to start, never becomes ready, or does not retire if the file says so; it ends when
# it is stopped or its parent is gone.
SCRIPT = """
import json, os, select, signal, sys
from pathlib import Path
from antiphon.config import Config, ServerConfig
from antiphon.errors import ConfigError
from antiphon.server.workers.listeners import bind_listeners
from antiphon.server.workers.supervisor import Supervisor
from antiphon.server.workers.worker_process import RETIRE

def say(**facts):
    os.write(1, json.dumps(facts).encode() + b"\\n")

def load():
    host = Path(sys.argv[1]).read_text()
    if host == "invalid":
        raise ConfigError("the file is wrong")
    return Config(server=ServerConfig(host=host, shutdown_s=1))

def work(config, place):
    def stop(number, frame):
        say(stopped=place.number, by=signal.Signals(number).name, host=config.server.host)
        os._exit(0)
    signal.signal(signal.SIGTERM, stop)
    signal.signal(RETIRE, stop)
    if config.server.host == "broken":
        return 2
    if config.server.host == "slow":
        say(starting=place.number, pid=os.getpid())
        select.select([place.parent], [], [])
    if config.server.host == "stays":
        signal.signal(RETIRE, signal.SIG_IGN)
    say(started=place.number, host=config.server.host, pid=os.getpid())
    place.report_ready()
    select.select([place.parent], [], [])
    say(orphan=place.number)
    return 0

supervisor = Supervisor(
    load(), bind_listeners("127.0.0.1", 0, 2), load=load, work=work,
    emit=lambda entry: say(event=entry.event, **entry.facts), announce=lambda: say(announced=True),
)
sys.exit(supervisor.run())
"""


class Parent:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(path)], stdout=subprocess.PIPE
        )

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the parent and all workers have ended"
        said: dict[str, Any] = json.loads(line)
        return said

    def read_until(self, key: str) -> list[dict[str, Any]]:
        said = [self.read()]
        while key not in said[-1]:
            said.append(self.read())
        return said

    def reload(self, host: str) -> None:
        self.path.write_text(host)
        self.process.send_signal(signal.SIGHUP)


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[Parent]:
    (tmp_path / "host").write_text("first")
    running = Parent(tmp_path / "host")
    yield running
    running.process.kill()
    running.process.communicate()


def started(said: list[dict[str, Any]]) -> list[tuple[int, str]]:
    return [(each["started"], each["host"]) for each in said if "started" in each]


def test_workers_are_started_replaced_and_stopped(parent: Parent) -> None:
    said = parent.read_until("announced")
    assert started(said) == [(1, "first"), (2, "first")]
    os.kill(said[0]["pid"], signal.SIGKILL)
    died, again = parent.read(), parent.read()
    assert (died["event"], died["worker"], died["restart_in_s"]) == ("worker.died", 1, 0)
    assert died["reason"] == "was ended by SIGKILL"
    assert started([again]) == [(1, "first")]
    parent.process.terminate()
    stopped = [parent.read(), parent.read()]
    assert {(each["stopped"], each["by"]) for each in stopped} == {(1, "SIGTERM"), (2, "SIGTERM")}
    assert parent.process.wait(60) == 0


def test_a_new_configuration_reaches_the_workers_one_by_one(parent: Parent) -> None:
    parent.read_until("announced")
    parent.reload("second")
    said = [parent.read() for _ in range(5)]
    assert started(said) == [(1, "second"), (2, "second")]
    retired = {each["stopped"]: each for each in said if "stopped" in each}
    assert {number: each["by"] for number, each in retired.items()} == {1: "SIGUSR1", 2: "SIGUSR1"}
    assert {each["host"] for each in retired.values()} == {"first"}
    for each in said:
        if "started" in each:  # the first may take longer to stop than the second to be replaced
            assert said.index(each) < said.index(retired[each["started"]])
    assert said[-1] == {"event": "config.reloaded", "workers": 2}, "when nobody accepts any more"


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("invalid", "the file is wrong"),
        ("broken", "a worker with the new configuration ended with exit status 2"),
    ],
)
def test_a_configuration_that_cannot_be_used_changes_nothing(
    parent: Parent, host: str, reason: str
) -> None:
    pid = parent.read_until("announced")[0]["pid"]
    parent.reload(host)
    assert parent.read() == {
        "event": "config.reload_failed",
        "reason": reason,
        "effect": "the configuration has not changed",
    }
    os.kill(pid, signal.SIGKILL)
    assert parent.read()["event"] == "worker.died"
    assert started([parent.read()]) == [(1, "first")]


def test_a_configuration_that_follows_one_that_fails_to_start_is_used(parent: Parent) -> None:
    parent.read_until("announced")
    parent.reload("slow")
    pid = parent.read()["pid"]
    parent.reload("second")
    os.kill(pid, signal.SIGKILL)
    said = parent.read_until("workers")
    assert said[0]["event"] == "config.reload_failed"
    assert said[0]["reason"] == "a worker with the new configuration was ended by SIGKILL"
    assert started(said) == [(1, "second"), (2, "second")]


def test_a_worker_that_is_killed_while_it_retires_is_reported(parent: Parent) -> None:
    parent.read_until("announced")
    parent.reload("stays")
    pids = [each["pid"] for each in parent.read_until("workers") if "pid" in each]
    parent.reload("second")
    said = parent.read()
    while said.get("started") != 2:  # it is started when the first one has been replaced
        said = parent.read()
    os.kill(pids[0], signal.SIGKILL)
    while said.get("event") != "worker.died":
        said = parent.read()
    facts = {"worker": 1, "pid": pids[0], "reason": "was ended by SIGKILL"}
    assert said == {"event": "worker.died", **facts}


def test_a_worker_that_cannot_start_ends_the_parent(tmp_path: Path) -> None:
    (tmp_path / "host").write_text("broken")
    process = Parent(tmp_path / "host").process
    assert process.communicate(timeout=60)[0] == b""
    assert process.returncode == 2


def test_workers_end_with_their_parent(parent: Parent) -> None:
    parent.read_until("announced")
    parent.process.kill()
    assert {parent.read()["orphan"], parent.read()["orphan"]} == {1, 2}


def test_a_worker_that_dies_again_and_again_is_replaced_less_often(parent: Parent) -> None:
    pid = parent.read_until("announced")[0]["pid"]
    delays = []
    for _ in range(3):
        os.kill(pid, signal.SIGKILL)
        delays.append(parent.read()["restart_in_s"])
        pid = parent.read()["pid"]
    assert delays == [0.0, 0.5, 1.0]
