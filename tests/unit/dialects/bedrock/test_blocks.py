"""Content blocks of a Converse answer: text with citations, reasoning, calls."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.core.deltas import (
    Annotation,
    Delta,
    Extra,
    Reasoning,
    ReasoningState,
    Text,
    ToolCall,
    ToolEnd,
)
from antiphon.dialects.bedrock.decode import BedrockDecoder
from antiphon.framing.sse import Frame
from tests.support.tables import table

Document = dict[str, Any]

SIGNED = {"reasoningContent": {"reasoningText": {"text": "hmm", "signature": "c2ln"}}}

REDACTED = {"reasoningContent": {"redactedContent": "c2VjcmV0"}}


def delta(index: int, content: Any) -> tuple[str, Document]:
    return "contentBlockDelta", {"contentBlockIndex": index, "delta": content, "p": "abc"}


def start(index: int, content: Any) -> tuple[str, Document]:
    return "contentBlockStart", {"contentBlockIndex": index, "start": content}


def stop(index: int) -> tuple[str, Document]:
    return "contentBlockStop", {"contentBlockIndex": index}


def thought(index: int, **content: str) -> tuple[str, Document]:
    return delta(index, {"reasoningContent": content})


def read(*events: tuple[str, Any]) -> list[Delta]:
    decoder = BedrockDecoder()
    frames = [Frame(json.dumps(document).encode(), name) for name, document in events]
    return [found for frame in frames for found in decoder.feed(frame)] + decoder.close()


def cited(url: str, begin: int, end: int, title: str = "") -> Annotation:
    return Annotation(
        {
            "type": "url_citation",
            "url": url,
            "title": title,
            "start_index": begin,
            "end_index": end,
        }
    )


def test_a_web_citation_covers_its_whole_block() -> None:
    web = {"location": {"web": {"url": "https://a.test", "domain": "a.test"}}}
    titled = {"location": {"web": {"url": "https://b.test"}}, "title": "B"}
    found = read(
        delta(0, {"text": "abc"}),
        stop(0),
        delta(1, {"citation": titled}),
        delta(1, {"text": "de"}),
        stop(1),
        delta(2, {"citation": web}),
        stop(2),
    )
    assert found == [
        Text("abc"),
        Text("de"),
        cited("https://b.test", 3, 5, "B"),
        cited("https://a.test", 5, 5, "a.test"),
    ]


@table(
    ("location", "title"),
    [("documentChar", "policy"), ("documentPage", "policy"), ("documentChunk", "")],
)
def test_a_document_citation_names_the_document(location: str, title: str) -> None:
    citation = {"location": {location: {"start": 0}}, "title": title or None}
    found = read(delta(0, {"citation": citation}), delta(0, {"text": "abc"}), stop(0))
    file = {"type": "file_citation", "file_id": "", "filename": title, "index": 3}
    assert found == [Text("abc"), Annotation(file)]


def test_a_citation_of_anything_else_is_an_extra() -> None:
    citation: Document = {"location": {"other": {}}}
    assert read(delta(0, {"citation": citation}), stop(0)) == [Extra("citation", citation)]


def test_signed_reasoning_gives_reasoning_and_whole_state() -> None:
    found = read(thought(0, text="h"), thought(0, text="mm"), thought(0, signature="c2ln"), stop(0))
    state = ReasoningState("bedrock.reasoning", SIGNED, "block")
    assert found == [Reasoning("h", part=1), Reasoning("mm", part=1), state]


def test_a_signature_without_text_gives_state() -> None:
    [state] = read(thought(0, text=""), thought(0, signature="s"), stop(0))
    assert isinstance(state, ReasoningState)
    assert state.value == {"reasoningContent": {"reasoningText": {"text": "", "signature": "s"}}}


@pytest.mark.parametrize("name", ["redactedContent", "data"])
def test_redacted_reasoning_gives_state_under_either_name(name: str) -> None:
    found = read(thought(0, **{name: "c2VjcmV0"}), stop(0))
    assert found == [ReasoningState("bedrock.reasoning", REDACTED, "block")]


def test_unsigned_reasoning_gives_no_state() -> None:
    assert read(thought(0, text="hm"), stop(0)) == [Reasoning("hm", part=1)]


def test_each_reasoning_block_is_a_separate_part() -> None:
    found = read(thought(0, text="a"), stop(0), thought(1, text="b"), stop(1))
    assert found == [Reasoning("a", part=1), Reasoning("b", part=2)]


def test_a_call_streams_its_arguments() -> None:
    found = read(
        start(1, {"toolUse": {"toolUseId": "id", "name": "look"}}),
        delta(1, {"toolUse": {"input": ""}}),
        delta(1, {"toolUse": {"input": '{"a":'}}),
        delta(1, {"toolUse": {"input": "1}"}}),
        stop(1),
    )
    assert found == [
        ToolCall(0, "id", "look"),
        ToolCall(0, arguments='{"a":'),
        ToolCall(0, arguments="1}"),
        ToolEnd(0),
    ]


def test_a_call_without_arguments_has_an_empty_object() -> None:
    found = read(start(0, {"toolUse": {"toolUseId": "id", "name": "look"}}), stop(0))
    assert found == [ToolCall(0, "id", "look"), ToolCall(0, arguments="{}"), ToolEnd(0)]


def test_a_tool_run_by_the_service_is_not_a_call() -> None:
    use = {"toolUse": {"toolUseId": "i", "name": "n", "type": "server_tool_use"}}
    result = {"toolResult": {"toolUseId": "i"}}
    found = read(
        start(0, use),
        delta(0, {"toolUse": {"input": "{}"}}),
        stop(0),
        start(1, result),
        delta(1, {"toolResult": [{"text": "x"}]}),
        stop(1),
    )
    assert [each.kind for each in found if isinstance(each, Extra)] == [
        "block_toolUse",
        "block_toolUse",
        "block_toolResult",
        "block_toolResult",
    ]
    assert len(found) == 4
