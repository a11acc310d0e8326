"""The loop: each file operation of a scenario fails once, one run for each, until none is left.

    LD_PRELOAD=…/shim.so python -m tests.support.disk_faults.loop DIRECTORY [STRIDE]

Prints the number of runs of each scenario; exits with 1 after a violation, and prints it.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Protocol, TypeAlias

from tests.support.disk_faults.injector import Injector
from tests.support.disk_faults.trace_store import TraceScenario
from tests.support.disk_faults.turn_store import TurnScenario


class Scenario(Protocol):
    """What is done with a store under faults."""

    def prepare(self) -> None: ...

    def run(self) -> None: ...

    def check(self) -> None: ...


MakeScenario: TypeAlias = Callable[[Path], Scenario]
SCENARIOS: dict[str, MakeScenario] = {"turn store": TurnScenario, "trace store": TraceScenario}


class Variant:
    """One scenario with a new or an existing file, and one fault or all from the k-th on."""

    def __init__(self, name: str, existing: bool, persistent: bool) -> None:
        self.make = SCENARIOS[name]
        self.existing = existing
        self.persistent = persistent
        self.name = ", ".join(
            (
                name,
                "an existing file" if existing else "a new file",
                "all operations from the k-th on" if persistent else "the k-th operation",
            )
        )

    def run(self, directory: Path, injector: Injector, k: int) -> bool:
        """Run once; False if no operation failed, because there are fewer than k."""
        scenario = self.make(directory / "store.sqlite")
        if self.existing:
            scenario.prepare()
        before = {*threading.enumerate()}
        with injector.fault_at(directory, k, self.persistent):
            scenario.run()
        if not injector.failed:
            scenario.check()
            return False
        _join_threads({*threading.enumerate()} - before)
        assert not [*_open_files(directory)], f"files are left open: {[*_open_files(directory)]}"
        scenario.check()
        return True


def _join_threads(threads: set[threading.Thread]) -> None:
    """Wait for threads that are about to end."""
    for each in threads:
        each.join(timeout=60)
        assert not each.is_alive(), f"a thread is left: {each.name}"


def _open_files(directory: Path) -> Iterator[str]:
    for each in Path("/proc/self/fd").iterdir():
        try:
            target = os.readlink(each)
        except OSError:
            continue
        if target.startswith(f"{directory}/"):
            yield target


def run_variant(variant: Variant, directory: Path, stride: int) -> int:
    """Run a variant for k = 1, 1 + stride … until no operation fails; return the number of runs."""
    injector, k = Injector(), 1
    while True:
        with tempfile.TemporaryDirectory(dir=directory) as place:
            try:
                if not variant.run(Path(place), injector, k):
                    return (k - 1) // stride
            except BaseException as error:
                error.add_note(f"{variant.name}, k = {k}: {injector.operation}")
                raise
        k += stride


def main(directory: Path, stride: int) -> int:
    """Run every variant."""
    status = 0
    for name, existing, persistent in product(SCENARIOS, (False, True), (False, True)):
        variant = Variant(name, existing, persistent)
        try:
            runs = run_variant(variant, directory, stride)
            sys.stdout.write(f"{variant.name}: {runs} runs\n")
        except Exception:
            status = 1
            traceback.print_exc()
    return status


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), int(sys.argv[2]) if len(sys.argv) > 2 else 1))
