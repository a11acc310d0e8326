"""A whole answer of Cohere's chat is read like its stream; and the dialect as a whole."""

from __future__ import annotations

import json
from typing import Any

from antiphon.core.plan.plan import Plan
from antiphon.core.stream.deltas import (
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
from antiphon.dialects.cohere.dialect import CohereDialect
from antiphon.dialects.cohere.encode import encode
from antiphon.dialects.cohere.quirks import CohereQuirks
from antiphon.wire.sse import SSEDecoder

CALL = {"id": "c", "type": "function", "function": {"name": "look", "arguments": ""}}
TOKENS = {"input_tokens": 9, "output_tokens": 5, "reasoning_tokens": 2}
USAGE = {"billed_units": {"input_tokens": 1}, "tokens": TOKENS, "cached_tokens": 4}
COUNTED = Usage(input_tokens=9, output_tokens=5, cached_tokens=4, reasoning_tokens=2)
PAGE = {"type": "document", "document": {"url": "https://x.test/", "title": "X"}}
PAPER = {"type": "document", "document": {"title": "no address"}}
PIECE = {"type": "content-delta", "delta": {"message": {"content": {"text": "a"}}}}


def faults(deltas: list[Delta]) -> list[str]:
    return [delta.fault.type for delta in deltas if isinstance(delta, Failure)]


def whole(finish: Any = "COMPLETE", **message: Any) -> bytes:
    body = {"id": "r", "message": message, "finish_reason": finish, "usage": USAGE}
    return json.dumps(body).encode()


def test_a_whole_answer_keeps_the_order_of_its_blocks() -> None:
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


def test_a_whole_answer_calls_with_a_plan() -> None:
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


def test_a_whole_answer_may_be_a_string_or_nothing() -> None:
    assert decode(whole(content="a"))[1] == Text("a")
    assert decode(whole(None)) == [Start(None, "r"), COUNTED, Finish(None)]
    scored = json.dumps({"message": {"content": "a"}, "logprobs": [1]}).encode()
    assert Extra("logprobs", [1]) in decode(scored)


def test_a_whole_error_is_a_failure() -> None:
    assert faults(decode(b'{"id":"x","message":"model \'m\' was removed"}')) == ["model_error"]
    assert faults(decode(b"<html>")) == ["unknown"]


def test_the_dialect_reads_events_and_writes_requests() -> None:
    dialect = CohereDialect(quirks=CohereQuirks(fields={"safety_mode": "OFF"}))
    [frame] = dialect.framer().feed(b"data: %b\n\n" % json.dumps(PIECE).encode())
    assert isinstance(dialect.framer(), SSEDecoder)
    assert dialect.decoder().feed(frame) == [Text("a")]
    assert Text("a") in dialect.decode(whole(content="a"))
    plan = Plan(provider="p", model="m")
    outbound = dialect.encode(plan, stream=True)
    assert outbound == encode(plan, stream=True, quirks=CohereQuirks(fields={"safety_mode": "OFF"}))
    assert json.loads(outbound.body)["safety_mode"] == "OFF"


def test_an_error_is_classified_and_described() -> None:
    dialect = CohereDialect()
    fault = dialect.classify(429, {}, b'{"message":"slow down, sk-1"}')
    assert (fault.type, fault.retryable) == ("rate_limit", True)
    assert "sk-1" not in dialect.describe(fault)
