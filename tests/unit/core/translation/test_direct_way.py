"""Pieces of the open item, which pass neither filters nor machine."""

from __future__ import annotations

import pytest

from antiphon.core.deltas import Delta, Reasoning, Text, ToolCall
from antiphon.core.translation.translation import DeltaPath
from antiphon.errors import ResponseTooLarge
from antiphon.framing.limits import ResponseLimits
from tests.support.machines import Step, machine, run_steps
from tests.support.tables import table


def test_a_piece_is_taken_only_after_one_like_it_and_counted() -> None:
    subject = machine()
    path = DeltaPath(subject, [], ResponseLimits(text_chars=3))
    subject.start()
    assert not path.take_piece(Text("a"), [])
    subject.feed(Text("a"))
    path.follow(Text("a"))
    assert path.take_piece(Text("bc"), [])
    assert not path.take_piece(Reasoning("b"), [])
    with pytest.raises(ResponseTooLarge):
        path.take_piece(Text("de"), [])
    path.follow(None)
    assert not path.take_piece(Text("f"), [])


@table(
    ("deltas", "pieces"),
    [
        ([Text("a"), Text("b"), Text(""), Text("c", ({"token": "c"},))], ["a", "b", "c"]),
        ([Reasoning("a"), Reasoning("b"), Reasoning(""), Reasoning("c")], ["a", "b", "c"]),
        (
            [ToolCall(0, "x", "f", "a"), ToolCall(0, None, None, "b"), ToolCall(0, "x", "f", "c")],
            ["a", "b", "c"],
        ),
    ],
)
def test_each_piece_of_an_item_is_one_event(deltas: list[Delta], pieces: list[str]) -> None:
    events = run_steps([[delta] for delta in deltas], machine())
    found = [event["delta"] for event in events if event["type"].endswith(".delta")]
    assert found == pieces


def test_pieces_of_two_calls_in_turn_stay_apart() -> None:
    steps: list[Step] = [
        [ToolCall(0, "x", "f", '{"a"')],
        [ToolCall(0, None, None, ":")],
        [ToolCall(1, "y", "g", "{")],
        [ToolCall(0, None, None, "1}")],
        [ToolCall(1, None, None, "}")],
    ]
    output = run_steps(steps, machine())[-1]["response"]["output"]
    assert [item["arguments"] for item in output] == ['{"a":1}', "{}"]
