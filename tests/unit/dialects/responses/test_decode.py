"""Decoding of streams of Responses servers: everything is emitted once and in order."""

from __future__ import annotations

import pytest

from antiphon.core.deltas import (
    Annotation,
    Delta,
    EmptyReasoning,
    Extra,
    Finish,
    ItemEnd,
    RawItem,
    RawItemEvent,
    RawItemStarted,
    Reasoning,
    ReasoningState,
    Refusal,
    Start,
    Text,
    ToolCall,
    ToolEnd,
)
from antiphon.dialects.responses.decode import ResponsesDecoder
from antiphon.framing.sse import Frame
from tests.support.dialect_samples.responses import (
    Document,
    added,
    done,
    ended,
    event,
    feed,
    message,
    reasoning,
    text,
)
from tests.support.tables import table

CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look"}
LOGPROB = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}


# Deltas


def test_the_model_is_emitted_once() -> None:
    response = {"id": "resp_1", "model": "gpt", "status": "in_progress", "output": []}
    events = [event(kind, response=response) for kind in ("created", "queued", "in_progress")]
    assert feed(*events) == [Start("gpt", "resp_1")]


@table(
    ("kind", "fields", "expected"),
    [
        ("output_text.delta", {}, Text("a")),
        ("refusal.delta", {}, Refusal("a")),
        ("reasoning_text.delta", {"content_index": 2}, Reasoning("a", "raw", 2)),
        ("reasoning.delta", {}, Reasoning("a")),
        ("reasoning_summary_text.delta", {"summary_index": 1}, Reasoning("a", "summary", 1)),
        ("function_call_arguments.delta", {}, ToolCall(0, arguments="a")),
        ("custom_tool_call_input.delta", {}, ToolCall(0, arguments="a", kind="custom")),
    ],
)
def test_every_kind_of_delta_is_decoded(kind: str, fields: Document, expected: Delta) -> None:
    assert feed(event(kind, item_id="x", output_index=0, delta="a", **fields)) == [expected]


@pytest.mark.parametrize("delta", ["", None, 5, {"stdout": "a"}])
def test_an_empty_or_malformed_delta_is_ignored(delta: object) -> None:
    assert feed(event("output_text.delta", output_index=0, delta=delta)) == []


def test_the_event_type_may_be_in_the_frame_only() -> None:
    frame = Frame(b'{"delta":"a"}', "response.output_text.delta")
    assert ResponsesDecoder().feed(frame) == [Text("a")]


def test_logprobs_come_with_their_text_and_are_completed() -> None:
    deltas = feed(text("a", logprobs=[{"token": "a", "logprob": -0.5}]))
    assert deltas == [Text("a", (LOGPROB,))]


def test_a_citation_is_completed_with_required_fields() -> None:
    cited = event(
        "output_text.annotation.added", output_index=0, annotation={"type": "url_citation"}
    )
    odd = event("output_text.annotation.added", output_index=0, annotation="odd")
    file = {"type": "file_citation", "file_id": "f"}
    assert feed(text("a"), cited, odd, {**cited, "annotation": file}) == [
        Text("a"),
        Annotation({"type": "url_citation", "title": "", "start_index": 0, "end_index": 0}),
        Annotation(file),
    ]


def test_a_message_keeps_its_phase() -> None:
    early = {"type": "message", "id": "msg_1", "phase": "commentary"}
    late = message("b", id="msg_2", phase="final_answer")
    deltas = feed(added(0, **early), text("a"), done(0, **message("a", **early)), done(1, **late))
    assert deltas == [ItemEnd("commentary"), Text("a"), ItemEnd("final_answer"), Text("b")]
    assert feed(added(0, **early), done(0, **message("a", id="msg_1"))) == [
        ItemEnd("commentary"),
        Text("a"),
    ]


@pytest.mark.parametrize("phase", [None, "", 5])
def test_an_invalid_phase_is_ignored(phase: object) -> None:
    assert feed(added(0, type="message", id="msg_1", phase=phase), text("a")) == [Text("a")]


def test_reasoning_and_calls_have_no_phase() -> None:
    thought = reasoning(id="rs_1", phase="commentary", content=[{"text": "hm"}])
    assert feed(done(0, **thought)) == [Reasoning("hm")]
    assert feed(added(0, **CALL, phase="commentary")) == [ToolCall(0, "call_1", "look")]


def test_a_streamed_call_is_started_written_and_ended() -> None:
    deltas = feed(
        added(0, **CALL, arguments=""),
        event("function_call_arguments.delta", item_id="fc_1", output_index=0, delta='{"a"'),
        event("function_call_arguments.delta", item_id="fc_1", output_index=0, delta=":1}"),
        event("function_call_arguments.done", item_id="fc_1", arguments='{"a":1}'),
        done(0, **CALL, arguments='{"a":1}', status="completed"),
    )
    assert deltas == [
        ToolCall(0, "call_1", "look"),
        ToolCall(0, arguments='{"a"'),
        ToolCall(0, arguments=":1}"),
        ToolEnd(0),
    ]


def test_an_incomplete_call_ends_as_incomplete() -> None:
    assert feed(done(0, **CALL, arguments="{", status="incomplete"))[-1] == ToolEnd(0, False)


def test_a_custom_tool_call_keeps_its_input() -> None:
    item = CALL | {"type": "custom_tool_call", "id": "ctc_1", "input": "ls"}
    assert feed(done(0, **item)) == [
        ToolCall(0, "call_1", "look", kind="custom"),
        ToolCall(0, arguments="ls", kind="custom"),
        ToolEnd(0),
    ]


def test_a_namespace_does_not_change_the_name() -> None:
    assert feed(added(0, **CALL, namespace="box"))[0] == ToolCall(0, "call_1", "look")


@pytest.mark.parametrize(
    ("arguments", "text"), [({"a": 1}, '{"a":1}'), ([], "[]"), (None, ""), ("", "")]
)
def test_arguments_sent_as_json_values_are_serialized(arguments: object, text: str) -> None:
    deltas = feed(done(0, **CALL, arguments=arguments))
    written = [delta for delta in deltas if isinstance(delta, ToolCall) and delta.arguments]
    assert written == ([ToolCall(0, arguments=text)] if text else [])


@pytest.mark.parametrize("name", [None, "", 5])
def test_a_call_without_a_name_becomes_an_extra(name: object) -> None:
    item = CALL | {"name": name, "call_id": None, "arguments": ""}
    assert feed(done(0, **item)) == [Extra("call", item)]


def test_calls_of_server_tools_are_hidden_from_the_client() -> None:
    item = {"type": "custom_tool_call", "id": "ctc_1", "name": "x_search", "input": "{}"}
    deltas = feed(
        added(0, **item),
        event("custom_tool_call_input.delta", item_id="ctc_1", output_index=0, delta="{}"),
        done(0, **item),
        server_tools=frozenset({"x_search"}),
    )
    assert deltas == [Extra("call", item)]


SEARCH = {**CALL, "name": "search_web", "arguments": '{"q":"a"}', "status": "completed"}


def test_a_search_that_is_announced_as_a_call_is_none_for_the_client() -> None:
    found = {"type": "search_results", "results": []}
    assert feed(added(0, **SEARCH), done(0, **found)) == [RawItem(found)]


def test_a_call_that_begins_as_completed_is_started_when_it_is_done() -> None:
    assert feed(added(0, **SEARCH)) == []
    assert feed(added(0, **SEARCH), done(0, **SEARCH)) == [
        ToolCall(0, "call_1", "search_web"),
        ToolCall(0, arguments='{"q":"a"}'),
        ToolEnd(0),
    ]


def test_a_call_that_begins_as_completed_is_started_by_its_arguments() -> None:
    """Not every server says again that an item is done."""
    kind = "function_call_arguments.delta"
    pieces = (event(kind, item_id="fc_1", output_index=0, delta=piece) for piece in "{}")
    assert feed(added(0, **CALL, status="completed"), *pieces) == [
        ToolCall(0, "call_1", "look"),
        ToolCall(0, arguments="{"),
        ToolCall(0, arguments="}"),
    ]


# Whole items, emitted once


@table(
    ("item", "expected"),
    [
        (message("a", "b"), [Text("a"), Text("b")]),
        (message(), []),
        ({"type": "message", "content": "a"}, [Text("a")]),
        ({"type": "message", "content": ["a", 5]}, [Text("a")]),
        ({"type": "message", "content": [{"type": "text", "text": "a"}]}, [Text("a")]),
        ({"type": "message", "content": [{"type": "refusal", "refusal": "a"}]}, [Refusal("a")]),
        (
            {"type": "message", "content": [{"type": "image"}]},
            [Extra("content_part", {"type": "image"})],
        ),
        (
            message("a", role="user"),
            [Extra("message", message("a", role="user"))],
        ),
        (
            reasoning(summary=[{"text": "a"}, "b"], content=[{"text": "c"}, {"text": None}]),
            [Reasoning("a", "summary"), Reasoning("b", "summary", 1), Reasoning("c")],
        ),
        (reasoning(encrypted_content=""), [EmptyReasoning()]),
        ({"type": "compaction", "id": "cmp_1"}, [RawItem({"type": "compaction", "id": "cmp_1"})]),
        ({"id": "x"}, [Extra("item", {"id": "x"})]),
    ],
)
def test_an_item_without_deltas_is_emitted_when_done(item: Document, expected: list[Delta]) -> None:
    assert feed(done(0, **item)) == expected
    assert feed(ended(output=[item]))[1:-1] == expected


def test_a_whole_message_has_its_citations_and_logprobs() -> None:
    file = {"type": "file_citation", "file_id": "f"}
    part = {"type": "output_text", "text": "a", "annotations": [file], "logprobs": [LOGPROB]}
    deltas = feed(done(0, type="message", content=[part]))
    assert deltas == [Text("a", (LOGPROB,)), Annotation(file)]


def test_repeated_content_is_emitted_once() -> None:
    item = message("ab", id="msg_1")
    deltas = feed(
        added(0, type="message", id="msg_1", content=[]),
        text("a"),
        text("b"),
        event("output_text.done", item_id="msg_1", output_index=0, content_index=0, text="ab"),
        event("content_part.done", item_id="msg_1", output_index=0, part=item["content"][0]),
        done(0, **item),
        ended(output=[item]),
    )
    assert deltas == [Text("a"), Text("b"), Start(), Finish("completed")]


@pytest.mark.parametrize(
    "late",
    [
        event("output_text.done", item_id="msg_1", output_index=0, content_index=0, text="abc"),
        done(0, **message("abc", id="msg_1")),
        ended(output=[message("abc", id="msg_1")]),
    ],
    ids=["part", "item", "response"],
)
def test_text_missing_in_the_deltas_is_emitted_later(late: Document) -> None:
    deltas = [delta for delta in feed(text("a"), late) if isinstance(delta, Text)]
    assert deltas == [Text("a"), Text("bc")]


@pytest.mark.parametrize("whole", [None, 5])
def test_a_finished_part_without_text_adds_nothing(whole: object) -> None:
    assert feed(event("output_text.done", output_index=0, text=whole)) == []


def test_emitted_text_stands_if_the_final_text_differs() -> None:
    events = [text("ab"), done(0, **message("axc", id="msg_1"))]
    assert feed(*events) == [Text("ab")]
    last = event("output_text.done", item_id="msg_1", content_index=0, text="axc")
    assert feed(text("ab"), last) == [Text("ab")]


def test_each_part_of_a_summary_is_emitted_once() -> None:
    index = {"item_id": "rs_1", "output_index": 0}
    parts = [{"type": "summary_text", "text": text} for text in ("one", "two")]
    deltas = feed(
        event("reasoning_summary_text.delta", **index, summary_index=0, delta="one"),
        event("reasoning_summary_text.done", **index, summary_index=0, text="one"),
        event("reasoning_summary_text.done", **index, summary_index=1, text="two"),
        done(0, **reasoning(id="rs_1", summary=parts)),
    )
    assert deltas == [Reasoning("one", "summary"), Reasoning("two", "summary", 1)]


def test_streamed_citations_are_not_repeated() -> None:
    files = [{"type": "file_citation", "file_id": name} for name in "abc"]
    item = message("x", id="msg_1")
    item["content"][0]["annotations"] = files
    deltas = feed(
        text("x"),
        event("output_text.annotation.added", item_id="msg_1", annotation=files[0]),
        done(0, **item),
    )
    assert deltas == [Text("x"), *map(Annotation, files)]


def test_a_repeated_call_is_emitted_once() -> None:
    item = CALL | {"arguments": "{}"}
    deltas = feed(added(0, **item), done(0, **item), done(0, **item), ended(output=[item]))
    assert deltas[:3] == [ToolCall(0, "call_1", "look"), ToolCall(0, arguments="{}"), ToolEnd(0)]
    assert deltas[3:] == [Start(), Finish("completed")]


# State


def test_encrypted_reasoning_becomes_state() -> None:
    item = reasoning(id="rs_1", encrypted_content="gAAA", format="v1", status="completed")
    state = {"id": "rs_1", "summary": [], "encrypted_content": "gAAA", "format": "v1"}
    assert feed(
        added(0, **item | {"encrypted_content": "too early"}),
        done(0, **item),
        ended(output=[item | {"encrypted_content": "the same, sealed anew"}]),
    ) == [
        EmptyReasoning(),
        ReasoningState("openai.encrypted_content", state, "block"),
        Start(),
        Finish("completed"),
    ]


def test_reasoning_state_does_not_contain_the_plain_text() -> None:
    item = reasoning(content=[{"text": "hm"}], encrypted_content="x")
    thought, state = feed(done(0, **item))
    assert thought == Reasoning("hm")
    assert isinstance(state, ReasoningState)
    assert state.value == {"summary": [], "encrypted_content": "x"}


# Raw items


def test_an_item_of_another_kind_is_passed_on_with_its_progress() -> None:
    item = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {}}
    place = {"output_index": 0, "item_id": "ws_1"}
    deltas = feed(
        added(0, **item | {"status": "in_progress"}),
        event("web_search_call.in_progress", sequence_number=3, **place),
        event("web_search_call.searching", obfuscation="xyz", **place),
        event("web_search_call.completed", **place),
        done(0, **item),
    )
    stages = ("in_progress", "searching", "completed")
    assert deltas == [
        RawItemStarted(0, item | {"status": "in_progress"}),
        *(RawItemEvent(0, f"response.web_search_call.{stage}", place) for stage in stages),
        RawItem(item, 0),
    ]


@pytest.mark.parametrize(
    "place",
    [
        {"item_id": "ws_1"},
        {"output_index": 0},
        {"item_id": "changed", "output_index": 0},
        {"item_id": 5, "output_index": 0},
    ],
)
def test_the_item_of_an_event_is_found_by_its_id_or_its_index(place: Document) -> None:
    item = {"type": "web_search_call", "id": "ws_1"}
    deltas = feed(added(0, **item), event("web_search_call.searching", **place))
    assert deltas[1:] == [RawItemEvent(0, "response.web_search_call.searching", place)]


@pytest.mark.parametrize(
    "progress",
    [
        event("web_search_call.searching", item_id="ws_2", output_index=4),
        event("web_search_call.searching", item_id="ws_2", output_index="0"),
        event("web_search_call.searching", item_id="msg_1"),
        event("web_search_call.searching", item_id="ws_done"),
        event("web search\nevent: response.completed", item_id="ws_1"),
    ],
)
def test_an_event_of_no_open_item_is_only_noted(progress: Document) -> None:
    search = {"type": "web_search_call"}
    deltas = feed(
        added(0, **search, id="ws_1"),
        added(1, type="message", id="msg_1"),
        added(2, **search, id="ws_done"),
        done(2, **search, id="ws_done"),
        progress,
    )
    assert deltas[-1] == Extra(progress["type"])


def test_a_raw_item_that_is_announced_twice_is_started_once() -> None:
    item = {"type": "web_search_call", "id": "ws_1"}
    deltas = feed(added(0, **item), added(0, **item), ended(output=[item]))
    assert deltas[:1] == [RawItemStarted(0, item)]
    assert [type(delta) for delta in deltas[1:]] == [Start, RawItem, Finish]


def test_a_repeated_id_of_a_raw_item_is_dropped() -> None:
    item = {"type": "web_search_call", "id": "ws_1"}
    deltas = feed(added(0, **item), done(0, **item), ended(output=[item, item]))
    assert deltas[:2] == [RawItemStarted(0, item), RawItem(item, 0)]
    twin = {"type": "web_search_call"}
    assert feed(done(0, **twin), done(1, **twin)) == [RawItem(twin), RawItem(twin)]
    other = {"type": "file_search_call"}
    assert feed(done(0, **item), done(1, **other, id="ws_1")) == [RawItem(item), RawItem(other)]
