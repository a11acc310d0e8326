"""Anthropic Messages decoder: documented events, and the variants of other servers."""

from __future__ import annotations

import json

import pytest

from antiphon.core.stream.deltas import (
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
from antiphon.wire.sse import Frame
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
        Extra("stop_details", silent),
        Finish("refusal"),
    ]


def test_the_container_is_an_extra() -> None:
    assert fed(stop("end_turn", container={"id": "c"})) == [
        Extra("container", {"id": "c"}),
        Finish("end_turn"),
    ]
