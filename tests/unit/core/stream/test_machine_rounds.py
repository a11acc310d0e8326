"""Responses of several rounds: items continue, calls and tokens are counted anew."""

from __future__ import annotations

import msgspec
import pytest

from antiphon.core.deltas import (
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
from antiphon.core.events import Event
from antiphon.core.stream.machine import ResponseMachine
from antiphon.errors import InvalidTransition, OutputBeforeStart
from tests.support.machines import Document, documents, machine
from tests.support.stream_validator import check

ACTION = {"type": "search", "query": "tides"}


def started() -> tuple[ResponseMachine, list[Event]]:
    fresh = machine(seal=lambda states, text: f"sealed {len(states)}")
    return fresh, fresh.start()


def feed_all(subject: ResponseMachine, *deltas: Delta) -> list[Event]:
    return [event for delta in deltas for event in subject.feed(delta)]


def checked_response(events: list[Event]) -> Document:
    """The final response of events that keep every rule."""
    sent = documents(events)
    check(sent)
    response: Document = sent[-1]["response"]
    return response


def test_text_of_two_rounds_makes_two_messages() -> None:
    subject, events = started()
    events += feed_all(subject, Text("one"), Finish("stop")) + subject.end_round()
    subject.next_round()
    events += feed_all(subject, Text("two")) + subject.finish("stop")
    response = checked_response(events)
    assert [item["content"][0]["text"] for item in response["output"]] == ["one", "two"]


def test_a_new_round_has_no_finish_reason() -> None:
    subject, _ = started()
    feed_all(subject, Text("one"), Finish("stop"))
    subject.end_round()
    assert subject.pending_finish is not None
    subject.next_round()
    assert subject.pending_finish is None


def test_calls_of_two_rounds_may_share_an_index() -> None:
    subject, events = started()
    call = ToolCall(0, call_id="c1", name="get_weather", arguments="{}")
    events += feed_all(subject, call) + subject.end_round()
    subject.next_round()
    events += feed_all(subject, ToolCall(0, call_id="c2", name="get_weather", arguments='{"a":1}'))
    response = checked_response(events + subject.finish("tool_calls"))
    assert [item["call_id"] for item in response["output"]] == ["c1", "c2"]


def test_a_call_without_arguments_ends_with_its_round() -> None:
    subject, events = started()
    events += feed_all(subject, ToolCall(0, call_id="c1", name="get_weather")) + subject.end_round()
    assert documents(events)[-1]["type"] == "response.output_item.done"


def test_the_same_call_id_in_a_later_round_is_replaced() -> None:
    subject, events = started()
    events += feed_all(subject, ToolCall(0, call_id="c1", name="get_weather", arguments="{}"))
    events += subject.end_round()
    subject.next_round()
    events += feed_all(subject, ToolCall(1, call_id="c1", name="get_weather", arguments="{}"))
    response = checked_response(events + subject.finish("tool_calls"))
    assert len({item["call_id"] for item in response["output"]}) == 2


def test_a_call_id_is_never_used_twice_even_at_the_same_index() -> None:
    """Some providers count their calls anew in each round."""
    subject, events = started()
    for _ in range(2):
        events += feed_all(
            subject, ToolCall(0, call_id="call_0", name="get_weather", arguments="{}")
        )
        events += subject.end_round()
        subject.next_round()
    response = checked_response(events + subject.finish("tool_calls"))
    assert len({item["call_id"] for item in response["output"]}) == 2


def test_pending_state_is_sealed_at_the_end_of_its_round() -> None:
    subject, events = started()
    events += feed_all(subject, Text("one"), ReasoningState("sig", "x")) + subject.end_round()
    assert [item["type"] for item in round_items_of(subject)] == ["message", "reasoning"]
    subject.next_round()
    assert subject.round_items == []
    checked_response(events + subject.finish("stop"))


def round_items_of(subject: ResponseMachine) -> list[Document]:
    sent: list[Document] = msgspec.to_builtins(subject.round_items)
    return sent


def test_the_usage_of_a_response_covers_all_rounds() -> None:
    subject, events = started()
    events += feed_all(subject, Text("one"), Usage(input_tokens=3, output_tokens=2))
    events += subject.end_round()
    subject.next_round()
    events += feed_all(subject, Text("two"), Usage(input_tokens=6, output_tokens=2))
    usage = checked_response(events + subject.finish("stop"))["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (9, 4, 13)


def test_a_round_before_the_start_is_an_error() -> None:
    with pytest.raises(OutputBeforeStart):
        machine().end_round()
    with pytest.raises(OutputBeforeStart):
        machine().next_round()


# A call that is held back over rounds


def held_call() -> tuple[ResponseMachine, list[Event]]:
    subject, events = started()
    events += feed_all(
        subject, ToolCall(0, call_id="c1", name="exec", arguments="*** Beg", kind="custom")
    )
    events += subject.end_round()
    return subject, events


def test_a_call_that_is_held_back_stays_open_over_rounds() -> None:
    subject, events = held_call()
    subject.next_round()
    more = ToolCall(0, arguments="in", kind="custom")
    events += feed_all(subject, more, ToolEnd(0)) + subject.finish("tool_calls")
    assert checked_response(events)["output"][0]["input"] == "*** Begin"


def test_a_revised_call_ends_with_its_new_input() -> None:
    subject, _ = held_call()
    subject.next_round()
    sent = feed_all(subject, ToolRevision(0, "*** Another"), ToolEnd(0))
    done = [event for event in documents(sent) if event["type"] == "response.output_item.done"]
    assert done[0]["item"]["input"] == "*** Another"
    subject.finish("tool_calls")


def test_a_call_may_be_revised_before_it_was_announced() -> None:
    subject, _ = started()
    feed_all(subject, ToolCall(0, name="exec", arguments="x", kind="custom"), ToolRevision(0, "y"))
    response = documents(subject.finish("tool_calls"))[-1]["response"]
    assert [item["input"] for item in response["output"]] == ["y"]


def test_a_complete_call_after_a_held_call_waits_and_is_in_the_items_of_the_round() -> None:
    subject, events = started()
    events += feed_all(
        subject,
        ToolCall(0, call_id="c1", name="exec", arguments="bad", kind="custom"),
        ToolCall(1, call_id="c2", name="get_weather", arguments="{}"),
    )
    events += subject.end_round()
    assert [item["call_id"] for item in round_items_of(subject)] == ["c2"]
    subject.next_round()
    response = checked_response(
        events + feed_all(subject, ToolEnd(0)) + subject.finish("tool_calls")
    )
    assert [item["call_id"] for item in response["output"]] == ["c1", "c2"]


def test_the_revision_of_an_unknown_call_is_an_error() -> None:
    subject, _ = started()
    with pytest.raises(InvalidTransition, match="call 4 does not exist"):
        subject.feed(ToolRevision(4, "x"))


# Searches by the gateway


def test_a_search_item_is_open_until_the_search_ends() -> None:
    subject, events = started()
    events += feed_all(subject, Text("Let me look."), SearchStarted(ACTION))
    assert documents(events)[-1]["type"] == "response.web_search_call.searching"
    events += feed_all(subject, SearchEnded({**ACTION, "sources": []}))
    item = checked_response(events + subject.finish("stop"))["output"][1]
    assert (item["status"], item["action"]["sources"]) == ("completed", [])


def test_a_failed_search_has_the_status_failed() -> None:
    subject, events = started()
    events += feed_all(subject, SearchStarted(ACTION), SearchEnded(ACTION, "failed"))
    assert checked_response(events + subject.finish("stop"))["output"][0]["status"] == "failed"


def test_a_search_that_never_ended_has_the_status_failed() -> None:
    subject, events = started()
    events += feed_all(subject, SearchStarted(ACTION), Text("never mind"))
    assert checked_response(events + subject.finish("stop"))["output"][0]["status"] == "failed"


def test_a_search_that_ends_while_it_waits_has_all_its_events() -> None:
    """A call that is held back for another round is still being streamed."""
    subject, events = started()
    held_call = ToolCall(0, call_id="c1", name="exec", arguments="x", kind="custom")
    events += (
        feed_all(subject, held_call, SearchStarted(ACTION), SearchEnded(ACTION))
        + subject.end_round()
    )
    subject.next_round()
    response = checked_response(events + feed_all(subject, ToolEnd(0)) + subject.finish("stop"))
    assert [item["status"] for item in response["output"]] == ["completed", "completed"]


def test_the_snapshot_shows_an_open_search() -> None:
    subject, _ = started()
    feed_all(subject, SearchStarted(ACTION))
    item = subject.snapshot.output[0]
    assert isinstance(item, dict)
    assert item["status"] == "in_progress"


def test_the_end_of_an_unknown_search_is_an_error() -> None:
    subject, _ = started()
    with pytest.raises(InvalidTransition, match="no search is open"):
        subject.feed(SearchEnded(ACTION))
