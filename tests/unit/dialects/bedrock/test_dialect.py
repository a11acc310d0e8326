"""Converse as a dialect, and reasoning state across turns."""

from __future__ import annotations

import json
from typing import Any

from antiphon.core.deltas import Failure, Finish, Text
from antiphon.core.faults.fault import FaultType
from antiphon.core.history.steps import (
    MessageStep,
    ReasoningStep,
    Step,
    TextPart,
    ToolCallStep,
    ToolResultStep,
)
from antiphon.core.plan.plan import Plan
from antiphon.core.stream.source import Source
from antiphon.core.translation.translation import Translation
from antiphon.dialects.bedrock import encode as bedrock_request
from antiphon.dialects.bedrock.decode import decode
from antiphon.dialects.bedrock.dialect import BedrockDialect
from antiphon.dialects.bedrock.quirks import BedrockQuirks
from tests.support.dialect_samples.aws_event_stream import exception, stream
from tests.support.machines import machine
from tests.support.request_validators.converse_model import understands

Document = dict[str, Any]

SIGNED = {"reasoningContent": {"reasoningText": {"text": "hmm", "signature": "c2ln"}}}
REDACTED = {"reasoningContent": {"redactedContent": "c2VjcmV0"}}
STOPPED = ("messageStop", {"stopReason": "tool_use"})


def delta(index: int, content: Any) -> tuple[str, Document]:
    return "contentBlockDelta", {"contentBlockIndex": index, "delta": content}


def stop(index: int) -> tuple[str, Document]:
    return "contentBlockStop", {"contentBlockIndex": index}


ANSWER = [
    ("messageStart", {"role": "assistant"}),
    delta(0, {"reasoningContent": {"redactedContent": "c2VjcmV0"}}),
    stop(0),
    delta(1, {"reasoningContent": {"text": "h"}}),
    delta(1, {"reasoningContent": {"text": "mm"}}),
    delta(1, {"reasoningContent": {"signature": "c2ln"}}),
    stop(1),
    delta(2, {"text": "wait"}),
    stop(2),
    (
        "contentBlockStart",
        {
            "contentBlockIndex": 3,
            "start": {"toolUse": {"toolUseId": "i", "name": "get_weather"}},
        },
    ),
    delta(3, {"toolUse": {"input": '{"a": 1}'}}),
    stop(3),
    STOPPED,
    (
        "metadata",
        {
            "usage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3},
            "metrics": {"latencyMs": 4},
        },
    ),
]
SHAPES = {
    "messageStart": "MessageStartEvent",
    "contentBlockStart": "ContentBlockStartEvent",
    "contentBlockDelta": "ContentBlockDeltaEvent",
    "contentBlockStop": "ContentBlockStopEvent",
    "messageStop": "MessageStopEvent",
    "metadata": "ConverseStreamMetadataEvent",
}


def test_the_sample_events_match_amazons_service_model() -> None:
    for name, document in ANSWER:
        assert understands(SHAPES[name], document) == []


def test_the_dialect_frames_and_decodes_the_event_stream() -> None:
    dialect = BedrockDialect()
    data = stream([delta(0, {"text": "a"}), stop(0), STOPPED]) + exception("x", {})
    decoder = dialect.decoder()
    found = [each for frame in dialect.framer().feed(data) for each in decoder.feed(frame)]
    assert found[:2] == [Text("a"), Finish("tool_use")]
    assert isinstance(found[2], Failure)


def test_the_dialect_encodes_with_its_quirks() -> None:
    plan = Plan(provider="p", model="m", effort="low")
    quirks = BedrockQuirks(thinking="effort")
    expected = bedrock_request.encode(plan, stream=True, quirks=quirks)
    assert BedrockDialect(quirks).encode(plan, stream=True) == expected
    assert BedrockDialect().encode(plan, stream=True) != expected


def test_the_dialect_classifies_and_describes_errors() -> None:
    dialect = BedrockDialect()
    fault = dialect.classify(400, {"x-amzn-ErrorType": "ThrottlingException:http://x"}, b"{}")
    assert fault.type is FaultType.rate_limit
    assert dialect.describe(fault, "en") != dialect.describe(fault, "zh")
    assert dialect.decode(b"") == decode(b"")


def test_reasoning_and_calls_are_replayed_as_a_native_client_would() -> None:
    """Read a stream, seal its state, open it again, and write the next request."""
    sealed: list[tuple[Any, ...]] = []

    def seal(states: Any, text: str) -> str:
        assert text in ("", "hmm")
        sealed.append(tuple(states))
        return "sealed"

    answer = machine(seal=seal)
    translation = Translation(answer, Source(BedrockDialect()))
    assert translation.feed(stream(ANSWER))
    assert translation.machine.has_ended
    [states] = sealed
    history: tuple[Step, ...] = (
        MessageStep("user", (TextPart("hi"),)),
        ReasoningStep(text="hmm", states=states),
        MessageStep("assistant", (TextPart("wait"),)),
        ToolCallStep("i", "get_weather", '{"a": 1}'),
        ToolResultStep("i", (TextPart("sun"),), "get_weather"),
    )
    outbound = BedrockDialect().encode(Plan(provider="p", model="m", history=history), stream=True)
    assert json.loads(outbound.body)["messages"] == [
        {"role": "user", "content": [{"text": "hi"}]},
        {
            "role": "assistant",
            "content": [
                REDACTED,
                SIGNED,
                {"text": "wait"},
                {"toolUse": {"toolUseId": "i", "name": "get_weather", "input": {"a": 1}}},
            ],
        },
        {
            "role": "user",
            "content": [{"toolResult": {"toolUseId": "i", "content": [{"text": "sun"}]}}],
        },
    ]
    assert json.dumps(SIGNED, separators=(",", ":")).encode() in outbound.body
