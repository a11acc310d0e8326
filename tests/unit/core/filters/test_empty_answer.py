"""A model that sends only reasoning is asked once more, and never twice."""

from __future__ import annotations

import pytest

from antiphon.core.deltas import Delta, Finish, RawItem, Reasoning, Refusal, Text, ToolCall, Usage
from antiphon.core.filters.simple_filters import EmptyAnswerFilter
from tests.support.filters import DrivenFilter

REASONING, STOP = Reasoning("Hm."), Finish("stop")


def close_round(*deltas: Delta, reminds: bool = True) -> DrivenFilter:
    subject = DrivenFilter(EmptyAnswerFilter(reminds=reminds))
    assert [out for delta in deltas for out in subject.feed(delta)] == list(deltas)
    assert subject.close(final=True) == []
    return subject


def test_a_model_that_sends_only_reasoning_is_asked_once_more() -> None:
    subject = close_round(REASONING, Text(""), STOP, Usage(output_tokens=9), Finish(None))
    assert subject.follow_up is not None
    assert [note.code for note in subject.diagnostics] == ["answer.reminded"]


@pytest.mark.parametrize(
    "output", [Text("a"), Refusal("no"), ToolCall(0, name="f"), RawItem({"type": "program"})]
)
def test_any_output_counts_as_an_answer(output: Delta) -> None:
    subject = close_round(REASONING, output, STOP)
    assert (subject.follow_up, subject.diagnostics) == (None, ())


def test_an_answer_without_reasoning_is_not_asked_for_again() -> None:
    assert close_round(STOP).follow_up is None


def test_a_second_empty_answer_is_noted_and_not_asked_for_again() -> None:
    subject = close_round(REASONING, STOP)
    subject.feed(REASONING)
    subject.close(final=True)
    assert subject.follow_up is None
    assert [note.code for note in subject.diagnostics] == ["answer.reminded", "answer.empty"]


def test_without_reminders_an_empty_answer_is_only_noted() -> None:
    subject = close_round(REASONING, STOP, reminds=False)
    assert subject.follow_up is None
    assert [note.code for note in subject.diagnostics] == ["answer.empty"]
    assert close_round(REASONING, Finish("length"), reminds=False).diagnostics == ()


def test_a_round_without_a_finish_reason_does_not_end_with_that_of_the_round_before() -> None:
    subject = close_round(STOP)
    subject.feed(REASONING)
    subject.close(final=True)
    assert (subject.follow_up, subject.diagnostics) == (None, ())


def test_an_answer_after_the_reminder_is_not_noted_as_empty() -> None:
    subject = close_round(REASONING, STOP)
    subject.feed(Text("Here."))
    subject.close(final=True)
    assert [note.code for note in subject.diagnostics] == ["answer.reminded"]


@pytest.mark.parametrize("reason", ["length", "content_filter", None])
def test_reasoning_that_was_cut_off_is_not_asked_about(reason: str | None) -> None:
    subject = close_round(REASONING, Finish(reason))
    assert (subject.follow_up, subject.diagnostics) == (None, ())
