"""The gateway in simulation: seeds without a violation, and the same bytes for the same seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.simulate import format_lines, main, run_seeds

REPOSITORY = Path(__file__).parents[2]
DIGESTS = """
from tests.simulation.simulate import run_seeds
for report in run_seeds(range({first}, {last}), False):
    print(report.digest)
"""


def read_digests(first: int, last: int, hash_seed: str) -> list[str]:
    """The digests of some seeds, from a process of its own."""
    found = subprocess.run(
        [sys.executable, "-c", DIGESTS.format(first=first, last=last)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    return found.stdout.split()


def test_seeds_keep_every_rule() -> None:
    for report in run_seeds(range(5), False):
        assert report.violations == (), "\n".join(format_lines(report))


def test_the_same_seed_gives_the_same_bytes_in_two_processes() -> None:
    """All fifty seeds of the acceptance run with ANTIPHON_SIMULATION=1; a few otherwise."""
    last = 50 if os.environ.get("ANTIPHON_SIMULATION") else 4
    first, second = read_digests(0, last, "1"), read_digests(0, last, "2")
    assert len(first) == last
    assert first == second
    assert len(set(first)) == last


def test_a_run_shows_its_summary_and_adds_up_in_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results.jsonl"
    for first in ("5", "6"):
        assert main(["--seeds", "1", "--first", first, "--results", str(results)]) == 0
    assert main(["--sum", str(results)]) == 0
    shown = capsys.readouterr().out
    assert "outcomes:" in shown
    assert "2 seeds," in shown.splitlines()[-1]


def test_one_seed_is_shown_with_its_time_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "5"]) == 0
    assert "accepts connections" in capsys.readouterr().out
