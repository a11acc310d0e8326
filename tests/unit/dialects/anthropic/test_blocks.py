"""Content blocks of an Anthropic answer: text with citations, reasoning, calls."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.core.deltas import (
    Annotation,
    Extra,
    Reasoning,
    ReasoningState,
    Text,
    ToolCall,
    ToolEnd,
)
from tests.support.dialect_samples.anthropic import (
    Document,
    begin,
    end,
    fed,
    grow,
    text,
    whole,
)

STATE = "anthropic.thinking"


def cite(citation: Any) -> Document:
    return grow(type="citations_delta", citation=citation)


def test_a_web_citation_covers_its_whole_block() -> None:
    found = {"type": "web_search_result_location", "url": "u", "title": "t"}
    deltas = fed(
        begin({"type": "text", "text": "See: "}),
        end(),
        begin({"type": "text", "text": "", "citations": []}),
        cite(found),
        cite({"type": "search_result_location", "search_result_index": 0}),
        cite({"url": "v", "title": None}),
        text("this"),
        end(),
    )
    place = {"type": "url_citation", "start_index": 5, "end_index": 9}
    assert deltas == [
        Text("See: "),
        Text("this"),
        Annotation({"url": "u", "title": "t", **place}),
        Extra("citation", {"type": "search_result_location", "search_result_index": 0}),
        Annotation({"url": "v", "title": "", **place}),
    ]


EMPTY = {"type": "text", "text": ""}


def test_a_citation_of_our_own_renderer_names_its_place() -> None:
    found = {"url": "u", "title": "t", "start_index": 0, "end_index": 2}
    deltas = fed(
        begin({"type": "text", "text": "See: "}),
        end(),
        begin(EMPTY),
        text("this"),
        cite(found),
        end(),
    )
    place = {"type": "url_citation", "start_index": 5, "end_index": 7}
    assert deltas[-1] == Annotation({"url": "u", "title": "t", **place})


def test_a_citation_of_a_document_is_one_of_a_file() -> None:
    found = {"type": "page_location", "document_index": 0, "document_title": "t", "cited_text": "c"}
    assert fed(begin(EMPTY), text("this"), cite(found), end())[-1] == Annotation(
        {"type": "file_citation", "file_id": "", "filename": "t", "index": 4, "citation": found}
    )


def test_a_thinking_block_gives_reasoning_and_whole_state() -> None:
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


def test_omitted_thinking_gives_state_only() -> None:
    block = {"type": "thinking", "thinking": "", "signature": ""}
    signature = grow(type="signature_delta", signature="s")
    [state] = fed(begin(block), grow(type="thinking_delta", thinking=""), signature, end())
    assert state == ReasoningState(STATE, block | {"signature": "s"}, "block")


def test_a_blank_signature_gives_no_state() -> None:
    block = {"type": "thinking", "thinking": "a", "signature": ""}
    assert fed(begin(block), end()) == [Reasoning("a", part=1)]
    assert fed(begin({"type": "thinking"}), end()) == []


def test_thinking_without_a_signature_member_gives_state() -> None:
    block = {"type": "thinking", "thinking": "a"}
    assert whole(block) == [Reasoning("a", part=1), ReasoningState(STATE, block, "block")]


def test_consecutive_thinking_blocks_are_separate_parts() -> None:
    deltas = whole({"type": "thinking", "thinking": "a"}, {"type": "thinking", "thinking": "b"})
    reasoning = [delta for delta in deltas if isinstance(delta, Reasoning)]
    assert reasoning == [Reasoning("a", part=1), Reasoning("b", part=2)]


@pytest.mark.parametrize("kind", ["tool_use", "thinking"])
def test_text_within_another_block_is_text(kind: str) -> None:
    """SGLang until May 2026: sgl-project/sglang issue 24293."""
    opened = {"type": kind, "id": "x", "name": "f"}
    deltas = fed(begin(opened), text("a"), text(""), end())
    assert [delta for delta in deltas if isinstance(delta, Text)] == [Text("a")]
    assert not any(isinstance(delta, Extra) for delta in deltas)


def test_thinking_within_another_block_is_reasoning() -> None:
    thought = grow(type="thinking_delta", thinking="a")
    assert fed(begin(EMPTY), thought, text("b"), end()) == [Reasoning("a"), Text("b")]


def test_redacted_thinking_is_complete_when_opened() -> None:
    block = {"type": "redacted_thinking", "data": "d"}
    kept = ReasoningState("anthropic.redacted_thinking", block, "block")
    assert fed(begin(block)) == [kept]
    assert whole(block) == [kept]


def test_a_signature_without_a_block_start_opens_a_thinking_block() -> None:
    deltas = fed(grow(type="signature_delta", signature="s"), end())
    kept = {"type": "thinking", "thinking": "", "signature": "s"}
    assert deltas == [ReasoningState(STATE, kept, "block")]


def arguments(fragment: str, index: int = 0) -> Document:
    return grow(index, type="input_json_delta", partial_json=fragment)


def test_calls_stream_their_arguments_one_after_the_other() -> None:
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


def test_arguments_in_the_block_start_keep_their_bytes() -> None:
    block = b'{"type":"tool_use","id":"x","name":"f","input":{"n": 1.0e2}}'
    data = b'{"type":"content_block_start","content_block":%b}' % block
    assert fed(data, end(None)) == [
        ToolCall(0, "x", "f"),
        ToolCall(0, arguments='{"n": 1.0e2}'),
        ToolEnd(0),
    ]


@pytest.mark.parametrize("block", [{"input": None}, {}])
def test_a_call_without_input_has_an_empty_object(block: Document) -> None:
    deltas = whole({"type": "tool_use", "id": 5, **block})
    assert deltas == [ToolCall(0), ToolCall(0, arguments="{}"), ToolEnd(0)]


def test_the_mark_of_another_model_that_continues_is_no_lost_output() -> None:
    """The beta of fallback models (2026) puts one between the blocks of both models."""
    block = {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}}
    assert whole(block) == [Extra("fallback", block)]


@pytest.mark.parametrize("kind", ["server_tool_use", "mcp_tool_use", "web_search_tool_result"])
def test_a_tool_run_by_the_server_is_not_a_call(kind: str) -> None:
    block = {"type": kind, "id": "x", "name": "f", "input": {}}
    deltas = fed(begin(block), arguments("{"), end())
    written = {"type": "input_json_delta", "partial_json": "{"}
    # What a search has found is in the citations; of other tools nothing is left.
    found = Extra(kind, block, is_output=kind == "mcp_tool_use")
    assert deltas == [found, Extra("input_json_delta", written)]
    assert whole(block) == [found]
