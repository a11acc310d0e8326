"""`@row(7)`: the known defect that a test shows to be absent, by its number in the list of them.

The list is docs/known-defects.md. `test_known_defects.py` checks that every row has a test.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

PAGE = Path(__file__).parents[2] / "docs" / "known-defects.md"

Test = TypeVar("Test", bound=Callable[..., Any])


def listed_rows() -> list[int]:
    """Return the numbers of the rows on the page, in the order of the page."""
    return [int(number) for number in re.findall(r"^\| (\d+) \|", PAGE.read_text("utf-8"), re.M)]


def row(*numbers: int) -> Callable[[Test], Test]:
    """Mark a test with the rows that it is about."""

    def mark(test: Test) -> Test:
        test.__dict__["rows"] = frozenset(numbers)
        return test

    return mark


def rows_of(test: Any) -> frozenset[int]:
    """Return the rows that a test is marked with."""
    found: frozenset[int] = getattr(test, "rows", frozenset())
    return found
