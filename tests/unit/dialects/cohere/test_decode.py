"""Decoding of Cohere chat streams."""

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
from antiphon.dialects.cohere.decode import CohereDecoder
from antiphon.framing.sse import Frame

CALL = {"id": "c", "type": "function", "function": {"name": "look", "arguments": ""}}
TOKENS = {"input_tokens": 9, "output_tokens": 5, "reasoning_tokens": 2}
USAGE = {"billed_units": {"input_tokens": 1}, "tokens": TOKENS, "cached_tokens": 4}
COUNTED = Usage(input_tokens=9, output_tokens=5, cached_tokens=4, reasoning_tokens=2)


def event(kind: str, index: Any = None, **message: Any) -> Frame:
    body: dict[str, Any] = {"type": kind, "delta": {"message": message}}
    if index is not None:
        body["index"] = index
    return Frame(json.dumps(body).encode(), kind)


def arguments(text: str, index: int = 0) -> Frame:
    return event("tool-call-delta", index, tool_calls={"function": {"arguments": text}})


def text(piece: str, index: int = 0) -> Frame:
    return event("content-delta", index, content={"text": piece})


def end(**delta: Any) -> Frame:
    return Frame(json.dumps({"type": "message-end", "delta": delta}).encode())


def feed(*frames: Frame) -> list[Delta]:
    decoder = CohereDecoder()
    return [delta for frame in frames for delta in decoder.feed(frame)] + decoder.close()


def faults(deltas: list[Delta]) -> list[str]:
    return [delta.fault.type for delta in deltas if isinstance(delta, Failure)]


# --- text, thought, plans -------------------------------------------------------------------------


def test_a_stream_has_reasoning_text_and_a_finish() -> None:
    start = {"id": "r", "type": "message-start", "delta": {"message": {"content": []}}}
    assert feed(
        Frame(json.dumps(start).encode()),
        event("content-start", 0, content={"type": "thinking", "thinking": ""}),
        event("content-delta", 0, content={"thinking": "h"}),
        event("content-delta", 0, content={"thinking": "m"}),
        event("content-end", 0),
        event("content-start", 1, content={"type": "text", "text": ""}),
        text("Well", 1),
        event("content-end", 1),
        end(finish_reason="COMPLETE", usage=USAGE),
    ) == [
        Start(None, "r"),
        Reasoning("h"),
        Reasoning("m"),
        ReasoningState("cohere.thinking", "hm", "block"),
        Text("Well"),
        COUNTED,
        Finish("COMPLETE"),
    ]


def test_logprobs_and_unknown_content_become_extras() -> None:
    scored = {"type": "content-delta", "index": 0, "logprobs": {"text": "a", "logprobs": [-1]}}
    content = {"delta": {"message": {"content": {"text": "a"}}}}
    frame = Frame(json.dumps(scored | content).encode())
    assert feed(frame) == [Text("a"), Extra("logprobs", {"text": "a", "logprobs": [-1]})]
    assert feed(event("content-start", 0, content={"type": "hologram"})) == [
        Extra("content", {"type": "hologram"}, is_output=True)
    ]
    assert feed(event("tool-plan-delta", tool_plan=1), event("content-delta", 0)) == []


# --- calls ----------------------------------------------------------------------------------------


def test_interleaved_calls_keep_their_arguments_apart() -> None:
    other = CALL | {"id": "d"}
    assert feed(
        event("tool-call-start", 0, tool_calls=CALL),
        event("tool-call-start", 1, tool_calls=[other]),
        arguments("{", 0),
        arguments("{}", 1),
        event("tool-call-end", 1),
        arguments("}", 0),
        event("tool-call-end", 0),
    ) == [
        ToolCall(0, "c", "look"),
        ToolCall(1, "d", "look"),
        ToolCall(0, arguments="{"),
        ToolCall(1, arguments="{}"),
        ToolEnd(1),
        ToolCall(0, arguments="}"),
        ToolEnd(0),
    ]


def test_a_call_without_arguments_has_an_empty_object() -> None:
    assert feed(
        event("tool-call-start", 0, tool_calls=CALL),
        arguments(""),
        event("tool-call-end", 0),
    ) == [ToolCall(0, "c", "look"), ToolCall(0, arguments="{}"), ToolEnd(0)]


def test_a_reused_index_starts_another_call() -> None:
    start = event("tool-call-start", 0, tool_calls=CALL)
    stop = event("tool-call-end", 0)
    calls = [d for d in feed(start, stop, start, stop) if isinstance(d, ToolEnd)]
    assert [call.index for call in calls] == [0, 1]


def test_deltas_and_ends_without_a_call_change_nothing() -> None:
    stray, *rest = feed(arguments("{}"), event("tool-call-end", 3), event("tool-call-start", "x"))
    assert isinstance(stray, Extra)
    assert rest == []


def test_a_malformed_call_becomes_an_extra() -> None:
    assert feed(event("tool-call-start", 0, tool_calls=["look"])) == [Extra("tool_call", '"look"')]
    start = event("tool-call-start", 0, tool_calls=CALL)
    [_, odd] = feed(start, event("tool-call-delta", 0, tool_calls="look"))
    assert isinstance(odd, Extra)


def test_an_index_that_is_not_a_number_is_zero() -> None:
    start = event("tool-call-start", "0", tool_calls=CALL)
    assert feed(start, arguments("{}"))[-1] == ToolCall(0, arguments="{}")


# --- citations ------------------------------------------------------------------------------------


def citation(begin: int, end: int, *sources: Any, **fields: Any) -> dict[str, Any]:
    return {"start": begin, "end": end, "text": "x", "sources": list(sources), **fields}


PAGE = {"type": "document", "document": {"url": "https://x.test/", "title": "X"}}
FOUND = {"type": "tool", "tool_output": {"url": "https://y.test/"}}
PAPER = {"type": "document", "document": {"title": "no address"}}


def note(url: str, title: str, begin: int, end: int) -> Annotation:
    kind = {"type": "url_citation", "url": url, "title": title}
    return Annotation({**kind, "start_index": begin, "end_index": end})


def test_a_source_with_a_url_becomes_an_annotation() -> None:
    cited = citation(0, 4, PAGE, PAPER, FOUND, type="TEXT_CONTENT")
    assert feed(
        text("Ruby"), event("citation-start", 0, citations=cited), event("citation-end", 0)
    ) == [
        Text("Ruby"),
        note("https://x.test/", "X", 0, 4),
        note("https://y.test/", "", 0, 4),
    ]


def test_citation_offsets_are_relative_to_the_message() -> None:
    deltas = feed(
        text("One. ", 0),
        text("Two.", 1),
        event("citation-start", 0, citations=citation(0, 3, PAGE, content_index=1)),
        event("citation-start", 1, citations=citation(0, 3, PAGE, content_index=0)),
        event("citation-start", 2, citations=citation(0, 3, PAGE)),
        event("content-delta", 2, content={"thinking": "hm"}),
        text("Three.", 3),
        event("citation-start", 3, citations=citation(0, 5, PAGE, content_index=3)),
    )
    places = [
        (each.annotation["start_index"], each.annotation["end_index"])
        for each in deltas
        if isinstance(each, Annotation)
    ]
    assert places == [(5, 8), (0, 3), (5, 8), (0, 5)]


@pytest.mark.parametrize(
    "cited",
    [
        citation(0, 4, PAPER),
        citation(0, 4, PAGE, type="PLAN"),
        citation(0, 4, PAGE, type="THINKING_CONTENT"),
        {"sources": 1},
        "x",
    ],
)
def test_citations_without_a_url_become_extras(cited: Any) -> None:
    assert feed(event("citation-start", 0, citations=cited)) == [Extra("citation", cited)]
    assert feed(event("citation-start", 0)) == []


# --- the end --------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"[DONE]", b'"[DONE]"', end().data])
def test_a_message_end_or_done_marker_ends_the_stream(data: bytes) -> None:
    decoder = CohereDecoder()
    decoder.feed(text("a"))
    assert not decoder.ended
    decoder.feed(Frame(data))
    assert decoder.ended


def test_an_empty_message_end_has_no_finish_reason() -> None:
    assert feed(Frame(b'{"type":"message-end"}')) == [Finish(None)]


@pytest.mark.parametrize(
    ("delta", "fault"),
    [
        ({"error": "internal server error", "finish_reason": "ERROR"}, "api_error"),
        ({"error": "odd", "finish_reason": "ERROR"}, "api_error"),
        ({"error": "odd", "finish_reason": "TIMEOUT"}, "timeout"),
        ({"error": "too many tokens"}, "context_length"),
        ({"error": {"message": "rate limit"}}, "rate_limit"),
    ],
)
def test_an_error_at_the_end_is_a_failure(delta: dict[str, Any], fault: str) -> None:
    assert faults(feed(text("a"), end(**delta))) == [fault]


def test_an_error_finish_reason_without_an_error_is_passed_on() -> None:
    assert feed(end(finish_reason="ERROR")) == [Finish("ERROR")]


# --- what is not as agreed ------------------------------------------------------------------------


def test_an_unknown_event_is_an_error_or_an_extra() -> None:
    assert feed(Frame(b'{"type":"debug","prompt":"x"}')) == [
        Extra("frame", {"type": "debug", "prompt": "x"})
    ]
    assert faults(feed(Frame(b'{"message":"invalid api token","id":"x"}'))) != []
    assert faults(feed(Frame(b'{"type":"error","message":"rate limit"}'))) == ["rate_limit"]


def test_an_event_without_a_type_uses_the_sse_event_name() -> None:
    body = b'{"index":0,"delta":{"message":{"content":{"text":"a"}}}}'
    assert feed(Frame(body, "content-delta")) == [Text("a")]


def test_a_broken_frame_is_a_failure_unless_the_message_is_finished() -> None:
    assert faults(feed(Frame(b'{"type":'))) == ["protocol"]
    assert feed(end(finish_reason="COMPLETE"), Frame(b"oops")) == [
        Finish("COMPLETE"),
        Extra("unreadable_frame", 4),
    ]
