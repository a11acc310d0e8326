"""docs/known-defects.md and the tests in this directory have the same rows."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from tests.e2e.test_known_defects_formats import OF_RESPONSES, WITHOUT_A_FORMAT
from tests.support.known_defects import listed_rows, rows_of


def _tests() -> dict[str, Any]:
    """Every test in the files `test_known_defects_*.py`, by name."""
    modules = [
        importlib.import_module(f"tests.e2e.{path.stem}")
        for path in sorted(Path(__file__).parent.glob("test_known_defects_*.py"))
    ]
    return {
        f"{module.__name__}.{name}": found
        for module in modules
        for name, found in vars(module).items()
        if name.startswith("test_")
    }


def test_the_page_has_exactly_the_rows_that_tests_refer_to() -> None:
    tested = {number for test in _tests().values() for number in rows_of(test)}
    assert listed_rows() == sorted(tested)


def test_the_rows_are_numbered_from_1_to_42() -> None:
    assert listed_rows() == list(range(1, 43))


def test_every_test_names_its_row() -> None:
    assert [name for name, test in _tests().items() if not rows_of(test)] == []


def test_every_row_is_tested_in_the_other_formats_or_no_client_notices_it_there() -> None:
    module = importlib.import_module("tests.e2e.test_known_defects_formats")
    tested = {number for each in vars(module).values() for number in rows_of(each)}
    assert tested.isdisjoint(WITHOUT_A_FORMAT | OF_RESPONSES)
    assert sorted(tested | WITHOUT_A_FORMAT | OF_RESPONSES) == listed_rows()
