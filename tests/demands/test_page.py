"""Every row of docs/demands.md has a test, or a reason why not."""

from __future__ import annotations

import re
from pathlib import Path

THEMES = range(1, 35)
PAGE = Path(__file__).parents[2] / "docs" / "demands.md"
ROWS = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if "|" in line][2:]
TESTS = {
    name: int(number)
    for path in Path(__file__).parent.glob("test_*.py")
    for name, number in re.findall(r"def (test_theme_(\d\d)\w+)\(", path.read_text())
}


def test_the_page_has_a_row_for_every_theme() -> None:
    assert [int(row[0]) for row in ROWS] == [*THEMES]


def test_every_row_names_a_test_or_says_that_it_is_not_done() -> None:
    for number, _, what, test in ROWS:
        named = TESTS.get(test.strip("`"))
        assert named == int(number) or (named is None and "Not yet: " in what), number


def test_every_test_of_a_theme_is_about_one_that_exists() -> None:
    assert set(TESTS.values()) <= set(THEMES)
