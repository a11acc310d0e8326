"""Refusals become text for clients that drop refusal parts."""

from __future__ import annotations

from antiphon.core.client_profile import PROFILES
from antiphon.core.deltas import Delta, Finish, ItemEnd, Reasoning, Refusal, Text
from antiphon.core.filters.simple_filters import RefusalTextFilter
from tests.support.filters import DrivenFilter

CODEX = PROFILES["codex"]


def run_filter(subject: DrivenFilter, *deltas: Delta) -> list[Delta]:
    passed = [each for delta in deltas for each in subject.feed(delta)]
    return passed + subject.close(final=True)


def test_a_refusal_becomes_text_and_is_noted_once() -> None:
    subject = DrivenFilter(RefusalTextFilter(CODEX))
    assert run_filter(subject, Refusal("I can"), Refusal("not.")) == [Text("I can"), Text("not.")]
    [note] = subject.diagnostics
    assert (note.code, note.subject) == ("client.refusal_as_text", "codex")
    subject.take_diagnostics()
    assert run_filter(subject, Refusal(" Sorry.")) == [Text(" Sorry.")]
    assert subject.diagnostics == ()
    assert subject.follow_up is None


def test_without_a_refusal_nothing_changes_and_nothing_is_noted() -> None:
    subject = DrivenFilter(RefusalTextFilter(CODEX))
    deltas: list[Delta] = [Reasoning("Hm."), Text("Yes"), Text("."), Finish("stop")]
    assert run_filter(subject, *deltas) == deltas
    assert subject.diagnostics == ()


def test_a_refusal_is_a_message_of_its_own() -> None:
    subject = DrivenFilter(RefusalTextFilter(CODEX))
    deltas = run_filter(subject, Text("Let me see."), Refusal("No."), Text("But:"))
    assert deltas == [Text("Let me see."), ItemEnd(), Text("No."), ItemEnd(), Text("But:")]


def test_an_empty_refusal_is_ignored() -> None:
    subject = DrivenFilter(RefusalTextFilter(CODEX))
    assert run_filter(subject, Text("a"), Refusal(""), Text("b")) == [
        Text("a"),
        Refusal(""),
        Text("b"),
    ]
    assert subject.diagnostics == ()
