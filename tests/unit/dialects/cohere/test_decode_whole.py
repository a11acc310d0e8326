"""Decoding of whole Cohere chat responses."""

from __future__ import annotations

import json
from typing import Any

from antiphon.core.deltas import (
    Annotation,
    Delta,
    Extra,
    Failure,
    Finish,
    Reasoning,
    ReasoningState,
    Start,
    Text,
    ToolCall,
    ToolEnd,
    Usage,
)
from antiphon.dialects.cohere.decode import decode

CALL = {"id": "c", "type": "function", "function": {"name": "look", "arguments": ""}}
TOKENS = {"input_tokens": 9, "output_tokens": 5, "reasoning_tokens": 2}
USAGE = {"billed_units": {"input_tokens": 1}, "tokens": TOKENS, "cached_tokens": 4}
COUNTED = Usage(input_tokens=9, output_tokens=5, cached_tokens=4, reasoning_tokens=2)
PAGE = {"type": "document", "document": {"url": "https://x.test/", "title": "X"}}
PAPER = {"type": "document", "document": {"title": "no address"}}


def faults(deltas: list[Delta]) -> list[str]:
    return [delta.fault.type for delta in deltas if isinstance(delta, Failure)]


def whole(finish: Any = "COMPLETE", **message: Any) -> bytes:
    body = {"id": "r", "message": message, "finish_reason": finish, "usage": USAGE}
    return json.dumps(body).encode()


def test_a_whole_response_keeps_the_order_of_its_blocks() -> None:
    content = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "Ruby"},
    ]
    cited = {"start": 0, "end": 4, "text": "Ruby", "sources": [PAGE], "content_index": 1}
    kept = cited | {"sources": [PAPER]}
    assert decode(whole(content=content, citations=[cited, kept])) == [
        Start(None, "r"),
        Reasoning("hm"),
        ReasoningState("cohere.thinking", "hm", "block"),
        Text("Ruby"),
        Annotation(
            {
                "type": "url_citation",
                "url": "https://x.test/",
                "title": "X",
                "start_index": 0,
                "end_index": 4,
            }
        ),
        Extra("citation", kept),
        COUNTED,
        Finish("COMPLETE"),
    ]


def test_a_whole_response_has_a_plan_and_calls() -> None:
    called = CALL | {"function": {"name": "look", "arguments": '{"x": 1}'}}
    body = whole("TOOL_CALL", tool_plan="I will look.", tool_calls=[called, CALL, "odd"])
    assert decode(body) == [
        Start(None, "r"),
        Reasoning("I will look."),
        ReasoningState("cohere.tool_plan", "I will look.", "block"),
        ToolCall(0, "c", "look", '{"x": 1}'),
        ToolEnd(0),
        ToolCall(1, "c", "look"),
        ToolCall(1, arguments="{}"),
        ToolEnd(1),
        Extra("tool_call", '"odd"'),
        COUNTED,
        Finish("TOOL_CALL"),
    ]


def test_whole_content_may_be_a_string_or_missing() -> None:
    assert decode(whole(content="a"))[1] == Text("a")
    assert decode(whole(None)) == [Start(None, "r"), COUNTED, Finish(None)]
    scored = json.dumps({"message": {"content": "a"}, "logprobs": [1]}).encode()
    assert Extra("logprobs", [1]) in decode(scored)


def test_an_error_body_is_a_failure() -> None:
    assert faults(decode(b'{"id":"x","message":"model \'m\' was removed"}')) == ["model_error"]
    assert faults(decode(b"<html>")) == ["unknown"]
