"""A change of a file that belongs to the user: shown, confirmed, and refused if another program has
changed the file since."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.text import Text

from antiphon.cli.launcher.files import read_file
from antiphon.errors import ConfigError

Run = Callable[[argparse.Namespace], int]

STYLES = {"+": "green", "-": "red", "@": "cyan"}


class UserFile:
    """A file as it was read, and the place of its backup."""

    def __init__(self, path: Path, format: str) -> None:
        """Raises `ConfigError` if the file is no text."""
        self.path = path
        self.backup = path.parent / f"{path.name}.before-antiphon"
        self._data = read_file(path)
        self.existed = self._data is not None
        try:
            self.before = (self._data or b"").decode()
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path}: not valid {format}: it is not UTF-8 text") from error

    def check_unchanged(self) -> None:
        """Reject the change if the file has changed since: the agent may write it at any time."""
        if read_file(self.path) != self._data:
            raise ConfigError(
                f"{self.path} was changed by another program; nothing was written. Try again."
            )

    def print_diff(self, console: Console, after: str) -> None:
        name = str(self.path)
        lines = difflib.unified_diff(
            self.before.splitlines(), after.splitlines(), name, name, "now", "new", lineterm=""
        )
        for line in lines:
            console.print(Text(line, STYLES.get(line[:1], "")), soft_wrap=True)


@contextmanager
def name_file(path: Path) -> Iterator[None]:
    """Put the path in front of the message of a `ConfigError`."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.message}") from error


def add_setup_options(setup: argparse.ArgumentParser, run: Run) -> None:
    """Add the options of a command that adds the gateway to the settings of an agent."""
    # SUPPRESS: a default here would overwrite an option given before the word `setup`.
    for option, metavar, description in (
        ("--config", "FILE", "the gateway's configuration file, if not the default one"),
        ("--model", "NAME", "the model, if not the default one"),
    ):
        setup.add_argument(option, metavar=metavar, default=argparse.SUPPRESS, help=description)
    add_undo_options(setup, run)


def add_undo_options(parser: argparse.ArgumentParser, run: Run) -> None:
    """Add the options of a command that changes the settings of an agent."""
    parser.add_argument("--yes", action="store_true", help="write without asking")
    parser.set_defaults(run=run)
