"""docs/clients.md equals what a successful run generates."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.clients.scenario import Row, page

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "clients.md"


def test_the_page_is_what_a_run_generates(request: pytest.FixtureRequest, rows: list[Row]) -> None:
    """A run of some files knows only some of the rows; each must be there, as it is."""
    expected = page(dict.fromkeys(rows, True))
    shown = PAGE.read_text(encoding="utf-8")
    if [Path(arg).resolve() for arg in request.config.args] == [HERE]:
        assert shown == expected
    assert [line for line in expected.splitlines() if line not in shown.splitlines()] == []
