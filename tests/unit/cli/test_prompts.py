"""Prompts: answers from a pipe or a terminal, defaults, and answers that are not valid."""

from __future__ import annotations

import getpass
import io
import sys

import pytest
from rich.console import Console

from antiphon.cli.prompts import Prompts
from antiphon.errors import InvalidAnswer, UnansweredPrompt


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class PromptSession:
    """Prompts whose answers are given, and the text that they have shown."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._output = io.StringIO()

    def prompts(self, answers: str = "", *, use_defaults: bool = False) -> Prompts:
        self._monkeypatch.setattr(sys, "stdin", io.StringIO(answers))
        return Prompts(Console(file=self._output, width=80), use_defaults=use_defaults)

    @property
    def shown(self) -> str:
        return self._output.getvalue()


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> PromptSession:
    return PromptSession(monkeypatch)


def parse_number(answer: str) -> int:
    if answer.isdecimal():
        return int(answer)
    raise InvalidAnswer(f"{answer!r} is no number")


def test_an_answer_is_stripped_and_parsed(session: PromptSession) -> None:
    assert session.prompts(" 7 \n").ask("How many?", "3", parse_number) == 7
    assert session.shown == "How many? [3] \n"


def test_an_empty_answer_is_the_default(session: PromptSession) -> None:
    assert session.prompts("\n").ask("How many?", "3", parse_number) == 3


def test_an_invalid_answer_is_explained_and_asked_again(session: PromptSession) -> None:
    assert session.prompts("many\n7\n").ask("How many?", "3", parse_number) == 7
    assert "  'many' is no number\n" in session.shown
    assert session.shown.count("How many?") == 2


def test_use_defaults_shows_and_asks_nothing(session: PromptSession) -> None:
    prompts = session.prompts(use_defaults=True)
    prompts.show("a table")
    assert prompts.ask("How many?", "3", parse_number) == 3
    assert prompts.confirm("Really?", default=True) is True
    assert session.shown == ""


@pytest.mark.parametrize(
    ("answer", "default", "confirmed"),
    [("y", False, True), ("NO", True, False), ("Yes", False, True), ("", True, True)],
)
def test_a_confirmation_accepts_yes_and_no_in_any_case(
    answer: str, default: bool, confirmed: bool, session: PromptSession
) -> None:
    assert session.prompts(f"{answer}\n").confirm("Really?", default=default) is confirmed


def test_a_confirmation_rejects_any_other_answer(session: PromptSession) -> None:
    assert session.prompts("perhaps\nn\n").confirm("Really?", default=True) is False
    assert "'perhaps' is not valid: enter y or n" in session.shown


def test_an_ended_input_names_the_question_and_the_yes_option(session: PromptSession) -> None:
    with pytest.raises(UnansweredPrompt, match=r"no answer to 'How many\?.*use --yes to accept"):
        session.prompts().ask("How many?", "3", parse_number)


def test_an_empty_secret_is_asked_again(session: PromptSession) -> None:
    assert session.prompts("\nsecret\n").ask_secret("Key?") == "secret"
    assert session.shown.count("Key?") == 2
    assert "secret" not in session.shown


def test_a_secret_on_a_terminal_is_read_without_echo(
    session: PromptSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = session.prompts()
    monkeypatch.setattr(sys, "stdin", Terminal("not read\n"))
    monkeypatch.setattr(getpass, "getpass", lambda prompt: f"typed after {prompt}")
    assert prompts.ask_secret("Key?") == "typed after Key?"


def test_an_ended_terminal_input_is_an_unanswered_secret(
    session: PromptSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(prompt: str) -> str:
        raise EOFError

    prompts = session.prompts()
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(getpass, "getpass", end)
    with pytest.raises(UnansweredPrompt, match=r"no answer to 'Key\?'"):
        prompts.ask_secret("Key?")
