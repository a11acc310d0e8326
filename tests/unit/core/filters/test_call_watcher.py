"""Partial calls: name, id and arguments, however they are cut; and calls that wait for a name."""

from __future__ import annotations

from antiphon.core.deltas import ToolCall, ToolEnd
from antiphon.core.filters.call_watcher import CallWatcher, PartialCall
from antiphon.core.stream.call_block import merge_name
from tests.support.tables import table

TOOLS = ("read", "read_file", "gogo")


@table(
    ("pieces", "name"),
    [
        (["read"], "read"),
        (["read", "read"], "read"),
        (["re", "ad"], "read"),
        (["re", "read"], "read"),
        (["read", "_file"], "read_file"),
        (["read", "read_file"], "read_file"),
        (["read", "_line"], "read"),
        (["read", "", "_file", ""], "read_file"),
        (["go", "go"], "gogo"),
        (["un", "known"], "unknown"),
        (["unknown", "unknown"], "unknown"),
    ],
)
def test_declared_tools_distinguish_pieces_of_a_name_from_a_repeated_name(
    pieces: list[str], name: str
) -> None:
    known = ""
    for piece in pieces:
        known = merge_name(known, piece, TOOLS)
    assert known == name


def test_a_partial_call_has_the_first_id_and_all_arguments() -> None:
    call = PartialCall(TOOLS)
    deltas: list[ToolCall | ToolEnd] = [
        ToolCall(0, "", "re"),
        ToolCall(0, "c1", "ad", '{"a"'),
        ToolCall(0, "c2", None, ":1}"),
        ToolEnd(0),
    ]
    for delta in deltas:
        call.add(delta)
    assert (call.name, call.call_id, call.arguments) == ("read", "c1", '{"a":1}')
    assert call.deltas == deltas


def is_read(call: PartialCall) -> bool:
    return call.name == "read"


def test_a_call_waits_until_it_is_decided() -> None:
    watcher = CallWatcher(TOOLS, is_read)
    assert watcher.add(ToolCall(0, "c", "re")) is None
    assert 0 in watcher
    call = watcher.add(ToolCall(0, None, "ad"))
    assert call is not None
    assert call.deltas == [ToolCall(0, "c", "re"), ToolCall(0, None, "ad")]
    assert 0 not in watcher


def test_calls_that_still_wait_are_taken_at_the_end_of_the_round() -> None:
    watcher = CallWatcher(TOOLS, is_read)
    for index in (2, 1, 3):
        watcher.add(ToolCall(index, None, "re"))
    assert watcher.take(1).name == "re"
    assert [call.deltas[0].index for call in watcher.take_all()] == [2, 3]
    assert watcher.take_all() == []
