"""Which known defect a test shows to be absent: `@row(7)`, by the number in the list of them.

The list holds what was seen to go wrong in the closest existing system. It has 42 rows, and
`test_known_defects.py` asks for a test of each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

ROWS = range(1, 43)

Test = TypeVar("Test", bound=Callable[..., Any])


def row(*numbers: int) -> Callable[[Test], Test]:
    """The test is about these rows."""

    def mark(test: Test) -> Test:
        test.__dict__["rows"] = frozenset(numbers)
        return test

    return mark


def rows_of(test: Any) -> frozenset[int]:
    found: frozenset[int] = getattr(test, "rows", frozenset())
    return found
