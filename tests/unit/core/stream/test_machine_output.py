"""State machine output: the order of items, annotations, usage, state, snapshots."""

from __future__ import annotations

from typing import Any

import msgspec

from antiphon.core.deltas import (
    Annotation,
    BlockMembers,
    BlockStart,
    Delta,
    Extra,
    Finish,
    ItemEnd,
    RawItem,
    Reasoning,
    ReasoningState,
    Refusal,
    ResponseMembers,
    Start,
    Text,
    ToolCall,
    ToolEnd,
    Usage,
)
from antiphon.core.stream.machine import ResponseMachine
from tests.support.machines import Document, documents, machine, run
from tests.support.stream_validator import check
from tests.support.tables import table

CITATION = {"type": "file_path", "file_id": "f", "index": 0}


def started(**options: Any) -> ResponseMachine:
    subject = machine(**options)
    subject.start()
    return subject


def types(events: list[Document]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def kinds(events: list[Document]) -> list[str]:
    return [item["type"] for item in events[-1]["response"]["output"]]


# The order of items


def test_items_have_the_order_of_their_deltas() -> None:
    events = run(
        [
            Reasoning("hm"),
            Text("a"),
            Reasoning("so"),
            ToolCall(0, "x", "get_weather", "{}"),
            Text("b"),
            Refusal("no"),
            Text("c"),
            Finish("stop"),
        ]
    )
    check(events)
    assert kinds(events) == [
        "reasoning",
        "message",
        "reasoning",
        "function_call",
        "message",
        "message",
        "message",
    ]


def test_pieces_of_the_same_kind_are_one_item() -> None:
    events = run([Text("a"), Text(""), Text("b"), Refusal(""), Reasoning(""), Text("c")])
    assert kinds(events) == ["message"]


@table("delta", [Text("a"), Reasoning("a"), Refusal("a")])
def test_text_is_closed_when_another_item_begins(delta: Delta) -> None:
    subject = started()
    subject.feed(delta)
    event_types = types(documents(subject.feed(ToolCall(0, "x", "get_weather"))))
    assert event_types[-2:] == ["output_item.done", "output_item.added"]


def test_refusal_deltas_make_one_item() -> None:
    events = run([Refusal("n"), Refusal("o"), Finish("stop")])
    check(events)
    [message] = events[-1]["response"]["output"]
    assert message["content"] == [{"type": "refusal", "refusal": "no"}]


def test_an_answer_of_reasoning_alone_is_completed_by_an_empty_message() -> None:
    subject = started()
    subject.feed(Reasoning("Hm."))
    events = documents(subject.add_missing_message())[-2:]
    assert types(events) == ["output_item.added", "content_part.added"]


@table("delta", [Text("a"), ToolCall(0, "c"), RawItem({"type": "compaction"})])
def test_an_answer_with_another_item_gets_no_empty_message(delta: Delta) -> None:
    subject = started()
    subject.feed(delta)
    assert subject.add_missing_message() == []


def test_only_the_last_item_of_a_cut_response_is_incomplete() -> None:
    events = run([Text("a"), Reasoning("b"), Text("c"), Finish("length")])
    check(events)
    statuses = [item["status"] for item in events[-1]["response"]["output"]]
    assert statuses == ["completed", "completed", "incomplete"]


# Annotations, usage, state


def test_an_annotation_belongs_to_the_open_message_or_to_the_next() -> None:
    events = run([Annotation(CITATION), Text("a"), Annotation(CITATION), Finish("stop")])
    check(events)
    [message] = events[-1]["response"]["output"]
    assert message["content"][0]["annotations"] == [CITATION, CITATION]


def test_an_annotation_is_sent_once() -> None:
    events = run([Annotation(CITATION), Text("a"), Reasoning("b"), Text("c"), Finish("stop")])
    check(events)
    first, _, second = events[-1]["response"]["output"]
    assert first["content"][0]["annotations"] == [CITATION]
    assert second["content"][0]["annotations"] == []


def test_usage_is_in_the_terminal_event_and_makes_none_itself() -> None:
    subject = started()
    assert subject.usage(Usage(3, 2, 1, 1, 1)) == []
    assert subject.snapshot.usage is not None
    usage = documents(subject.finish("stop"))[-1]["response"]["usage"]
    assert usage == {
        "input_tokens": 3,
        "input_tokens_details": {"cached_tokens": 1, "cache_write_tokens": 1},
        "output_tokens": 2,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 5,
    }


def test_later_counts_replace_earlier_ones_and_missing_ones_do_not() -> None:
    subject = started()
    subject.usage(Usage(3, 1, 2, 4, 1, 4))
    subject.usage(Usage(0, 9))
    usage = documents(subject.finish("stop"))[-1]["response"]["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (3, 9, 4)
    assert usage["input_tokens_details"] == {"cached_tokens": 2, "cache_write_tokens": 4}


def test_usage_is_an_object_even_without_counts() -> None:
    assert run([Finish("stop")])[-1]["response"]["usage"]["total_tokens"] == 0


def test_state_is_dropped_if_there_is_nothing_to_seal_it_with() -> None:
    subject = started()
    assert subject.feed(ReasoningState("s", "x")) == []
    assert kinds(documents(subject.finish("stop"))) == []


def test_state_is_sealed_into_the_reasoning_it_came_with() -> None:
    subject = started(seal=lambda states, raw: f"sealed:{len(states)}:{raw}")
    events = subject.feed(Reasoning("hm")) + subject.feed(ReasoningState("s", "x"))
    events += subject.feed(ReasoningState("s", "y")) + subject.finish("stop")
    [item] = documents(events)[-1]["response"]["output"]
    assert item["encrypted_content"] == "sealed:2:hm"


def test_state_without_reasoning_gets_its_own_item() -> None:
    subject = started(seal=lambda states, raw: f"sealed:{len(states)}:{raw}")
    events = subject.feed(ReasoningState("s", "x")) + subject.finish("stop")
    [item] = documents(events)[-1]["response"]["output"]
    assert (item["type"], item["summary"], item["encrypted_content"]) == (
        "reasoning",
        [],
        "sealed:1:",
    )


def test_state_inside_a_message_does_not_split_it() -> None:
    subject = started(seal=lambda states, raw: f"sealed:{len(states)}")
    events = subject.feed(Text("Hel")) + subject.feed(ReasoningState("s", "x"))
    events += subject.feed(Text("lo")) + subject.finish("stop")
    message, reasoning = documents(events)[-1]["response"]["output"]
    assert message["content"][0]["text"] == "Hello"
    assert reasoning["encrypted_content"] == "sealed:1"


def test_state_before_a_call_is_sealed_into_an_item_before_it() -> None:
    subject = started(seal=lambda states, raw: f"sealed:{len(states)}")
    events = subject.feed(Text("Let me see.")) + subject.feed(ReasoningState("s", "x", "tool"))
    events += subject.feed(ToolCall(0, "c1", "look", "{}")) + subject.finish("tool_calls")
    output = documents(events)[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["message", "reasoning", "function_call"]


def test_state_before_reasoning_is_sealed_with_it() -> None:
    subject = started(seal=lambda states, raw: f"sealed:{len(states)}:{raw}")
    events = subject.feed(ReasoningState("s", "x")) + subject.feed(Reasoning("hm"))
    [item] = documents(events + subject.finish("stop"))[-1]["response"]["output"]
    assert item["encrypted_content"] == "sealed:1:hm"


def test_pending_state_of_a_truncated_response_is_dropped() -> None:
    subject = started(seal=lambda states, raw: "sealed")
    events = subject.feed(Text("Hel")) + subject.feed(ReasoningState("s", "x"))
    [message] = documents(events + subject.finish("length"))[-1]["response"]["output"]
    assert message["status"] == "incomplete"


# Looking


def test_a_snapshot_is_always_current() -> None:
    subject = machine()
    assert subject.snapshot.status == "in_progress"
    subject.start()
    subject.feed(Reasoning("a"))
    subject.feed(Text("b"))
    subject.feed(Text("c"))
    [reasoning, message] = msgspec.to_builtins(subject.snapshot)["output"]
    assert (reasoning["status"], message["status"]) == ("completed", "in_progress")
    assert message["content"][0]["text"] == "bc"
    subject.feed(ToolCall(0, "x", "get_weather", "{"))
    assert msgspec.to_builtins(subject.snapshot)["output"][2]["arguments"] == "{"


def test_a_snapshot_shows_no_call_that_was_not_announced() -> None:
    subject = started()
    subject.feed(ToolCall(0, "x", "shell", "{"))
    assert subject.snapshot.output == ()


def test_start_and_extra_deltas_make_no_event() -> None:
    subject = started()
    assert subject.feed(Start("other", "gen-1")) == subject.feed(Extra("x", {"y": 1})) == []


def test_a_tool_end_delta_closes_its_call() -> None:
    subject = started()
    subject.feed(ToolCall(0, "x", "get_weather", "{}"))
    assert types(documents(subject.feed(ToolEnd(0))))[-1] == "output_item.done"


def test_a_phase_label_applies_to_the_next_message_only() -> None:
    subject = machine()
    subject.start()
    deltas: list[Delta] = [ItemEnd("commentary"), Text("a"), ItemEnd(), Text("b")]
    for delta in [*deltas, ItemEnd("x"), Reasoning("c"), ItemEnd(), Text("d")]:
        subject.feed(delta)
    [*_, last] = documents(subject.finish("stop"))
    labels = [item.get("phase") for item in last["response"]["output"]]
    assert labels == ["commentary", None, None, None]


def test_output_that_clients_do_not_get_is_reported_once_for_each_kind() -> None:
    subject = machine()
    subject.start()
    for kind in ("inlineData", "inlineData", "a kind with <b>words</b>"):
        assert subject.feed(Extra(kind, {"data": "secret"}, is_output=True)) == []
    assert subject.feed(Extra("groundingMetadata", {})) == []
    found = [(each.code, each.decision, each.subject) for each in subject.diagnostics]
    assert found == [
        ("output.dropped", "ignored", "inlineData"),
        ("output.dropped", "ignored", "part"),
    ]
    assert "secret" not in subject.diagnostics[0].message


def test_state_that_cannot_be_sealed_is_reported_once() -> None:
    subject = started()
    for value in ("one", "two"):
        assert subject.feed(ReasoningState("signature", value)) == []
    [diagnostic] = subject.diagnostics
    assert (diagnostic.code, diagnostic.subject) == ("state.dropped", "encrypted_content")


# Content blocks as the provider's own format has them

EXTRA = {"format": "f", "members": {"x": 1}}


def output(*deltas: Delta) -> list[Document]:
    events = run([*deltas, Finish("stop")])
    found: list[Document] = events[-1]["response"]["output"]
    return found


def test_a_block_begins_a_part_with_its_members() -> None:
    [item] = output(Text("ab"), BlockStart("text", EXTRA), Text("c"), Text("d"))
    first, second = item["content"]
    assert (first["text"], "extra" in first) == ("ab", False)
    assert (second["text"], second["extra"]) == ("cd", EXTRA)


def test_the_parts_of_a_message_come_one_after_another() -> None:
    call = ToolCall(0, "x", "get_weather")
    deltas = (Text("a"), BlockStart("text", EXTRA), Text("b"), Finish("stop"))
    events = run([*deltas])
    waited = run([call, *deltas, ToolCall(0, arguments="{}")])
    parts = [
        (event["type"].rpartition(".")[2], event["content_index"])
        for event in events
        if "content_index" in event
    ]
    once = [("added", 0), ("delta", 0), ("done", 0), ("done", 0)]
    assert parts == [*once, *((kind, 1) for kind, _ in once)]
    assert [
        (event["type"].rpartition(".")[2], event["content_index"])
        for event in waited
        if "content_index" in event
    ] == parts


def test_a_block_after_another_item_begins_a_message() -> None:
    _, item = output(Reasoning("hm"), BlockStart("text", EXTRA), Text("a"))
    assert item["content"][0]["extra"] == EXTRA


def test_an_annotation_belongs_to_the_last_part() -> None:
    [item] = output(Text("ab"), BlockStart("text", EXTRA), Text("c"), Annotation(CITATION))
    assert [part["annotations"] for part in item["content"]] == [[], [CITATION]]


def test_the_members_of_a_text_may_be_completed() -> None:
    more = {"format": "f", "members": {"x": 1, "y": 2}}
    (item,) = output(BlockStart("text", EXTRA), Text("a"), BlockMembers(more))
    assert item["content"][0]["extra"] == more
    (item, _) = output(Text("a"), Reasoning("hm"), BlockMembers(more))
    assert "extra" not in item["content"][0]


def test_a_call_has_the_members_of_its_block() -> None:
    (item,) = output(BlockStart("call", EXTRA), ToolCall(0, "x", "get_weather", "{}"))
    assert item["extra"] == EXTRA


def test_members_are_never_those_of_another_item() -> None:
    call = ToolCall(0, "x", "get_weather", "{}")
    assert "extra" not in output(BlockStart("text", EXTRA), call)[0]
    (item,) = output(BlockStart("call", EXTRA), Text("a"))
    assert "extra" not in item["content"][0]
    _, item = output(
        BlockStart("text", EXTRA), RawItem({"type": "item", "id": "item_1"}), Text("a")
    )
    assert "extra" not in item["content"][0]


def test_members_of_the_response_are_in_its_end() -> None:
    events = run([Text("a"), ResponseMembers(EXTRA), Finish("stop")])
    assert events[-1]["response"]["extra"] == EXTRA
    assert "extra" not in events[0]["response"]
    assert "extra" not in run([Text("a"), Finish("stop")])[-1]["response"]


def test_members_of_an_earlier_round_are_not_those_of_the_response() -> None:
    subject = started()
    subject.feed(ResponseMembers(EXTRA))
    subject.end_round()
    subject.next_round()
    subject.feed(Text("a"))
    assert "extra" not in documents(subject.finish("stop"))[-1]["response"]
