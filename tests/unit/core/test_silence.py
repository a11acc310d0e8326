"""A model that only thinks is asked once more, and never twice."""

from __future__ import annotations

import pytest

from antiphon.core.deltas import Delta, RawItem, Reasoning, Refusal, Text, ToolCall, Usage
from antiphon.core.silence import SilenceDesk

THOUGHT = Reasoning("Hm.")


def closed(*deltas: Delta) -> SilenceDesk:
    desk = SilenceDesk()
    assert [out for delta in deltas for out in desk.feed(delta)] == list(deltas)
    assert desk.close(final=True) == []
    return desk


def test_thought_alone_is_no_answer() -> None:
    desk = closed(THOUGHT, Text(""), Usage(1))
    assert desk.again is not None
    assert [note.code for note in desk.diagnostics] == ["answer.reminded"]


@pytest.mark.parametrize(
    "word", [Text("a"), Refusal("no"), ToolCall(0, name="f"), RawItem({"type": "program"})]
)
def test_whoever_says_anything_is_not_reminded(word: Delta) -> None:
    desk = closed(THOUGHT, word)
    assert (desk.again, desk.diagnostics) == (None, [])


def test_nothing_at_all_is_none_of_its_business() -> None:
    assert closed().again is None


def test_a_second_silence_is_told_and_not_asked_about() -> None:
    desk = closed(THOUGHT)
    desk.again = None
    desk.feed(THOUGHT)
    desk.close(final=True)
    assert desk.again is None
    assert [note.code for note in desk.diagnostics] == ["answer.reminded", "answer.empty"]


def test_an_answer_after_the_reminder_ends_it() -> None:
    desk = closed(THOUGHT)
    desk.again = None
    desk.feed(Text("Here."))
    desk.close(final=True)
    assert [note.code for note in desk.diagnostics] == ["answer.reminded"]
