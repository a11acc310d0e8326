"""Interactive prompts, answered on a terminal or from a pipe, or by their defaults (`--yes`)."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from rich.console import Console, RenderableType
from rich.text import Text

from antiphon.errors import InvalidAnswer, UnansweredPrompt

T = TypeVar("T")


class Prompts:
    """Asks questions until the answers are valid; `use_defaults` accepts every default unasked."""

    def __init__(self, console: Console, *, use_defaults: bool = False) -> None:
        self._console = console
        self._use_defaults = use_defaults

    def show(self, content: RenderableType) -> None:
        """Print text or a table that belongs to a question; nothing if none will be asked."""
        if not self._use_defaults:
            self._console.print(content, soft_wrap=isinstance(content, Text))

    def ask(self, question: str, default: str, parse: Callable[[str], T]) -> T:
        """Ask until `parse` accepts the answer; it raises `InvalidAnswer` to be asked again."""
        if self._use_defaults:
            return parse(default)
        suffix = f" [{default}]" if default else ""
        while True:
            answer = self._read_line(Text.assemble((question, "bold"), (suffix, "dim"), " "))
            try:
                return parse(answer.strip() or default)
            except InvalidAnswer as error:
                self._console.print(Text(f"  {error.message}", style="yellow"))

    def confirm(self, question: str, *, default: bool) -> bool:
        return self.ask(f"{question} (y/n)", "y" if default else "n", _parse_yes_or_no)

    def ask_secret(self, question: str) -> str:
        """Ask without showing the typed text, until it is not empty: there is no default."""
        while True:
            prompt = Text.assemble((question, "bold"), " ")
            if answer := self._read_line(prompt, hidden=True).strip():
                return answer

    def _read_line(self, prompt: Text, *, hidden: bool = False) -> str:
        is_typed = sys.stdin.isatty()
        if hidden and is_typed:  # getpass prints the prompt itself, after it has turned echo off
            with suppress(EOFError):
                return getpass.getpass(prompt.plain)
            raise _make_unanswered(prompt)
        self._console.print(prompt, end="", soft_wrap=True)
        line = sys.stdin.readline()
        if not (is_typed and line):
            self._console.print()  # no Enter key has ended the line of the prompt
        if not line:
            raise _make_unanswered(prompt)
        return line


def _make_unanswered(prompt: Text) -> UnansweredPrompt:
    question = prompt.plain.strip()
    return UnansweredPrompt(
        f"no answer to {question!r}: the input ended. Nothing was written;"
        " use --yes to accept the defaults."
    )


def _parse_yes_or_no(answer: str) -> bool:
    if answer.lower() in ("y", "yes"):
        return True
    if answer.lower() in ("n", "no"):
        return False
    raise InvalidAnswer(f"{answer!r} is not valid: enter y or n")
