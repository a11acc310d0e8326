"""Pieces of the open item, which pass neither filters nor machine."""

from __future__ import annotations

import pytest

from antiphon.core.deltas import Delta, Finish, Reasoning, Start, Text, ToolCall, Usage
from antiphon.core.events import Event
from antiphon.core.filters.simple_filters import EmptyAnswerFilter, SingleCallFilter
from antiphon.core.stream.source import Source
from antiphon.core.translation.next_step import Ended
from antiphon.core.translation.translation import DeltaPath, Translation
from antiphon.dialects.dialect import resolve
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


WHOLE: list[Delta] = [Start("m"), Usage(3, 4), Text("Hello."), Finish("stop")]


def test_a_whole_text_gives_all_events_of_a_response_at_once() -> None:
    subject = machine()
    path = DeltaPath(subject, [EmptyAnswerFilter()], ResponseLimits())
    events: list[Event] = []
    assert path.take_whole(WHOLE, events)
    assert [type(event).__name__ for event in events] == [
        "Created",
        "InProgress",
        "ItemAdded",
        "PartAdded",
        "TextDelta",
        "TextDone",
        "PartDone",
        "ItemDone",
        "Completed",
    ]
    assert (subject.has_ended, path.has_output, subject.snapshot.output_text) == (
        True,
        True,
        "Hello.",
    )


def test_a_body_that_is_one_text_ends_the_response() -> None:
    message = b'{"role":"assistant","content":"Hello."}'
    choice = b'{"index":0,"message":%b,"finish_reason":"stop"}' % message
    usage = b'{"prompt_tokens":3,"completion_tokens":1}'
    translation = Translation(machine(), Source(resolve("chat")), [EmptyAnswerFilter()])
    events = translation.feed_whole(b'{"choices":[%b],"usage":%b}' % (choice, usage))
    assert (len(events), translation.next) == (9, Ended(None))


@table(
    "deltas",
    [
        WHOLE[:3],
        [*WHOLE, Text("Again.")],
        [*WHOLE, Reasoning("Hm.")],
        [*WHOLE[:2], Text(""), Finish("stop")],
        [*WHOLE[:3], Finish("length")],
    ],
)
def test_a_whole_response_that_is_more_or_less_than_a_text_takes_the_long_way(
    deltas: list[Delta],
) -> None:
    path = DeltaPath(machine(), [], ResponseLimits())
    events: list[Event] = []
    assert not path.take_whole(deltas, events)
    assert events == []


def test_a_whole_text_takes_the_long_way_through_other_filters_or_after_the_start() -> None:
    assert not DeltaPath(machine(), [SingleCallFilter()], ResponseLimits()).take_whole(WHOLE, [])
    started = machine()
    started.start()
    assert not DeltaPath(started, [], ResponseLimits()).take_whole(WHOLE, [])
