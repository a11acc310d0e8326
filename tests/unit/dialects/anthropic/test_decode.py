"""Anthropic answers as they are documented, and as others send them: always deltas, in order."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.core.stream.deltas import (
    Annotation,
    Extra,
    Finish,
    Reasoning,
    ReasoningState,
    Refusal,
    Start,
    Text,
    ToolCall,
    ToolEnd,
    Usage,
)
from antiphon.dialects.anthropic.decode import AnthropicDecoder
from antiphon.wire.sse import Frame
from tests.support.dialect_samples.anthropic import (
    Document,
    begin,
    end,
    fed,
    grow,
    stop,
    text,
    whole,
)

STATE = "anthropic.thinking"


def cite(citation: Any) -> Document:
    return grow(type="citations_delta", citation=citation)


# --- text -----------------------------------------------------------------------------------------


def test_a_stream_starts_speaks_and_ends() -> None:
    decoder = AnthropicDecoder()
    message = {"id": "x", "model": "m", "usage": {"input_tokens": 3, "output_tokens": 1}}
    deltas = fed(
        {"type": "message_start", "message": message},
        begin({"type": "text", "text": "a"}),
        {"type": "ping"},
        text("b"),
        end(),
        stop("end_turn", {"output_tokens": 5}),
        decoder=decoder,
    )
    assert deltas == [
        Start("m", "x"),
        Usage(3, 1),
        Text("a"),
        Text("b"),
        Usage(3, 5),
        Finish("end_turn"),
    ]
    stopped = fed({"type": "message_stop"}, decoder=decoder)
    assert stopped == decoder.close() == []
    assert decoder.ended


def test_the_end_marker_of_another_format_ends_a_stream_as_well() -> None:
    decoder = AnthropicDecoder()
    assert fed(b"[DONE]", decoder=decoder) == []
    assert decoder.ended


def test_text_that_nobody_opened_is_read_all_the_same() -> None:
    assert fed(text("a", 3), text("b", 3), text("c", None)) == [Text("a"), Text("b"), Text("c")]


def test_the_name_of_an_event_may_stand_in_its_frame_alone() -> None:
    frame = Frame(json.dumps({"delta": {"type": "text_delta", "text": "a"}}).encode())
    named = Frame(frame.data, "content_block_delta")
    assert AnthropicDecoder().feed(named) == [Text("a")]


def test_a_citation_of_the_web_marks_all_of_its_block() -> None:
    found = {"type": "web_search_result_location", "url": "u", "title": "t"}
    deltas = fed(
        begin({"type": "text", "text": "See: "}),
        end(),
        begin({"type": "text", "text": "", "citations": []}),
        cite(found),
        cite({"type": "page_location", "document_index": 0}),
        cite({"url": "v", "title": None}),
        text("this"),
        end(),
    )
    place = {"type": "url_citation", "start_index": 5, "end_index": 9}
    assert deltas == [
        Text("See: "),
        Text("this"),
        Annotation({"url": "u", "title": "t", **place}),
        Extra("citation", {"type": "page_location", "document_index": 0}),
        Annotation({"url": "v", "title": "", **place}),
    ]


@pytest.mark.parametrize(
    "between",
    [
        {"type": "thinking", "thinking": "hm"},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "tool_use", "id": "a", "name": "f"},
    ],
)
def test_places_are_counted_anew_in_every_message(between: Document) -> None:
    cited = {"type": "text", "text": "b", "citations": [{"url": "u"}]}
    deltas = whole({"type": "text", "text": "aaa"}, between, cited)
    [note] = [delta for delta in deltas if isinstance(delta, Annotation)]
    assert (note.annotation["start_index"], note.annotation["end_index"]) == (0, 1)


# --- thought --------------------------------------------------------------------------------------


def test_a_thought_is_told_and_its_block_kept_as_it_came() -> None:
    block = {"type": "thinking", "thinking": "a", "signature": "", "later": 1}
    deltas = fed(
        begin(block),
        grow(type="thinking_delta", thinking="b"),
        grow(type="signature_delta", signature="s1"),
        end(),
    )
    kept = {"type": "thinking", "thinking": "ab", "signature": "s1", "later": 1}
    assert deltas == [
        Reasoning("a", part=1),
        Reasoning("b", part=1),
        ReasoningState(STATE, kept, "block"),
    ]
    [*_, state] = deltas
    assert isinstance(state, ReasoningState)
    assert list(state.value) == list(block)  # in its order, too


def test_a_thought_that_is_not_shown_is_state_alone() -> None:
    block = {"type": "thinking", "thinking": "", "signature": ""}
    signature = grow(type="signature_delta", signature="s")
    [state] = fed(begin(block), grow(type="thinking_delta", thinking=""), signature, end())
    assert state == ReasoningState(STATE, block | {"signature": "s"}, "block")


def test_a_thought_that_was_never_signed_is_not_kept() -> None:
    block = {"type": "thinking", "thinking": "a", "signature": ""}
    assert fed(begin(block), end()) == [Reasoning("a", part=1)]
    assert fed(begin({"type": "thinking"}), end()) == []


def test_a_thought_of_one_who_does_not_sign_goes_back_as_it_came() -> None:
    block = {"type": "thinking", "thinking": "a"}
    assert whole(block) == [Reasoning("a", part=1), ReasoningState(STATE, block, "block")]


def test_thoughts_that_follow_each_other_are_parts() -> None:
    deltas = whole({"type": "thinking", "thinking": "a"}, {"type": "thinking", "thinking": "b"})
    told = [delta for delta in deltas if isinstance(delta, Reasoning)]
    assert told == [Reasoning("a", part=1), Reasoning("b", part=2)]


def test_a_redacted_thought_is_whole_from_the_start() -> None:
    block = {"type": "redacted_thinking", "data": "d"}
    kept = ReasoningState("anthropic.redacted_thinking", block, "block")
    assert fed(begin(block)) == [kept]
    assert whole(block) == [kept]


def test_a_signature_that_nobody_opened_belongs_to_a_thought() -> None:
    deltas = fed(grow(type="signature_delta", signature="s"), end())
    kept = {"type": "thinking", "thinking": "", "signature": "s"}
    assert deltas == [ReasoningState(STATE, kept, "block")]


# --- calls ----------------------------------------------------------------------------------------


def arguments(fragment: str, index: int = 0) -> Document:
    return grow(index, type="input_json_delta", partial_json=fragment)


def test_calls_are_written_in_pieces_one_after_the_other() -> None:
    deltas = fed(
        begin({"type": "text", "text": "a"}),
        end(),
        begin({"type": "tool_use", "id": "x", "name": "f", "input": {}}, 1),
        arguments("", 1),
        arguments('{"a"', 1),
        arguments(": 1}", 1),
        end(1),
        begin({"type": "tool_use", "id": "y", "name": "g", "input": {}}, 2),
        end(2),
    )
    assert deltas == [
        Text("a"),
        ToolCall(0, "x", "f"),
        ToolCall(0, arguments='{"a"'),
        ToolCall(0, arguments=": 1}"),
        ToolEnd(0),
        ToolCall(1, "y", "g"),
        ToolCall(1, arguments="{}"),
        ToolEnd(1),
    ]


def test_arguments_that_come_at_once_are_kept_as_they_were_written() -> None:
    block = b'{"type":"tool_use","id":"x","name":"f","input":{"n": 1.0e2}}'
    data = b'{"type":"content_block_start","content_block":%b}' % block
    assert fed(data, end(None)) == [
        ToolCall(0, "x", "f"),
        ToolCall(0, arguments='{"n": 1.0e2}'),
        ToolEnd(0),
    ]


@pytest.mark.parametrize("block", [{"input": None}, {}])
def test_a_call_without_an_input_has_no_arguments(block: Document) -> None:
    deltas = whole({"type": "tool_use", "id": 5, **block})
    assert deltas == [ToolCall(0), ToolCall(0, arguments="{}"), ToolEnd(0)]


def test_what_was_left_open_has_ended_when_its_place_is_taken_or_the_answer_stops() -> None:
    opened = {"type": "tool_use", "id": "x", "name": "f"}
    deltas = fed(begin(opened), begin(opened | {"id": "y"}), stop(None), stop("tool_use"))
    assert deltas == [
        ToolCall(0, "x", "f"),
        ToolCall(0, arguments="{}"),
        ToolEnd(0),
        ToolCall(1, "y", "f"),
        ToolCall(1, arguments="{}"),
        ToolEnd(1),
        Finish("tool_use"),
    ]


@pytest.mark.parametrize("kind", ["server_tool_use", "mcp_tool_use", "web_search_tool_result"])
def test_what_the_server_does_for_itself_is_no_call(kind: str) -> None:
    block = {"type": kind, "id": "x", "name": "f", "input": {}}
    deltas = fed(begin(block), arguments("{"), end())
    written = {"type": "input_json_delta", "partial_json": "{"}
    assert deltas == [Extra(kind, block), Extra("input_json_delta", written)]
    assert whole(block) == [Extra(kind, block)]


# --- numbers and reasons --------------------------------------------------------------------------


def test_what_the_cache_held_counts_as_input() -> None:
    usage = {
        "input_tokens": 1,
        "cache_read_input_tokens": 10,
        "cache_creation_input_tokens": 100,
        "output_tokens": 7,
        "output_tokens_details": {"thinking_tokens": 5},
    }
    assert whole(usage=usage) == [
        Usage(111, 7, cached_tokens=10, cache_write_tokens=100, reasoning_tokens=5)
    ]


def test_later_counts_replace_earlier_ones_and_missing_ones_do_not() -> None:
    first = {"input_tokens": 5, "cache_read_input_tokens": 2, "output_tokens": 1}
    later = {"input_tokens": 6, "cache_read_input_tokens": None, "output_tokens": 9}
    details = {"output_tokens_details": {"thinking_tokens": 4}}
    deltas = fed(
        {"type": "message_start", "message": {"usage": first | details}},
        stop(None, later | {"output_tokens_details": {"thinking_tokens": "x"}}),
    )
    assert deltas[1:] == [
        Usage(7, 1, cached_tokens=2, reasoning_tokens=4),
        Usage(8, 9, cached_tokens=2, reasoning_tokens=4),
    ]


def test_a_refusal_says_why_if_it_does() -> None:
    details = {"type": "refusal", "category": "bio", "explanation": "No."}
    assert whole({"type": "text", "text": "Well"}, stop_reason="refusal", stop_details=details) == [
        Text("Well"),
        Refusal("No."),
        Extra("stop_details", details),
        Finish("refusal"),
    ]
    silent = details | {"explanation": None}
    assert fed(stop("refusal", stop_details=silent)) == [
        Extra("stop_details", silent),
        Finish("refusal"),
    ]


def test_what_an_answer_leaves_behind_is_for_the_trace() -> None:
    assert fed(stop("end_turn", container={"id": "c"})) == [
        Extra("container", {"id": "c"}),
        Finish("end_turn"),
    ]
