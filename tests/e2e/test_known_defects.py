"""Every row of the list of known defects has a test here that shows the defect absent."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from tests.support.known_defects import ROWS, rows_of


def _tests() -> dict[str, Any]:
    """Every test in the files beside this one, by name."""
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


def test_every_row_has_a_test() -> None:
    covered = {number for test in _tests().values() for number in rows_of(test)}
    assert covered == set(ROWS)


def test_every_test_names_its_row() -> None:
    assert [name for name, test in _tests().items() if not rows_of(test)] == []
