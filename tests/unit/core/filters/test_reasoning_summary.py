"""Raw reasoning is shown as a summary if one is requested, and sealed as raw reasoning."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.core.deltas import Delta, Finish, Reasoning, ReasoningState, Text
from antiphon.core.filters.simple_filters import ReasoningSummaryFilter
from antiphon.core.stream.source import Source
from antiphon.core.translation.translation import Translation
from tests.support.machines import Document, ScriptedDecoder, ScriptedDialect, documents, machine
from tests.support.stream_validator import check

sealed: list[str] = []


def seal(states: Sequence[ReasoningState], text: str) -> str:
    sealed.append(text)
    return "sealed"


def passed(*deltas: Delta) -> list[Document]:
    lines = ScriptedDecoder([[delta] for delta in (*deltas, Finish("stop"))])
    translation = Translation(
        machine(seal=seal), Source(ScriptedDialect(lines)), [ReasoningSummaryFilter()]
    )
    events = [event for _ in (*deltas, 0) for event in translation.feed(b"x")] + translation.close()
    found = documents(events)
    check(found)
    return found


def test_raw_reasoning_is_shown_as_one_summary() -> None:
    events = passed(Reasoning("Two "), Reasoning("and two."), Text("Four."))
    item = events[-1]["response"]["output"][0]
    assert item["summary"] == [{"type": "summary_text", "text": "Two and two."}]
    assert "content" not in item
    kinds = [event["type"] for event in events]
    assert kinds.count("response.reasoning_summary_text.delta") == 2
    assert not [kind for kind in kinds if kind.startswith("response.reasoning_text")]


def test_the_sealed_state_keeps_the_raw_reasoning() -> None:
    sealed.clear()
    passed(Reasoning("Two and two."), Text("Four."))
    assert sealed == ["Two and two."]


def test_a_summary_stays_a_summary_and_is_not_sealed() -> None:
    sealed.clear()
    item = passed(Reasoning("In short.", "summary"), Text("Four."))[-1]["response"]["output"][0]
    assert item["summary"] == [{"type": "summary_text", "text": "In short."}]
    assert sealed == []
