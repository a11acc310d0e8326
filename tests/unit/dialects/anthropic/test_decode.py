"""Anthropic Messages decoder: documented events, and the variants of other servers."""

from __future__ import annotations

import json

import pytest

from antiphon.core.deltas import (
    Annotation,
    Extra,
    Finish,
    Refusal,
    Start,
    Text,
    ToolCall,
    ToolEnd,
    Usage,
)
from antiphon.dialects.anthropic.decode import AnthropicDecoder
from antiphon.framing.sse import Frame
from tests.support.dialect_samples.anthropic import (
    Document,
    begin,
    end,
    fed,
    stop,
    text,
    whole,
)


def test_a_stream_has_a_start_text_usage_and_an_end() -> None:
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


def test_a_message_may_come_whole_in_its_start() -> None:
    decoder = AnthropicDecoder()
    content = [
        {"type": "text", "text": "a"},
        {"type": "tool_use", "id": "c", "name": "f", "input": {"n": 1.0}},
    ]
    message = {"content": content, "stop_reason": "tool_use", "stop_sequence": None}
    deltas = fed(
        {"type": "message_start", "message": message}, {"type": "message_stop"}, decoder=decoder
    )
    assert deltas == [
        Start(None, None),
        Text("a"),
        ToolCall(0, "c", "f"),
        ToolCall(0, arguments='{"n":1.0}'),
        ToolEnd(0),
        Finish("tool_use"),
    ]
    assert decoder.ended


def test_a_done_marker_ends_the_stream() -> None:
    decoder = AnthropicDecoder()
    assert fed(b"[DONE]", decoder=decoder) == []
    assert decoder.ended


def test_text_without_a_block_start_is_decoded() -> None:
    assert fed(text("a", 3), text("b", 3), text("c", None)) == [Text("a"), Text("b"), Text("c")]


def test_the_event_type_may_come_from_the_frame_only() -> None:
    frame = Frame(json.dumps({"delta": {"type": "text_delta", "text": "a"}}).encode())
    named = Frame(frame.data, "content_block_delta")
    assert AnthropicDecoder().feed(named) == [Text("a")]


@pytest.mark.parametrize(
    "between",
    [
        {"type": "thinking", "thinking": "hm"},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "tool_use", "id": "a", "name": "f"},
    ],
)
def test_citation_indexes_restart_in_every_message(between: Document) -> None:
    cited = {"type": "text", "text": "b", "citations": [{"url": "u"}]}
    deltas = whole({"type": "text", "text": "aaa"}, between, cited)
    [note] = [delta for delta in deltas if isinstance(delta, Annotation)]
    assert (note.annotation["start_index"], note.annotation["end_index"]) == (0, 1)


# --- calls ----------------------------------------------------------------------------------------


def test_an_open_block_closes_when_its_index_is_reused_or_the_answer_finishes() -> None:
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


def test_a_refusal_has_its_explanation() -> None:
    details = {"type": "refusal", "category": "bio", "explanation": "No."}
    assert whole({"type": "text", "text": "Well"}, stop_reason="refusal", stop_details=details) == [
        Text("Well"),
        Refusal("No."),
        Extra("stop_details", details),
        Finish("refusal"),
    ]
    silent = details | {"explanation": None}
    assert fed(stop("refusal", stop_details=silent)) == [
        Refusal("The model refused to respond."),
        Extra("stop_details", silent),
        Finish("refusal"),
    ]


def test_a_refusal_without_an_explanation_is_one_all_the_same() -> None:
    """The API has none for some categories, and older versions had none at all."""
    assert fed(stop("refusal")) == [Refusal("The model refused to respond."), Finish("refusal")]


def test_the_container_is_an_extra() -> None:
    assert fed(stop("end_turn", container={"id": "c"})) == [
        Extra("container", {"id": "c"}),
        Finish("end_turn"),
    ]


# --- the end --------------------------------------------------------------------------------------

USE = {"type": "tool_use", "id": "a", "name": "f", "input": {}}


def test_a_call_that_the_limit_cut_off_is_not_complete() -> None:
    opened = ToolCall(0, "a", "f")
    assert fed(begin(USE), stop("max_tokens")) == [
        opened,
        ToolEnd(0, complete=False),
        Finish("max_tokens"),
    ]
    text_block = begin({"type": "text", "text": "x"})
    assert fed(text_block, stop("max_tokens")) == [Text("x"), Finish("max_tokens")]
    assert fed(begin(USE), stop("tool_use"))[1:] == [
        ToolCall(0, arguments="{}"),
        ToolEnd(0),
        Finish("tool_use"),
    ]


def test_the_stop_sequence_that_matched_is_named() -> None:
    ended = {"stop_reason": "stop_sequence", "stop_sequence": "END"}
    assert fed({"type": "message_delta", "delta": ended}) == [Finish("stop_sequence", "END")]
    assert whole(**ended)[-1] == Finish("stop_sequence", "END")


def test_a_content_filter_is_told_from_a_refusal_of_the_model() -> None:
    details = {"type": "refusal", "explanation": None, "reason": "content_filter"}
    ended = {"stop_reason": "refusal", "stop_details": details}
    deltas = fed({"type": "message_delta", "delta": ended})
    assert deltas[-1] == Finish("content_filter")
