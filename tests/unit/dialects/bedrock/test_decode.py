"""Converse events and whole bodies become deltas, in the order of the blocks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.core.faults.fault import FaultType, Scope
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
from antiphon.dialects.bedrock.decode import BedrockDecoder
from antiphon.wire.eventstream import BROKEN
from antiphon.wire.sse import Frame

Document = dict[str, Any]

SIGNED = {"reasoningContent": {"reasoningText": {"text": "hmm", "signature": "c2ln"}}}
REDACTED = {"reasoningContent": {"redactedContent": "c2VjcmV0"}}
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


# --- text -----------------------------------------------------------------------------------------


def test_text_comes_without_an_opening() -> None:
    found = read(("messageStart", {"role": "assistant"}), delta(0, {"text": "a"}), stop(0))
    assert found == [Start(), Text("a")]


def test_empty_text_says_nothing() -> None:
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


def test_a_citation_of_the_web_marks_the_text_of_its_block() -> None:
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


def test_a_place_in_a_message_is_counted_from_its_beginning() -> None:
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


def test_a_citation_of_a_document_is_only_traced() -> None:
    citation = {"location": {"documentChar": {"start": 0}}, "title": "policy"}
    assert read(delta(0, {"citation": citation}), stop(0)) == [Extra("citation", citation)]


# --- thought --------------------------------------------------------------------------------------


def test_signed_thought_is_told_and_kept_as_the_block_that_goes_back() -> None:
    found = read(thought(0, text="h"), thought(0, text="mm"), thought(0, signature="c2ln"), stop(0))
    state = ReasoningState("bedrock.reasoning", SIGNED, "block")
    assert found == [Reasoning("h", part=1), Reasoning("mm", part=1), state]


def test_a_signature_alone_is_kept_with_an_empty_text() -> None:
    [state] = read(thought(0, text=""), thought(0, signature="s"), stop(0))
    assert isinstance(state, ReasoningState)
    assert state.value == {"reasoningContent": {"reasoningText": {"text": "", "signature": "s"}}}


@pytest.mark.parametrize("name", ["redactedContent", "data"])
def test_redacted_thought_is_kept_under_either_name(name: str) -> None:
    found = read(thought(0, **{name: "c2VjcmV0"}), stop(0))
    assert found == [ReasoningState("bedrock.reasoning", REDACTED, "block")]


def test_thought_that_was_never_signed_leaves_no_state() -> None:
    assert read(thought(0, text="hm"), stop(0)) == [Reasoning("hm", part=1)]


def test_each_block_of_thought_is_a_part_of_its_own() -> None:
    found = read(thought(0, text="a"), stop(0), thought(1, text="b"), stop(1))
    assert found == [Reasoning("a", part=1), Reasoning("b", part=2)]


def test_text_in_the_place_of_a_thought_ends_the_thought() -> None:
    found = read(thought(0, text="a"), thought(0, signature="s"), delta(0, {"text": "b"}))
    assert [type(each) for each in found] == [Reasoning, ReasoningState, Text]


def test_a_thought_left_open_ends_with_the_message() -> None:
    found = read(thought(0, text="a"), thought(0, signature="s"), STOPPED)
    assert [type(each) for each in found] == [Reasoning, ReasoningState, Finish]


# --- calls ----------------------------------------------------------------------------------------


def test_a_call_is_opened_written_and_ended() -> None:
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


def test_calls_are_told_apart_even_in_one_place() -> None:
    again = start(0, {"toolUse": {"toolUseId": "b", "name": "look"}})
    found = read(start(0, {"toolUse": {"toolUseId": "a", "name": "look"}}), again, stop(0))
    calls = [each for each in found if isinstance(each, ToolCall) and each.call_id]
    assert [(call.index, call.call_id) for call in calls] == [(0, "a"), (1, "b")]


def test_a_tool_that_the_service_runs_itself_is_no_call() -> None:
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


# --- the end --------------------------------------------------------------------------------------


def test_usage_comes_after_the_stop_reason_and_is_the_end() -> None:
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


@pytest.mark.parametrize(
    ("total", "asked"), [(24, 19), (8, 3), (None, 19)], ids=["beside", "inside", "untold"]
)
def test_the_cache_is_part_of_the_input(total: int | None, asked: int) -> None:
    usage = {"inputTokens": 3, "outputTokens": 5, "totalTokens": total}
    usage |= {"cacheReadInputTokens": 10, "cacheWriteInputTokens": 6}
    [found] = read(("metadata", {"usage": usage}))
    assert found == Usage(
        input_tokens=asked,
        output_tokens=5,
        cached_tokens=10,
        cache_write_tokens=6,
        total_tokens=total,
    )


def test_what_a_model_adds_to_its_stop_reason_is_traced() -> None:
    added = {"stop_sequence": "x"}
    found = read(("messageStop", {"stopReason": "x", "additionalModelResponseFields": added}))
    assert found == [Extra("additionalModelResponseFields", added), Finish("x")]


def test_a_stop_without_a_reason_is_still_one() -> None:
    assert read(("messageStop", {"stopReason": None})) == [Finish(None)]


# --- faults ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind", "scope", "retryable"),
    [
        ("throttlingException", FaultType.rate_limit, Scope.key, True),
        ("validationException", FaultType.invalid_request, Scope.request, False),
        ("modelStreamErrorException", FaultType.provider_overloaded, Scope.provider, True),
        ("internalServerException", FaultType.provider_overloaded, Scope.provider, True),
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


def test_the_status_that_a_model_gave_counts() -> None:
    document = {"message": "no", "originalStatusCode": 529, "originalMessage": "overloaded"}
    fault = fault_of(read(("exception:modelStreamErrorException", document)))
    assert (fault.status, fault.type) == (529, FaultType.provider_overloaded)


def test_an_exception_may_say_nothing_at_all() -> None:
    [failure] = BedrockDecoder().feed(Frame(b"", "exception:throttlingException"))
    assert isinstance(failure, Failure)
    assert failure.fault.type is FaultType.rate_limit


@pytest.mark.parametrize(
    "frame", [Frame(b"The checksum is wrong.", BROKEN), Frame(b"{", "metadata"), Frame(b"1", "x")]
)
def test_a_broken_frame_is_a_fault_until_the_answer_is_whole(frame: Frame) -> None:
    decoder = BedrockDecoder()
    fault = fault_of(decoder.feed(frame))
    assert fault.type is FaultType.protocol
    decoder.handle_event(*STOPPED)
    assert decoder.feed(frame) == [Extra("unreadable_frame", len(frame.data))]


def test_a_document_that_only_strict_readers_reject_is_read() -> None:
    frame = Frame(b'{"contentBlockIndex":0,"delta":{"text":"a\xff"}}', "contentBlockDelta")
    assert BedrockDecoder().feed(frame) == [Text("a\ufffd")]


@pytest.mark.parametrize(
    ("event", "found"),
    [
        (("initial-response", {}), Extra("initial-response", {})),
        (("", {"a": 1}), Extra("event", {"a": 1})),
        (delta(0, {"image": {"source": {}}}), Extra("block_image", {"image": {"source": {}}})),
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
            Extra("block_image", {"image": {"format": "png"}}),
        ),
    ],
)
def test_what_nobody_knows_is_traced(event: tuple[str, Any], found: Delta) -> None:
    assert read(event) == [found]


def test_a_delta_that_does_not_belong_to_a_call_is_traced() -> None:
    opened = start(0, {"toolUse": {"toolUseId": "a", "name": "n"}})
    found = read(opened, delta(0, {"toolUse": {"input": 1}}))
    assert found[1:] == [Extra("block_toolUse", {"toolUse": {"input": 1}})]


def test_a_block_without_a_number_is_a_block_like_any_other() -> None:
    found = read(("contentBlockDelta", {"delta": {"text": "a"}}), ("contentBlockStop", {}))
    assert found == [Text("a")]


def test_metadata_may_tell_no_numbers() -> None:
    assert read(("metadata", {"usage": None})) == []
