"""Command output: tables and colour on a terminal, JSON lines in a pipe, errors on standard error.

Only `isatty` of the stream decides which. Colour forced by the environment (`FORCE_COLOR`) does not
turn the JSON of a pipe into a table, and `NO_COLOR` leaves a table without colour.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from antiphon.pipeline.printable import printable


def is_terminal() -> bool:
    return sys.stdout.isatty()


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


def make_table(*columns: str, right: Iterable[str] = ()) -> Table:
    """Make a table; the columns named in `right` hold numbers and are aligned to the right."""
    table = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
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
