"""The page of guarantees: every statement has a row, and every test it names exists and runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| ([A-Z])(\d+) \| (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)
NAME = re.compile(r"`(tests/[\w/]+\.py::test_\w+)`")
SECTIONS = {
    "R": "Stream reconstruction",
    "N": "Chunk normalization",
    "S": "Stream state",
    "P": "Streaming pipeline",
    "W": "Response reconstruction",
    "B": "Beyond the founding pages",
}
COLLECT = """
import json, sys
import pytest
from tests.test_guarantees import runs

class Collector:
    def pytest_collection_finish(self, session):
        self.runs = runs(session.items)

collector = Collector()
options = ["--collect-only", "-qq", "-p", "no:cacheprovider"]
status = pytest.main([*options, *sys.argv[2:]], plugins=[collector])
open(sys.argv[1], "w").write(json.dumps(collector.runs if status == 0 else {}))
"""


def rows() -> list[tuple[str, ...]]:
    return [match.groups() for match in ROW.finditer(PAGE)]


def runs(items: Iterable[pytest.Item]) -> dict[str, bool]:
    """Whether each of these tests would run, by its name without parameters."""
    marks = ("skip", "skipif", "xfail")
    return {
        item.nodeid.partition("[")[0]: not any(item.get_closest_marker(mark) for mark in marks)
        for item in items
    }


@pytest.fixture(scope="module")
def collected(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, bool]:
    """Whether each test in the files that the page names would run. A run of the whole suite has
    collected them already."""
    named = set(NAME.findall(PAGE))
    found = runs(request.session.items)
    if named <= found.keys():
        return found
    files = sorted({name.partition("::")[0] for name in named})
    missing = [file for file in files if not (ROOT / file).is_file()]
    assert missing == []
    result = tmp_path_factory.mktemp("collected") / "tests.json"
    command = [sys.executable, "-c", COLLECT, str(result), *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.exists(), done.stderr
    recorded: dict[str, bool] = json.loads(result.read_text())
    assert recorded, done.stdout
    return recorded


def test_every_section_has_its_rows_numbered_from_one() -> None:
    for letter, title in SECTIONS.items():
        assert f"## {title}\n" in PAGE
        numbers = [int(number) for prefix, number, *_ in rows() if prefix == letter]
        assert numbers == list(range(1, len(numbers) + 1))
        assert numbers
    assert len(rows()) == len(re.findall(r"^\| [A-Z]\d+ ", PAGE, re.MULTILINE))


def test_every_row_says_whether_it_is_held_and_names_a_test() -> None:
    for prefix, number, _, verdict, tests in rows():
        assert NAME.findall(tests), f"{prefix}{number} names no test"
        assert NAME.sub("", tests).strip() == "", f"{prefix}{number}"
        if prefix != "B":
            assert verdict.startswith(("held", "refined", "decided")), f"{prefix}{number}"
        if verdict.startswith("refined"):
            assert "(adr/" in verdict, f"{prefix}{number} names no decision"


def test_every_named_test_exists_and_runs(collected: dict[str, bool]) -> None:
    named = set(NAME.findall(PAGE))
    assert sorted(name for name in named if name not in collected) == []
    assert sorted(name for name in named if not collected[name]) == []
