"""Command output: tables and colour on a terminal, JSON lines in a pipe, errors on standard error.

`isatty` of the stream decides which, unless `--json` asks for JSON lines. Colour forced by the
environment (`FORCE_COLOR`) does not turn the JSON of a pipe into a table, and `NO_COLOR` leaves a
table without colour.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import msgspec

from antiphon.stages.printable import printable

if TYPE_CHECKING:  # imported where it is used: a gateway that no person looks at does without
    from rich.console import Console, JustifyMethod
    from rich.table import Table


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
    elif sys.stdout.isatty():
        make_console().print(text, soft_wrap=True)
    else:
        print(printable(text, keep="\n"))


def make_console(*, stderr: bool = False) -> Console:
    """Make a console that neither highlights text by itself nor interprets markup in it."""
    from antiphon.cli.console import SafeConsole

    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return SafeConsole(stderr=stderr, highlight=False, markup=False, force_terminal=terminal)


def make_table(
    *columns: str,
    right: Iterable[str] = (),
    optional: Sequence[str] = (),
    wrapped: Collection[str] = (),
) -> Table:
    """Make a table; the columns named in `right` hold numbers and are aligned to the right.

    Columns named in `optional` are dropped where the terminal is too narrow, the last one first."""
    from antiphon.cli.console import FittingTable

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
    from rich.text import Text

    text = Text.assemble(("antiphon: ", "bold red"), message)
    make_console(stderr=True).print(text, soft_wrap=True)
