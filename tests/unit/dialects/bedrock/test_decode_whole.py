"""Whole Converse answers give the deltas of their streams."""

from __future__ import annotations

import json
from typing import Any

import pytest

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
from antiphon.core.faults.fault import FaultType
from antiphon.dialects.bedrock.decode import decode

Document = dict[str, Any]

SIGNED = {"reasoningContent": {"reasoningText": {"text": "hmm", "signature": "c2ln"}}}
REDACTED = {"reasoningContent": {"redactedContent": "c2VjcmV0"}}
CITED = Annotation(
    {"type": "url_citation", "url": "u", "title": "", "start_index": 1, "end_index": 4}
)


def whole(*content: Any, **fields: Any) -> list[Delta]:
    body = {"output": {"message": {"role": "assistant", "content": content}}, **fields}
    return decode(json.dumps(body).encode())


def fault_of(deltas: list[Delta]) -> Any:
    [failure] = deltas
    assert isinstance(failure, Failure)
    return failure.fault


def test_a_whole_answer_gives_the_deltas_of_its_stream() -> None:
    tool = {
        "toolUse": {"toolUseId": "i", "name": "n", "input": {"a": 1.50, "b": 123456789012345678901}}
    }
    usage = {"inputTokens": 3, "outputTokens": 5, "totalTokens": 8}
    found = whole(SIGNED, REDACTED, {"text": "hi"}, tool, stopReason="tool_use", usage=usage)
    assert found == [
        Start(),
        Reasoning("hmm", part=1),
        ReasoningState("bedrock.reasoning", SIGNED, "block"),
        ReasoningState("bedrock.reasoning", REDACTED, "block"),
        Text("hi"),
        ToolCall(0, "i", "n"),
        ToolCall(0, arguments='{"a": 1.5, "b": 123456789012345678901}'),
        ToolEnd(0),
        Usage(input_tokens=3, output_tokens=5, total_tokens=8),
        Finish("tool_use"),
    ]


@pytest.mark.parametrize("given", [{"input": None}, {}])
def test_a_whole_call_without_arguments_has_an_empty_object(given: Document) -> None:
    found = whole({"toolUse": {"toolUseId": "i", "name": "n", **given}})
    assert ToolCall(0, arguments="{}") in found


def test_whole_text_with_citations_gives_text_and_annotations() -> None:
    web = {"location": {"web": {"url": "u"}}}
    content = [{"text": "ab"}, {"text": "c"}, 7]
    block = {"citationsContent": {"content": content, "citations": [web, 7]}}
    found = whole({"text": "x"}, block, stopReason="end_turn")
    assert found == [
        Start(),
        Text("x"),
        Text("ab"),
        Text("c"),
        CITED,
        Finish("end_turn"),
    ]
    assert whole({"citationsContent": {}}, stopReason="s") == [Start(), Finish("s")]


@pytest.mark.parametrize(
    ("block", "kind"),
    [
        ({"image": {}}, "block_image"),
        ({"toolUse": {"type": "server_tool_use"}}, "block_toolUse"),
        ({"toolResult": {}}, "block_toolResult"),
        (7, "block_delta"),
        ({"text": 7}, "block_text"),
    ],
)
def test_an_unknown_whole_block_is_an_extra(block: Any, kind: str) -> None:
    found = whole(block)
    assert found[1] == Extra(kind, block, is_output=kind == "block_image")
    assert not any(isinstance(each, ToolCall | Text) for each in found)


@pytest.mark.parametrize("output", [{}, {"message": None}, {"message": {"content": None}}])
def test_an_answer_without_content_is_empty(output: Document) -> None:
    body = json.dumps({"output": output, "stopReason": "end_turn"}).encode()
    assert decode(body) == [Start(), Finish("end_turn")]


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"output": "x"}', b"{"])
def test_an_unreadable_body_is_a_failure(body: bytes) -> None:
    assert isinstance(fault_of(decode(body)).type, FaultType)


def test_a_whole_answer_that_strict_parsers_reject_is_repaired() -> None:
    body = b'{"output":{"message":{"content":[{"text":"a\xff"}]}},"stopReason":"s"}'
    assert decode(body) == [Start(), Text("a\ufffd"), Finish("s")]


def test_an_error_body_is_a_failure() -> None:
    fault = fault_of(decode(b'{"message":"The provided model identifier is invalid."}'))
    assert fault.type is FaultType.model_error
