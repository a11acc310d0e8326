"""The gateway in simulation: seeds without a violation, the same bytes for the same seed, and
planted defects that are found."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.simulation.check import ORACLES
from tests.simulation.mcp.faults import FAULT_NAMES
from tests.simulation.mcp.plan import draw_servers
from tests.simulation.mutant import Mutant
from tests.simulation.mutants import MUTANTS, find, read_seeds
from tests.simulation.records import QUESTION
from tests.simulation.simulate import format_lines, main, run_seeds

THOROUGH = bool(os.environ.get("ANTIPHON_SIMULATION"))
"""Whether everything is simulated that is listed here; a default run takes some of it."""
REPOSITORY = Path(__file__).parents[2]
DIGESTS = """
from tests.simulation.simulate import run_seeds
for report in run_seeds(range({last}), False):
    print(report.digest)
"""


@contextmanager
def other_process(last: int, *, hash_seed: str) -> Iterator[subprocess.Popen[str]]:
    """A process that prints the digests of some seeds."""
    with subprocess.Popen(
        [sys.executable, "-c", DIGESTS.format(last=last)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_seeds_keep_every_rule_and_give_the_same_bytes_in_two_processes() -> None:
    """Fifty seeds with ANTIPHON_SIMULATION=1, and a few otherwise."""
    last = 50 if THOROUGH else 4
    with other_process(last, hash_seed="2") as other:
        reports = run_seeds(range(last), False)
        for report in reports:
            assert report.violations == (), "\n".join(format_lines(report))
        digests = [report.digest for report in reports]
        assert len(set(digests)) == last
        printed, _ = other.communicate()
    assert printed.split() == digests


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


def test_encrypted_content_is_not_taken_for_a_question() -> None:
    """Seed 59 with recordings: base64 that contained `qx6-…x` looked like a turn."""
    assert QUESTION.findall(b'"encrypted_content":"Zqx6-rL0xA"') == []
    assert QUESTION.findall(b"Question qx6-bobx, please.") == [(b"6", b"bob")]


# Seeds that were violated once, with the defect. Each defect has a unit test, too: what a seed
# stands for changes with the actors.
REGRESSIONS = {
    2: "an answer without a finish reason had no reason in log and trace",
    7: "text that is not UTF-8, in a field that is not read, was an internal error",
    14: "a chunk that could not be parsed was an internal error",
    105: "a retry used a key that another request was told to leave alone",
}


@pytest.mark.parametrize("seed", [*REGRESSIONS] if THOROUGH else [*REGRESSIONS][:1])
def test_seeds_that_were_violated_once_keep_every_rule(seed: int) -> None:
    [report] = run_seeds([seed], False)
    assert report.violations == ()


def test_worlds_have_mcp_servers_that_fail_at_every_step() -> None:
    """All faults in thirty of these worlds with ANTIPHON_SIMULATION=1, and one world otherwise."""
    worlds = [seed for seed in range(100) if draw_servers(seed)]
    reports = run_seeds(worlds[: 30 if THOROUGH else 1], False)
    assert [report.violations for report in reports if report.violations] == []
    faults = {name for report in reports for name in report.faults if name.startswith("MCP: ")}
    assert faults >= FAULT_NAMES if THOROUGH else faults


def test_every_rule_is_documented() -> None:
    page = (REPOSITORY / "docs" / "reliability.md").read_text(encoding="utf-8")
    assert [oracle.__name__ for oracle in ORACLES if f"`{oracle.__name__}`" not in page] == []


SAMPLE = (
    "a second terminal event",
    "a key is never released",
    "saved after the terminal event",
    "the history of another client",
    "upstreams are not closed",
    "a resumed stream begins too late",
    "a retry joins the response of another client",
    "an approval is skipped",
    "a call is made again after a failure",
)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize(
    "mutant",
    [each for each in MUTANTS if each.name in (SAMPLE if THOROUGH else SAMPLE[:1])],
    ids=lambda each: each.name,
)
def test_a_planted_defect_is_found(mutant: Mutant) -> None:
    """All of them are run by `make mutants`."""
    assert find(mutant, most_streams=500).violation


def test_the_seeds_of_mutants_name_no_others() -> None:
    """Where one is missing, its worlds are searched: that takes longer and is allowed."""
    assert read_seeds().keys() <= {mutant.name for mutant in MUTANTS}


def test_there_are_at_least_twenty_mutants_and_planting_one_leaves_no_trace() -> None:
    assert len(MUTANTS) >= 20
    for mutant in MUTANTS:
        before = mutant.owner.__dict__[mutant.attribute]
        with mutant.planted():
            assert mutant.owner.__dict__[mutant.attribute] is not before
        assert mutant.owner.__dict__[mutant.attribute] is before
