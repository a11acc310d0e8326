"""Inputs that once broke a promise (`make fuzz` found them), and inputs to find new ones."""

from __future__ import annotations

from pathlib import Path

from tests.support.fuzzing.run import Fuzzer
from tests.support.fuzzing.seeds import CASES, load_seeds
from tests.support.fuzzing.targets import TARGETS, run_with_memory
from tests.support.tables import table

FOUND = sorted(CASES.iterdir())


@table("path", FOUND, ids=lambda path: path.name)
def test_an_input_that_was_found_by_fuzzing_keeps_every_promise(path: Path) -> None:
    target = path.name.rpartition("-")[0]
    assert target in TARGETS
    run_with_memory(target, path.read_bytes())


@table("target", TARGETS)
def test_some_mutated_recordings_keep_every_promise(target: str) -> None:
    assert load_seeds(target)
    fuzzer = Fuzzer(seed=1, targets=[target])
    fuzzer.run_inputs(target, 20)
    assert fuzzer.findings == {}
