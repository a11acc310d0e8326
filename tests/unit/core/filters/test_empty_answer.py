"""A model that only thinks is asked once more, and never twice."""

from __future__ import annotations

import pytest

from antiphon.core.filters.empty_answer import EmptyAnswerFilter
from antiphon.core.stream.deltas import Delta, Finish, RawItem, Reasoning, Refusal, Text, ToolCall

THOUGHT, STOP = Reasoning("Hm."), Finish("stop")


def closed(*deltas: Delta, reminds: bool = True) -> EmptyAnswerFilter:
    desk = EmptyAnswerFilter(reminds=reminds)
    assert [out for delta in deltas for out in desk.feed(delta)] == list(deltas)
    assert desk.close(final=True) == []
    return desk


def test_thought_alone_is_no_answer() -> None:
    desk = closed(THOUGHT, Text(""), STOP, Finish(None))
    assert desk.follow_up is not None
    assert [note.code for note in desk.diagnostics] == ["answer.reminded"]


@pytest.mark.parametrize(
    "word", [Text("a"), Refusal("no"), ToolCall(0, name="f"), RawItem({"type": "program"})]
)
def test_whoever_says_anything_is_not_reminded(word: Delta) -> None:
    desk = closed(THOUGHT, word, STOP)
    assert (desk.follow_up, desk.diagnostics) == (None, [])


def test_nothing_at_all_is_none_of_its_business() -> None:
    assert closed(STOP).follow_up is None


def test_a_second_silence_is_told_and_not_asked_about() -> None:
    desk = closed(THOUGHT, STOP)
    desk.follow_up = None
    desk.feed(THOUGHT)
    desk.close(final=True)
    assert desk.follow_up is None
    assert [note.code for note in desk.diagnostics] == ["answer.reminded", "answer.empty"]


def test_where_nobody_is_reminded_silence_is_told_all_the_same() -> None:
    desk = closed(THOUGHT, STOP, reminds=False)
    assert desk.follow_up is None
    assert [note.code for note in desk.diagnostics] == ["answer.empty"]
    assert closed(THOUGHT, Finish("length"), reminds=False).diagnostics == []


def test_an_answer_after_the_reminder_ends_it() -> None:
    desk = closed(THOUGHT, STOP)
    desk.follow_up = None
    desk.feed(Text("Here."))
    desk.close(final=True)
    assert [note.code for note in desk.diagnostics] == ["answer.reminded"]


@pytest.mark.parametrize("reason", ["length", "content_filter", None])
def test_a_thought_that_was_cut_off_is_not_taken_for_silence(reason: str | None) -> None:
    desk = closed(THOUGHT, Finish(reason))
    assert (desk.follow_up, desk.diagnostics) == (None, [])
