"""Command output: tables and colour on a terminal, JSON lines in a pipe, errors on standard error.

`isatty` of the stream decides which, unless `--json` asks for JSON lines. Colour forced by the
environment (`FORCE_COLOR`) does not turn the JSON of a pipe into a table, and `NO_COLOR` leaves a
table without colour.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence
from contextvars import ContextVar
from copy import copy
from dataclasses import replace
from typing import Any

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from antiphon.stages.printable import printable

_ANY_WIDTH = 10_000
_LEAST_WRAPPED = 24  # characters of a column that may have several lines


_json_requested: ContextVar[bool] = ContextVar("json_requested", default=False)
"""Whether the command was given `--json`."""


def request_json(requested: bool) -> None:
    """Have this command write JSON lines, also to a terminal."""
    _json_requested.set(requested)


def is_terminal() -> bool:
    """Whether people read the output: it goes to a terminal, and was not requested as JSON."""
    return sys.stdout.isatty() and not _json_requested.get()


def print_result(text: str, **facts: Any) -> None:
    """Print what a command has done: as a sentence, or its facts with `--json`."""
    if _json_requested.get():
        write_json_lines([facts])
    else:
        make_console().print(text, soft_wrap=True)


class SafeConsole(Console):
    """Console that makes control characters visible, whatever text they came with."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(printable(text, keep="\n"), style)


def make_console(*, stderr: bool = False) -> Console:
    """Make a console that neither highlights text by itself nor interprets markup in it."""
    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return SafeConsole(stderr=stderr, highlight=False, markup=False, force_terminal=terminal)


class FittingTable(Table):
    """Table that drops columns where the terminal is too narrow for all of them.

    Ids and names are never broken in two: only columns named in `wrapped` have several lines."""

    def __init__(self, optional: Sequence[str], wrapped: Collection[str]) -> None:
        super().__init__(box=SIMPLE_HEAD, header_style="bold", pad_edge=False)
        self._optional = optional
        self._wrapped = wrapped

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table: Table = self
        for count in range(len(self._optional) + 1):
            table = self._without(self._optional[len(self._optional) - count :])
            if self._needed_width(table, console, options) <= options.max_width:
                break
        yield from Table.__rich_console__(table, console, options)

    def _without(self, dropped: Collection[str]) -> Table:
        table = copy(self)
        kept = [column for column in self.columns if column.header not in dropped]
        table.columns = [replace(column, _index=index) for index, column in enumerate(kept)]
        return table

    def _needed_width(self, table: Table, console: Console, options: ConsoleOptions) -> int:
        """Return the width of a table whose wrapped columns are as narrow as they may be."""
        narrow = copy(table)
        narrow.columns = [
            replace(column, width=_LEAST_WRAPPED) if column.header in self._wrapped else column
            for column in table.columns
        ]
        return Table.__rich_measure__(narrow, console, options.update(width=_ANY_WIDTH)).maximum


def make_table(
    *columns: str,
    right: Iterable[str] = (),
    optional: Sequence[str] = (),
    wrapped: Collection[str] = (),
) -> Table:
    """Make a table; the columns named in `right` hold numbers and are aligned to the right.

    Columns named in `optional` are dropped where the terminal is too narrow, the last one first."""
    table = FittingTable(optional, wrapped)
    for name in columns:
        justify: JustifyMethod = "right" if name in right else "left"
        table.add_column(name, justify=justify, overflow="fold", no_wrap=name not in wrapped)
    return table


def write_json_lines(documents: Iterable[Any]) -> None:
    """Write one JSON document per line to standard output."""
    for document in documents:
        sys.stdout.buffer.write(msgspec.json.encode(document) + b"\n")


def escape_controls(text: str) -> str:
    """Make control characters visible, so that text of others cannot control the terminal."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def print_error(message: str) -> None:
    """Print a message as one line on standard error."""
    text = Text.assemble(("antiphon: ", "bold red"), message)
    make_console(stderr=True).print(text, soft_wrap=True)
