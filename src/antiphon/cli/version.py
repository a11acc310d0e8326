"""`antiphon version`: the installed version, and the Python and directory it runs from."""

from __future__ import annotations

import argparse
import platform
from pathlib import Path

from rich.table import Table
from rich.text import Text

import antiphon
from antiphon.cli.terminal import is_terminal, make_console, write_json_lines

_EPILOG = """\
examples:
  antiphon version               what to write into a bug report
  antiphon --version             the version alone
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = "Show the version of Antiphon, and the Python and directory it runs from."
    parser.epilog = _EPILOG
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    facts = {
        "antiphon": antiphon.__version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
        "location": str(Path(antiphon.__file__).parent),
    }
    if not is_terminal():
        write_json_lines([facts])
        return 0
    grid = Table.grid(padding=(0, 2))
    for name, value in facts.items():
        grid.add_row(Text(name, style="dim"), Text(value, overflow="fold"))
    make_console().print(grid)
    return 0
