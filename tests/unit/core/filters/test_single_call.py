"""A client that wants one call at a time gets one."""

from __future__ import annotations

from antiphon.core.filters.single_call import SingleCallFilter
from antiphon.core.stream.deltas import Delta, Text, ToolCall, ToolEnd, ToolRevision

FIRST, SECOND = ToolCall(0, "a", "f", '{"n":'), ToolCall(1, "b", "f", "{}")
REST = ToolCall(0, arguments="1}")


def told(*deltas: Delta) -> tuple[list[Delta], list[str]]:
    desk = SingleCallFilter()
    out = [each for delta in deltas for each in desk.feed(delta)]
    assert desk.close(final=True) == []
    assert desk.follow_up is None
    return out, [note.code for note in desk.diagnostics]


def test_a_second_call_is_left_out_and_told_once() -> None:
    deltas = (Text("a"), FIRST, SECOND, REST, ToolEnd(1), ToolEnd(0))
    assert told(*deltas) == ([Text("a"), FIRST, REST, ToolEnd(0)], ["call.dropped"])


def test_one_call_is_none_too_many() -> None:
    assert told(FIRST, REST) == ([FIRST, REST], [])


def test_what_becomes_of_a_call_that_was_left_out_is_not_told_either() -> None:
    revised = (ToolRevision(0, "x"), ToolRevision(1, "y"))
    assert told(FIRST, SECOND, *revised)[0] == [FIRST, ToolRevision(0, "x")]
