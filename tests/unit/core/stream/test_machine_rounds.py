"""An answer of several rounds is one response: items go on, calls and tokens are counted anew."""

from __future__ import annotations

import msgspec
import pytest

from antiphon.core.stream.deltas import (
    Delta,
    Finish,
    ReasoningState,
    SearchEnded,
    SearchStarted,
    Text,
    ToolCall,
    ToolEnd,
    ToolRevision,
    Usage,
)
from antiphon.core.stream.machine import ResponseMachine
from antiphon.core.stream.usage import UsageCounter
from antiphon.errors import InvalidTransition, OutputBeforeStart
from antiphon.wire.events import Event
from tests.support.machines import Document, documents, machine
from tests.support.stream_validator import check

ACTION = {"type": "search", "query": "tides"}


def begun() -> tuple[ResponseMachine, list[Event]]:
    fresh = machine(seal=lambda states, text: f"sealed {len(states)}")
    return fresh, fresh.start()


def fed(subject: ResponseMachine, *deltas: Delta) -> list[Event]:
    return [event for delta in deltas for event in subject.feed(delta)]


def judged(events: list[Event]) -> Document:
    """The final response of events that keep every rule."""
    finished_items = documents(events)
    check(finished_items)
    response: Document = finished_items[-1]["response"]
    return response


def test_text_of_two_rounds_is_two_messages() -> None:
    subject, events = begun()
    events += fed(subject, Text("one"), Finish("stop")) + subject.end_round()
    subject.next_round()
    events += fed(subject, Text("two")) + subject.finish("stop")
    response = judged(events)
    assert [item["content"][0]["text"] for item in response["output"]] == ["one", "two"]


def test_a_new_round_has_not_finished_yet() -> None:
    subject, _ = begun()
    fed(subject, Text("one"), Finish("stop"))
    subject.end_round()
    assert subject.pending_finish is not None
    subject.next_round()
    assert subject.pending_finish is None


def test_calls_of_two_rounds_may_share_an_index() -> None:
    subject, events = begun()
    call = ToolCall(0, call_id="c1", name="get_weather", arguments="{}")
    events += fed(subject, call) + subject.end_round()
    subject.next_round()
    events += fed(subject, ToolCall(0, call_id="c2", name="get_weather", arguments='{"a":1}'))
    response = judged(events + subject.finish("tool_calls"))
    assert [item["call_id"] for item in response["output"]] == ["c1", "c2"]


def test_a_call_without_arguments_ends_with_its_round() -> None:
    subject, events = begun()
    events += fed(subject, ToolCall(0, call_id="c1", name="get_weather")) + subject.end_round()
    assert documents(events)[-1]["type"] == "response.output_item.done"


def test_the_same_call_id_in_a_later_round_is_replaced() -> None:
    subject, events = begun()
    events += fed(subject, ToolCall(0, call_id="c1", name="get_weather", arguments="{}"))
    events += subject.end_round()
    subject.next_round()
    events += fed(subject, ToolCall(1, call_id="c1", name="get_weather", arguments="{}"))
    response = judged(events + subject.finish("tool_calls"))
    assert len({item["call_id"] for item in response["output"]}) == 2


def test_a_call_id_is_not_given_twice_even_at_the_same_place() -> None:
    """Some providers count their calls anew in each round."""
    subject, events = begun()
    for _ in range(2):
        events += fed(subject, ToolCall(0, call_id="call_0", name="get_weather", arguments="{}"))
        events += subject.end_round()
        subject.next_round()
    response = judged(events + subject.finish("tool_calls"))
    assert len({item["call_id"] for item in response["output"]}) == 2


def test_state_that_came_last_leaves_with_its_round() -> None:
    subject, events = begun()
    events += fed(subject, Text("one"), ReasoningState("sig", "x")) + subject.end_round()
    assert [item["type"] for item in _told(subject)] == ["message", "reasoning"]
    subject.next_round()
    assert subject.round_items == []
    judged(events + subject.finish("stop"))


def _told(subject: ResponseMachine) -> list[Document]:
    finished_items: list[Document] = msgspec.to_builtins(subject.round_items)
    return finished_items


def test_usage_adds_up_over_rounds_and_replaces_within_one() -> None:
    meter = UsageCounter()
    meter.feed(Usage(input_tokens=5))
    meter.feed(Usage(input_tokens=7, output_tokens=1))
    meter.next_round()
    assert meter.total == Usage(input_tokens=7, output_tokens=1)
    meter.feed(Usage(input_tokens=10, output_tokens=2, total_tokens=13))
    assert meter.total == Usage(input_tokens=17, output_tokens=3, total_tokens=21)


def test_rounds_that_nobody_counts_cost_nothing_known() -> None:
    meter = UsageCounter()
    meter.next_round()
    assert meter.total is None


def test_the_response_tells_what_all_rounds_cost() -> None:
    subject, events = begun()
    events += fed(subject, Text("one"), Usage(input_tokens=3, output_tokens=2))
    events += subject.end_round()
    subject.next_round()
    events += fed(subject, Text("two"), Usage(input_tokens=6, output_tokens=2))
    usage = judged(events + subject.finish("stop"))["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (9, 4, 13)


def test_there_is_no_round_before_the_start() -> None:
    with pytest.raises(OutputBeforeStart):
        machine().end_round()
    with pytest.raises(OutputBeforeStart):
        machine().next_round()


# A call that is held back over rounds


def held() -> tuple[ResponseMachine, list[Event]]:
    subject, events = begun()
    events += fed(
        subject, ToolCall(0, call_id="c1", name="exec", arguments="*** Beg", kind="custom")
    )
    events += subject.end_round()
    return subject, events


def test_a_call_that_is_held_back_stays_open_over_rounds() -> None:
    subject, events = held()
    subject.next_round()
    more = ToolCall(0, arguments="in", kind="custom")
    events += fed(subject, more, ToolEnd(0)) + subject.finish("tool_calls")
    assert judged(events)["output"][0]["input"] == "*** Begin"


def test_a_revised_call_ends_with_its_new_input() -> None:
    subject, _ = held()
    subject.next_round()
    finished_items = fed(subject, ToolRevision(0, "*** Another"), ToolEnd(0))
    done = [
        event for event in documents(finished_items) if event["type"] == "response.output_item.done"
    ]
    assert done[0]["item"]["input"] == "*** Another"
    subject.finish("tool_calls")


def test_a_call_may_be_revised_before_it_was_announced() -> None:
    subject, _ = begun()
    fed(subject, ToolCall(0, name="exec", arguments="x", kind="custom"), ToolRevision(0, "y"))
    response = documents(subject.finish("tool_calls"))[-1]["response"]
    assert [item["input"] for item in response["output"]] == ["y"]


def test_what_comes_after_a_held_call_waits_and_is_known_to_the_next_round() -> None:
    subject, events = begun()
    events += fed(
        subject,
        ToolCall(0, call_id="c1", name="exec", arguments="bad", kind="custom"),
        ToolCall(1, call_id="c2", name="get_weather", arguments="{}"),
    )
    events += subject.end_round()
    assert [item["call_id"] for item in _told(subject)] == ["c2"]
    subject.next_round()
    response = judged(events + fed(subject, ToolEnd(0)) + subject.finish("tool_calls"))
    assert [item["call_id"] for item in response["output"]] == ["c1", "c2"]


def test_only_a_known_call_can_be_revised() -> None:
    subject, _ = begun()
    with pytest.raises(InvalidTransition, match="call 4 does not exist"):
        subject.feed(ToolRevision(4, "x"))


# Searches of our own


def test_a_search_is_on_the_air_until_it_is_over() -> None:
    subject, events = begun()
    events += fed(subject, Text("Let me look."), SearchStarted(ACTION))
    assert documents(events)[-1]["type"] == "response.web_search_call.searching"
    events += fed(subject, SearchEnded({**ACTION, "sources": []}))
    item = judged(events + subject.finish("stop"))["output"][1]
    assert (item["status"], item["action"]["sources"]) == ("completed", [])


def test_a_search_that_failed_says_so() -> None:
    subject, events = begun()
    events += fed(subject, SearchStarted(ACTION), SearchEnded(ACTION, "failed"))
    assert judged(events + subject.finish("stop"))["output"][0]["status"] == "failed"


def test_a_search_that_nobody_ended_has_failed() -> None:
    subject, events = begun()
    events += fed(subject, SearchStarted(ACTION), Text("never mind"))
    assert judged(events + subject.finish("stop"))["output"][0]["status"] == "failed"


def test_a_search_that_is_over_before_its_turn_comes_is_told_from_its_beginning() -> None:
    """A call that is held back for another round has the air."""
    subject, events = begun()
    held = ToolCall(0, call_id="c1", name="exec", arguments="x", kind="custom")
    events += fed(subject, held, SearchStarted(ACTION), SearchEnded(ACTION)) + subject.end_round()
    subject.next_round()
    response = judged(events + fed(subject, ToolEnd(0)) + subject.finish("stop"))
    assert [item["status"] for item in response["output"]] == ["completed", "completed"]


def test_the_snapshot_shows_a_search_under_way() -> None:
    subject, _ = begun()
    fed(subject, SearchStarted(ACTION))
    item = subject.snapshot.output[0]
    assert isinstance(item, dict)
    assert item["status"] == "in_progress"


def test_no_search_ends_that_was_not_begun() -> None:
    subject, _ = begun()
    with pytest.raises(InvalidTransition, match="no search is open"):
        subject.feed(SearchEnded(ACTION))
