"""With `parallel_tool_calls: false` a client gets one call at most."""

from __future__ import annotations

from antiphon.core.deltas import Delta, Text, ToolCall, ToolEnd, ToolRevision
from antiphon.core.filters.simple_filters import SingleCallFilter
from tests.support.filters import DrivenFilter

FIRST, SECOND = ToolCall(0, "a", "f", '{"n":'), ToolCall(1, "b", "f", "{}")
REST = ToolCall(0, arguments="1}")


def run_filter(*deltas: Delta) -> tuple[list[Delta], list[str]]:
    subject = DrivenFilter(SingleCallFilter())
    out = [each for delta in deltas for each in subject.feed(delta)]
    assert subject.close(final=True) == []
    assert subject.follow_up is None
    return out, [note.code for note in subject.diagnostics]


def test_a_second_call_is_dropped_and_noted_once() -> None:
    deltas = (Text("a"), FIRST, SECOND, REST, ToolEnd(1), ToolEnd(0))
    assert run_filter(*deltas) == ([Text("a"), FIRST, REST, ToolEnd(0)], ["call.dropped"])


def test_a_single_call_passes() -> None:
    assert run_filter(FIRST, REST) == ([FIRST, REST], [])


def test_later_deltas_of_a_dropped_call_are_dropped() -> None:
    revised = (ToolRevision(0, "x"), ToolRevision(1, "y"))
    assert run_filter(FIRST, SECOND, *revised)[0] == [FIRST, ToolRevision(0, "x")]
