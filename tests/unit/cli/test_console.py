"""Console and table of the commands: what fits on a terminal, and what must not reach it."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.table import Table

from antiphon.cli.console import FittingTable, SafeConsole


def test_control_characters_are_made_visible_whatever_text_they_came_with() -> None:
    output = io.StringIO()
    SafeConsole(file=output, width=80).print("evil\x1b[2J", "line\nline")
    assert output.getvalue() == "evil\\x1b[2J line\nline\n"


def wide_table() -> Table:
    table = FittingTable(optional=["name", "size"], wrapped=["note"])
    for name in ("id", "name", "note", "size"):
        table.add_column(name, overflow="fold", no_wrap=name != "note")
    table.add_row("req_0123456789", "a-long-model-name", "several words that may be wrapped", "7")
    return table


def draw(table: Table, width: int) -> str:
    output = io.StringIO()
    Console(file=output, width=width).print(table)
    return output.getvalue()


@pytest.mark.parametrize(
    ("width", "columns"),
    [(120, "id name note size"), (64, "id name note"), (45, "id note"), (41, "id note")],
)
def test_a_narrow_terminal_drops_columns_and_breaks_no_name(width: int, columns: str) -> None:
    text = draw(wide_table(), width)
    header = next(line for line in text.splitlines() if line.strip())
    assert header.split() == columns.split()
    assert "req_0123456789" in text
    assert ("a-long-model-name" in text) is ("name" in columns)


def test_only_text_has_several_lines() -> None:
    assert "several words that may be wrapped" in draw(wide_table(), 120)
    assert "several words" in draw(wide_table(), 45)
