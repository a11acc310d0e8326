"""Where commands write: tables and colour for people on a terminal, JSON lines for programs.

The stream alone decides who is reading. Colour that is forced by the environment does not turn the
JSON of a pipe into a table, and `NO_COLOR` leaves a table without colour.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text


def is_terminal() -> bool:
    return sys.stdout.isatty()


def make_console(*, stderr: bool = False) -> Console:
    """A console that colours only what it is told to, and takes every text as it stands."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, markup=False, force_terminal=stream.isatty())


def make_table(*columns: str, right: Iterable[str] = ()) -> Table:
    """A light table; the columns named by `right` hold numbers."""
    table = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    return table


def write_lines(documents: Iterable[Any]) -> None:
    """One JSON document a line."""
    for document in documents:
        sys.stdout.buffer.write(msgspec.json.encode(document) + b"\n")


def complain(problem: str) -> None:
    """What went wrong, in one line, where it is not taken for output."""
    text = Text.assemble(("antiphon: ", "bold red"), problem)
    make_console(stderr=True).print(text, soft_wrap=True)
