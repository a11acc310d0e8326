"""Questions and answers, on a terminal or from a pipe; or the defaults, and no questions."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from rich.console import Console, RenderableType
from rich.text import Text

from antiphon.errors import InvalidAnswer, UnansweredPrompt

A = TypeVar("A")


class Prompts:
    """Asks until an answer fits. With `silent`, every answer is the default."""

    def __init__(self, console: Console, *, silent: bool = False) -> None:
        self._console = console
        self._silent = silent

    def tell(self, what: RenderableType) -> None:
        if not self._silent:
            self._console.print(what, soft_wrap=isinstance(what, Text))

    def ask(self, question: str, default: str, read: Callable[[str], A]) -> A:
        """Ask until `read` accepts the answer; it raises `InvalidAnswer` to be asked again."""
        if self._silent:
            return read(default)
        shown = f" [{default}]" if default else ""
        while True:
            words = self._hear(Text.assemble((question, "bold"), (shown, "dim"), " "))
            try:
                return read(words.strip() or default)
            except InvalidAnswer as error:
                self._console.print(Text(f"  {error.message}", style="yellow"))

    def confirm(self, question: str, *, default: bool) -> bool:
        return self.ask(f"{question} (y/n)", "y" if default else "n", _yes_or_no)

    def ask_secret(self, question: str) -> str:
        """What is typed is not shown. There is no default, so none is ever taken for an answer."""
        while True:
            words = self._hear(Text.assemble((question, "bold"), " "), hidden=True).strip()
            if words:
                return words

    def _hear(self, prompt: Text, *, hidden: bool = False) -> str:
        is_typed = sys.stdin.isatty()
        if hidden and is_typed:  # getpass asks itself, once nothing is shown any more
            with suppress(EOFError):
                return getpass.getpass(prompt.plain)
            raise self._unanswered(prompt)
        self._console.print(prompt, end="")
        words = sys.stdin.readline()
        if not (is_typed and words):
            self._console.print()  # nobody pressed Enter
        if not words:
            raise self._unanswered(prompt)
        return words

    def _unanswered(self, prompt: Text) -> UnansweredPrompt:
        question = prompt.plain.strip()
        return UnansweredPrompt(
            f"no answer to {question!r}, so nothing was written; --yes takes the defaults."
        )


def _yes_or_no(words: str) -> bool:
    if words.lower() in ("y", "yes"):
        return True
    if words.lower() in ("n", "no"):
        return False
    raise InvalidAnswer("y or n, please")
