"""A table of cases runs every row, reports each row that fails, and is skipped without rows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.tables import Row, read_rows, table

ROOT = Path(__file__).parents[3]
MODULE = """
import pytest
from tests.support.tables import table

@pytest.fixture
def anyio_backend():
    return "asyncio"

@table("first, second", [(1, 1), (1, 2), pytest.param(2, 3, id="named")])
def test_pairs(first, second):
    assert first == second

@table("first", [1, 2])
@table("second", [1, 2], ids=["one", "two"])
def test_products(first, second, tmp_path):
    assert first == second and tmp_path.is_dir()

@table("number", [1, 2, 3])
async def test_in_an_event_loop(number):
    assert number != 2

@table("nothing", [])
def test_without_rows(nothing):
    raise AssertionError
"""


def test_rows_with_the_same_name_are_numbered() -> None:
    rows = read_rows(["text"], ["a" * 70 + "b", "a" * 70 + "c", "d"])
    cut = "'" + "a" * 58 + "…"
    assert [row.name for row in rows] == [f"{cut} (1)", f"{cut} (2)", "'d'"]


def test_a_generator_is_refused() -> None:
    with pytest.raises(TypeError, match="`yield`: its rows would never run"):

        @table("number", [1, 2])
        def numbers(number: int) -> Iterator[int]:
            yield number


def run(directory: Path, **variables: str) -> list[str]:
    """The summary of a run of this module by pytest: a line for each test that did not pass."""
    path = directory / "test_module.py"
    path.write_text(MODULE, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-n0", "-p", "no:cacheprovider"]
    environment = os.environ | variables | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    done = subprocess.run(
        [*command, f"--rootdir={directory}", "-o", "anyio_mode=auto", "-c", os.devnull, str(path)],
        env=environment,
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    outcomes = ("PASSED", "FAILED", "SUBFAILED", "SKIPPED", "ERROR")
    lines = [line for line in done.stdout.splitlines() if line.startswith(outcomes)]
    names = [line.partition(" - ")[0].replace("test_module.py::", "") for line in lines]
    return sorted(re.sub(r"^(SKIPPED).*: ", r"\1 ", name) for name in names)


def test_every_row_that_fails_is_reported_with_its_name(tmp_path: Path) -> None:
    assert run(tmp_path) == [
        "FAILED test_in_an_event_loop",
        "FAILED test_pairs",
        "FAILED test_products",
        "SKIPPED the table of this test is empty",
        "SUBFAILED[1-2] test_pairs",
        "SUBFAILED[1-two] test_products",
        "SUBFAILED[2-one] test_products",
        "SUBFAILED[2] test_in_an_event_loop",
        "SUBFAILED[named] test_pairs",
    ]


def test_a_variable_makes_each_row_a_test(tmp_path: Path) -> None:
    found = run(tmp_path, ANTIPHON_EACH_CASE="1")
    assert "PASSED test_pairs[1-1]" in found
    assert "FAILED test_pairs[named]" in found
    assert "FAILED test_products[one-2]" in found


def test_a_row_has_the_id_of_the_list_of_the_function_or_its_values() -> None:
    assert read_rows(["a"], [1], ["one"]) == [Row("one", {"a": 1})]
    assert read_rows(["a"], [1], lambda value: f"<{value}>") == [Row("<1>", {"a": 1})]
    assert read_rows(["a", "b"], [(1, "x")]) == [Row("1-'x'", {"a": 1, "b": "x"})]
    assert len(read_rows(["a"], ["x" * 1000])[0].name) == 60


def test_a_row_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(TypeError, match="a row of 2 columns is not a tuple: 1"):
        read_rows(["a", "b"], [1])
    with pytest.raises(ValueError, match="shorter"):
        read_rows(["a", "b"], [(1,)])
    with pytest.raises(ValueError, match="cannot have marks"):
        read_rows(["a"], [pytest.param(1, marks=pytest.mark.skip)])
