"""Converse decoder: events become deltas, in the order of the blocks."""

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
    Refusal,
    ServiceTier,
    Start,
    Text,
    ToolCall,
    Usage,
)
from antiphon.core.faults.fault import FaultType, Scope
from antiphon.dialects.bedrock.decode import BedrockDecoder
from antiphon.framing.eventstream import BROKEN
from antiphon.framing.sse import Frame
from tests.support.tables import table

Document = dict[str, Any]

STOPPED = ("messageStop", {"stopReason": "end_turn"})


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


def fault_of(deltas: list[Delta]) -> Any:
    [failure] = deltas
    assert isinstance(failure, Failure)
    return failure.fault


def test_text_has_no_block_start() -> None:
    found = read(("messageStart", {"role": "assistant"}), delta(0, {"text": "a"}), stop(0))
    assert found == [Start(), Text("a")]


def test_empty_text_gives_no_delta() -> None:
    assert read(delta(0, {"text": ""}), stop(0)) == []


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


def test_citation_indexes_restart_in_every_message() -> None:
    web = {"location": {"web": {"url": "u"}}}
    found = read(
        delta(0, {"text": "abc"}),
        stop(0),
        start(1, {"toolUse": {"toolUseId": "i", "name": "n"}}),
        stop(1),
        delta(2, {"text": "d"}),
        delta(2, {"citation": web}),
        stop(2),
    )
    assert found[-1] == cited("u", 0, 1)


def test_text_at_the_index_of_a_reasoning_block_closes_it() -> None:
    found = read(thought(0, text="a"), thought(0, signature="s"), delta(0, {"text": "b"}))
    assert [type(each) for each in found] == [Reasoning, ReasoningState, Text]


def test_an_open_reasoning_block_closes_with_the_message() -> None:
    found = read(thought(0, text="a"), thought(0, signature="s"), STOPPED)
    assert [type(each) for each in found] == [Reasoning, ReasoningState, Finish]


def test_two_calls_with_one_block_index_are_separate() -> None:
    again = start(0, {"toolUse": {"toolUseId": "b", "name": "look"}})
    found = read(start(0, {"toolUse": {"toolUseId": "a", "name": "look"}}), again, stop(0))
    calls = [each for each in found if isinstance(each, ToolCall) and each.call_id]
    assert [(call.index, call.call_id) for call in calls] == [(0, "a"), (1, "b")]


def test_usage_follows_the_stop_reason_and_ends_the_stream() -> None:
    decoder = BedrockDecoder()
    assert decoder.handle_event(*STOPPED) == [Finish("end_turn")]
    assert not decoder.ended
    usage = {"inputTokens": 3, "outputTokens": 5, "totalTokens": 8}
    trace: Document = {"guardrail": {}}
    found = decoder.handle_event("metadata", {"usage": usage, "trace": trace, "metrics": {}})
    assert found == [
        Usage(input_tokens=3, output_tokens=5, total_tokens=8),
        Extra("trace", trace),
    ]
    assert decoder.ended


def test_additional_response_fields_are_an_extra() -> None:
    added = {"stop_sequence": "x"}
    found = read(("messageStop", {"stopReason": "x", "additionalModelResponseFields": added}))
    assert found == [Extra("additionalModelResponseFields", added), Finish("x")]


def test_a_stop_without_a_reason_is_a_finish() -> None:
    assert read(("messageStop", {"stopReason": None})) == [Finish(None)]


def test_a_refusal_without_words_is_a_refusal() -> None:
    words = Refusal("The model refused to respond.")
    assert read(("messageStop", {"stopReason": "refusal"})) == [words, Finish("refusal")]


@table(
    ("name", "kind", "scope", "retryable"),
    [
        ("throttlingException", FaultType.rate_limit, Scope.key, True),
        ("validationException", FaultType.invalid_request, Scope.request, False),
        ("modelStreamErrorException", FaultType.api_error, Scope.provider, True),
        ("internalServerException", FaultType.api_error, Scope.provider, True),
        ("serviceUnavailableException", FaultType.provider_overloaded, Scope.provider, True),
        ("modelTimeoutException", FaultType.timeout, Scope.provider, True),
        ("somethingElse", FaultType.unknown, Scope.provider, False),
    ],
)
def test_an_exception_is_a_fault(name: str, kind: FaultType, scope: Scope, retryable: bool) -> None:
    fault = fault_of(read((f"exception:{name}", {"message": "no"})))
    assert (fault.type, fault.scope, fault.retryable) == (kind, scope, retryable)
    assert fault.upstream.type == name
    assert fault.message == "no"


def test_the_original_status_of_the_model_counts() -> None:
    document = {"message": "no", "originalStatusCode": 529, "originalMessage": "overloaded"}
    fault = fault_of(read(("exception:modelStreamErrorException", document)))
    assert (fault.status, fault.type) == (529, FaultType.provider_overloaded)


def test_an_exception_may_have_no_body() -> None:
    [failure] = BedrockDecoder().feed(Frame(b"", "exception:throttlingException"))
    assert isinstance(failure, Failure)
    assert failure.fault.type is FaultType.rate_limit


@pytest.mark.parametrize(
    "frame", [Frame(b"The checksum is wrong.", BROKEN), Frame(b"{", "metadata"), Frame(b"1", "x")]
)
def test_a_broken_frame_is_a_failure_until_the_answer_has_finished(frame: Frame) -> None:
    decoder = BedrockDecoder()
    fault = fault_of(decoder.feed(frame))
    assert fault.type is FaultType.protocol
    decoder.handle_event(*STOPPED)
    assert decoder.feed(frame) == [Extra("unreadable_frame", len(frame.data))]


def test_a_document_that_strict_parsers_reject_is_repaired() -> None:
    frame = Frame(b'{"contentBlockIndex":0,"delta":{"text":"a\xff"}}', "contentBlockDelta")
    assert BedrockDecoder().feed(frame) == [Text("a\ufffd")]


@table(
    ("event", "found"),
    [
        (("initial-response", {}), Extra("initial-response", {})),
        (("", {"a": 1}), Extra("event", {"a": 1})),
        (
            delta(0, {"image": {"source": {}}}),
            Extra("block_image", {"image": {"source": {}}}, is_output=True),
        ),
        (
            delta(0, {"toolUse": {"input": "{"}}),
            Extra("block_toolUse", {"toolUse": {"input": "{"}}),
        ),
        (delta(0, None), Extra("block_delta", None)),
        (delta(0, {}), Extra("block_delta", {})),
        (delta(0, {"text": 1}), Extra("block_text", {"text": 1})),
        (
            delta(0, {"reasoningContent": 1}),
            Extra("block_reasoningContent", {"reasoningContent": 1}),
        ),
        (start(0, None), Extra("block_delta", None)),
        (
            start(0, {"image": {"format": "png"}}),
            Extra("block_image", {"image": {"format": "png"}}, is_output=True),
        ),
    ],
)
def test_unknown_events_are_extras(event: tuple[str, Any], found: Delta) -> None:
    assert read(event) == [found]


def test_a_delta_of_another_block_type_is_an_extra() -> None:
    opened = start(0, {"toolUse": {"toolUseId": "a", "name": "n"}})
    found = read(opened, delta(0, {"toolUse": {"input": 1}}))
    assert found[1:] == [Extra("block_toolUse", {"toolUse": {"input": 1}})]


def test_a_block_may_lack_an_index() -> None:
    found = read(("contentBlockDelta", {"delta": {"text": "a"}}), ("contentBlockStop", {}))
    assert found == [Text("a")]


def test_metadata_may_lack_usage() -> None:
    assert read(("metadata", {"usage": None})) == []


def test_the_service_tier_is_read_from_the_metadata() -> None:
    document = {"usage": {"inputTokens": 1}, "serviceTier": {"type": "priority"}}
    assert ServiceTier("priority") in BedrockDecoder().handle_event("metadata", document)
