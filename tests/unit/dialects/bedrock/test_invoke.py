"""InvokeModel answers in the models' own formats: wrapped chunks and whole bodies."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from antiphon.core.deltas import (
    Delta,
    Extra,
    Failure,
    Finish,
    Reasoning,
    Start,
    Text,
    ToolCall,
    ToolEnd,
    Usage,
)
from antiphon.core.faults.fault import FaultType
from antiphon.dialects.bedrock.decode import BedrockDecoder, decode
from antiphon.framing.sse import Frame
from tests.support.tables import table

Document = dict[str, Any]

METRICS = {"amazon-bedrock-invocationMetrics": {"inputTokenCount": 3, "outputTokenCount": 5}}
COST = Usage(input_tokens=3, output_tokens=5)


def chunk(document: Any) -> Frame:
    inner = base64.b64encode(json.dumps(document).encode()).decode()
    return Frame(json.dumps({"bytes": inner, "p": "abcd"}).encode(), "chunk")


def read(*documents: Any) -> list[Delta]:
    decoder = BedrockDecoder()
    return [delta for document in documents for delta in decoder.feed(chunk(document))]


@table(
    ("first", "last"),
    [
        ({"completion": "hi", "stop_reason": None}, {"completion": "", "stop_reason": "stop"}),
        ({"type": "completion", "completion": "hi"}, {"completion": "", "stop_reason": "stop"}),
        ({"outputText": "hi", "index": 0.0}, {"outputText": "", "completionReason": "stop"}),
        ({"generation": "hi"}, {"generation": "", "stop_reason": "stop"}),
        ({"outputs": [{"text": "hi"}]}, {"outputs": [{"text": "", "stop_reason": "stop"}]}),
        ({"generations": [{"text": "hi"}]}, {"generations": [{"finish_reason": "stop"}]}),
        ({"text": "hi", "is_finished": False}, {"is_finished": True, "finish_reason": "stop"}),
    ],
)
def test_text_completions_are_decoded_in_every_format(first: Document, last: Document) -> None:
    assert read(first, last | METRICS) == [Text("hi"), Finish("stop"), COST]


def test_invocation_metrics_end_the_stream() -> None:
    decoder = BedrockDecoder()
    decoder.feed(chunk({"completion": "a"}))
    assert not decoder.ended
    decoder.feed(chunk({"completion": "", "stop_reason": "stop"} | METRICS))
    assert decoder.ended


def test_messages_are_decoded_by_the_anthropic_dialect() -> None:
    found = read(
        {"type": "message_start", "message": {"model": "claude", "id": "i", "usage": {}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking"}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "thinking_delta", "thinking": "hm"},
        },
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 2},
        },
        {"type": "message_stop"} | METRICS,
    )
    assert found[0] == Start("claude", "i")
    assert Reasoning("hm", part=1) in found
    assert found[-2:] == [Usage(output_tokens=2), Finish("end_turn")]


def test_chat_completions_are_decoded_by_the_chat_dialect() -> None:
    found = read(
        {"choices": [{"index": 0, "delta": {"content": "a"}}], "model": "m", "id": "i"},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]} | METRICS,
    )
    assert found == [Start("m", "i"), Text("a"), Finish("stop"), COST]


@table("name", ["message", "delta"])
def test_chunks_may_have_messages_or_deltas_with_stop_reasons(name: str) -> None:
    found = read(
        {"choices": [{"index": 0, name: {"content": "a"}, "stop_reason": None}]},
        {"choices": [{"index": 0, name: {"content": "b"}, "stop_reason": None}]},
        {"choices": [{"index": 0, name: {"content": ""}, "stop_reason": "length"}]} | METRICS,
    )
    assert found == [Start(), Text("a"), Text("b"), Finish("length"), COST]


def test_the_counts_may_come_in_a_chunk_of_their_own_without_choices() -> None:
    found = read(
        {"choices": [{"index": 0, "delta": {"content": "a"}, "stop_reason": "stop"}]},
        METRICS,
    )
    assert found == [Start(), Text("a"), Finish("stop"), COST]


def test_the_first_version_of_coheres_chat_is_decoded_by_its_dialect() -> None:
    call = {"name": "f", "parameters": {"x": 1}}
    found = read(
        {"event_type": "stream-start", "generation_id": "g", "is_finished": False},
        {"event_type": "tool-calls-generation", "tool_calls": [call]},
        {"event_type": "stream-end", "finish_reason": "COMPLETE", "response": {}} | METRICS,
    )
    assert found == [
        Start(None, "g"),
        ToolCall(0, None, "f", '{"x": 1}'),
        ToolEnd(0),
        Finish("COMPLETE"),
        COST,
    ]


def test_chunks_may_contain_converse_events() -> None:
    usage = {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}
    found = read(
        {"messageStart": {"role": "assistant"}},
        {"contentBlockDelta": {"delta": {"text": "a"}, "contentBlockIndex": 0}},
        {"messageStop": {"stopReason": "end_turn"}},
        {"metadata": {"usage": usage}} | METRICS,
    )
    cost = Usage(input_tokens=1, output_tokens=2, total_tokens=3)
    assert found == [Start(), Text("a"), Finish("end_turn"), cost]


@pytest.mark.parametrize("document", [{"metadata": 7}, {"other": 1}, {}, {"results": []}])
def test_an_unknown_chunk_is_an_extra(document: Document) -> None:
    assert read(document) == [Extra("chunk", document)]


@pytest.mark.parametrize("payload", [{"bytes": "%"}, {"bytes": 7}, {}, {"bytes": "WzFd"}])
def test_an_unreadable_chunk_is_a_failure_until_the_answer_has_finished(
    payload: Document,
) -> None:
    frame = Frame(json.dumps(payload).encode(), "chunk")
    decoder = BedrockDecoder()
    [failure] = decoder.feed(frame)
    assert isinstance(failure, Failure)
    assert failure.fault.type is FaultType.protocol
    decoder.feed(chunk({"completion": "", "stop_reason": "stop"}))
    assert decoder.feed(frame) == [Extra("unreadable_frame", 0)]


# --- whole bodies ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        {"completion": "hi", "stop_reason": "stop"},
        {"outputs": [{"text": "hi", "stop_reason": "stop"}]},
        {"generations": [{"text": "hi", "finish_reason": "stop"}]},
        {"completions": [{"data": {"text": "hi"}, "finishReason": {"reason": "stop"}}]},
        {"text": "hi", "finish_reason": "stop"},
    ],
)
def test_a_whole_text_completion_is_decoded_in_every_format(body: Document) -> None:
    assert decode(json.dumps(body).encode()) == [Start(), Text("hi"), Finish("stop")]


@pytest.mark.parametrize(
    "body",
    [
        {
            "generation": "hi",
            "stop_reason": "stop",
            "prompt_token_count": 3,
            "generation_token_count": 5,
        },
        {
            "inputTextTokenCount": 3,
            "results": [{"outputText": "hi", "tokenCount": 5, "completionReason": "stop"}],
        },
    ],
)
def test_token_counts_in_the_body_are_usage(body: Document) -> None:
    assert decode(json.dumps(body).encode()) == [Start(), Text("hi"), Finish("stop"), COST]


def test_a_whole_message_is_decoded_by_the_anthropic_dialect() -> None:
    call = {"type": "tool_use", "id": "i", "name": "n", "input": {"a": 1}}
    body = {"type": "message", "content": [call], "stop_reason": "tool_use", "usage": {}}
    found = decode(json.dumps(body).encode())
    assert ToolCall(0, "i", "n") in found
    assert ToolEnd(0) in found
    assert found[-1] == Finish("tool_use")


def test_a_whole_chat_completion_is_decoded_by_the_chat_dialect() -> None:
    body = {"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}
    found = decode(json.dumps(body).encode())
    assert Text("a") in found
    assert Finish("stop") in found


@table(
    ("choices", "expected"),
    [
        ([{"message": {"content": "a"}, "stop_reason": "stop"}], [Text("a"), Finish("stop")]),
        ([{"text": "a", "stop_reason": "length"}], [Text("a"), Finish("length")]),
        (
            [{"message": {"content": "a"}, "finish_reason": "stop", "stop_reason": "x"}],
            [Text("a"), Finish("stop")],
        ),
        (None, []),
    ],
)
def test_a_choice_may_have_a_stop_reason_or_plain_text(
    choices: object, expected: list[Delta]
) -> None:
    found = decode(json.dumps({"choices": choices}).encode())
    assert found == [Start(), *expected]


def test_a_whole_answer_of_coheres_first_chat_keeps_its_calls() -> None:
    body = {
        "generation_id": "g",
        "text": "I look.",
        "tool_calls": [{"name": "f", "parameters": {}}],
        "finish_reason": "COMPLETE",
    }
    found = decode(json.dumps(body).encode())
    assert ToolCall(0, None, "f", "{}") in found
    assert found[-1] == Finish("COMPLETE")


BLOCKED = {"amazon-bedrock-guardrailAction": "INTERVENED"}


def test_a_guardrail_that_answered_for_the_model_is_the_finish_reason() -> None:
    body = {"generation": "No."} | BLOCKED
    assert decode(json.dumps(body).encode()) == [
        Start(),
        Text("No."),
        Finish("guardrail_intervened"),
    ]
    assert read(body, {"generation": ""} | BLOCKED | METRICS) == [
        Text("No."),
        COST,
        Finish("guardrail_intervened"),
    ]


@table("action", ["INTERVENED", "NONE"])
def test_a_guardrail_that_let_the_model_answer_changes_nothing(action: str) -> None:
    body = {"generation": "a", "stop_reason": "stop", "amazon-bedrock-guardrailAction": action}
    assert decode(json.dumps(body).encode()) == [Start(), Text("a"), Finish("stop")]
    assert read(body | METRICS) == [Text("a"), Finish("stop"), COST]
    unfinished = {"generation": "a", "amazon-bedrock-guardrailAction": "NONE"}
    assert read(unfinished | METRICS) == [Text("a"), COST]


def test_a_body_in_an_unknown_format_is_a_failure() -> None:
    [failure] = decode(b'{"embedding": [1, 2]}')
    assert isinstance(failure, Failure)
    assert failure.fault.type is FaultType.protocol
