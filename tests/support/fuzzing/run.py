"""The fuzzer (`make fuzz`): mutates recorded inputs and feeds them to every target.

    python -m tests.support.fuzzing.run [--minutes M] [--seed N] [--target NAME]

A finding is reduced and written to `tests/fuzz_cases`, where the tests replay it. The exit status
is 1 if there was one.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from hashlib import sha256
from itertools import cycle
from random import Random

from tests.support.fuzzing.mutate import mutate
from tests.support.fuzzing.seeds import CASES, load_seeds
from tests.support.fuzzing.targets import TARGETS, run_target, run_with_memory

SLICE = 100
MEMORY_EVERY = 40
"""Memory is measured for one input in forty: it takes four times as long."""


class Fuzzer:
    """Mutates the seeds of each target in turn, the same inputs for the same seed."""

    def __init__(self, seed: int, targets: list[str]) -> None:
        self.inputs: Counter[str] = Counter()
        self.findings: dict[str, bytes] = {}
        self._random = Random(seed)
        self._seeds = {target: load_seeds(target) for target in targets}

    def run(self, minutes: float) -> None:
        """Run until the time is over."""
        end = time.monotonic() + minutes * 60
        for target in cycle(self._seeds):
            if time.monotonic() >= end:
                return
            self.run_inputs(target, SLICE)

    def run_inputs(self, target: str, count: int) -> None:
        """Run some inputs of one target."""
        seeds = self._seeds[target]
        for _ in range(count):
            self.inputs[target] += 1
            data = mutate(self._random.choice(seeds), seeds, self._random)
            reason = find_defect(target, data, memory=self.inputs[target] % MEMORY_EVERY == 0)
            if reason is not None and f"{target}: {reason}" not in self.findings:
                self.findings[f"{target}: {reason}"] = reduce(target, data, reason)


def find_defect(target: str, data: bytes, *, memory: bool = True) -> str | None:
    """Return what is wrong and where it was raised; None if nothing is."""
    try:
        (run_with_memory if memory else run_target)(target, data)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} in {last.name}, line {last.lineno}"
    return None


def reduce(target: str, data: bytes, reason: str) -> bytes:
    """Remove parts of an input while it fails in the same way."""
    size = len(data) // 2
    while size:
        start = 0
        while start < len(data):
            shorter = data[:start] + data[start + size :]
            if find_defect(target, shorter) == reason:
                data = shorter
            else:
                start += size
        size //= 2
    return data


def keep(target: str, data: bytes) -> str:
    """Write a case; return its name."""
    name = f"{target}-{sha256(data).hexdigest()[:8]}"
    (CASES / name).write_bytes(data)
    return name


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make fuzz")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--target", choices=TARGETS, action="append")
    options = parser.parse_args(arguments)
    fuzzer = Fuzzer(options.seed, options.target or [*TARGETS])
    fuzzer.run(options.minutes)
    for target, count in fuzzer.inputs.items():
        sys.stdout.write(f"{target:20} {count:9,} inputs\n")
    for reason, data in fuzzer.findings.items():
        name = keep(reason.partition(":")[0], data)
        sys.stdout.write(f"FOUND {reason}: tests/fuzz_cases/{name}\n")
    total = fuzzer.inputs.total()
    sys.stdout.write(f"{total:,} inputs, seed {options.seed}, {len(fuzzer.findings)} findings\n")
    return 1 if fuzzer.findings else 0


if __name__ == "__main__":
    sys.exit(main())
