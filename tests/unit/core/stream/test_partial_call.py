"""Partial calls: name, id and arguments, however they are cut."""

from __future__ import annotations

import pytest

from antiphon.core.stream.deltas import ToolCall, ToolEnd
from antiphon.core.stream.partial_call import PartialCall, merge_name

TOOLS = ("read", "read_file", "gogo")


@pytest.mark.parametrize(
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
