"""Decoding of version 1 of Cohere's chat API, for recordings and old proxies."""

from __future__ import annotations

import json
from typing import Any

from antiphon import replay
from antiphon.core.deltas import (
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
from antiphon.dialects.cohere.decode import CohereDecoder, decode
from antiphon.dialects.content_blocks import url_citation
from antiphon.framing.sse import Frame

META = {"tokens": {"input_tokens": 3, "output_tokens": 4}}
CALLS = [{"name": "look", "parameters": {"x": 1}}, {"name": "listen"}, 7]
END = {"finish_reason": "COMPLETE", "response": {"text": "Well.", "meta": META}}
CALLED = [
    ToolCall(0, None, "look", '{"x": 1}'),
    ToolEnd(0),
    ToolCall(1, None, "listen", "{}"),
    ToolEnd(1),
    Extra("tool_call", "7"),
]


def event(kind: str, **fields: Any) -> bytes:
    return json.dumps({"is_finished": False, "event_type": kind, **fields}).encode()


def feed(*lines: bytes) -> list[Delta]:
    decoder = CohereDecoder()
    return [delta for line in lines for delta in decoder.feed(Frame(line))]


def test_a_stream_has_text_and_a_finish() -> None:
    assert feed(
        event("stream-start", generation_id="g"),
        event("text-generation", text="We"),
        event("text-generation", text="ll."),
        event("text-generation", text=None),
        event("citation-generation", citations=[]),
        event("stream-end", **END),
    ) == [
        Start(None, "g"),
        Text("We"),
        Text("ll."),
        Extra("frame", json.loads(event("citation-generation", citations=[]))),
        Usage(3, 4),
        Finish("COMPLETE"),
    ]


def test_stream_end_ends_the_stream() -> None:
    decoder = CohereDecoder()
    decoder.feed(Frame(event("text-generation", text="a")))
    assert not decoder.ended
    assert decoder.feed(Frame(event("stream-end", finish_reason="MAX_TOKENS", response=None))) == [
        Finish("MAX_TOKENS")
    ]
    assert decoder.ended


def test_whole_calls_follow_the_streamed_plan() -> None:
    deltas = feed(
        event("tool-calls-chunk", text="I will"),
        event("tool-calls-chunk", text=" look."),
        event("tool-calls-chunk", tool_call_delta={"index": 0, "name": "look"}),
        event("tool-calls-generation", text="I will look.", tool_calls=CALLS),
    )
    state = ReasoningState("cohere.tool_plan", "I will look.", "block")
    assert deltas == [Reasoning("I will"), Reasoning(" look."), state, *CALLED]


def test_a_plan_that_was_not_streamed_precedes_its_calls() -> None:
    state = ReasoningState("cohere.tool_plan", "I will look.", "block")
    calls = event("tool-calls-generation", text="I will look.", tool_calls=CALLS)
    assert feed(calls) == [Reasoning("I will look."), state, *CALLED]
    assert feed(event("tool-calls-generation", tool_calls=[])) == []


def test_a_whole_response_gives_its_text() -> None:
    body = {"generation_id": "g", "text": "Well.", "finish_reason": "COMPLETE", "meta": META}
    assert decode(json.dumps(body).encode()) == [
        Start(None, "g"),
        Text("Well."),
        Usage(3, 4),
        Finish("COMPLETE"),
    ]


def test_text_beside_calls_in_a_whole_response_is_the_plan() -> None:
    body = {"generation_id": "g", "text": "I will.", "tool_calls": CALLS, "citations": [1]}
    assert decode(json.dumps(body).encode()) == [
        Start(None, "g"),
        Reasoning("I will."),
        ReasoningState("cohere.tool_plan", "I will.", "block"),
        *CALLED,
        Extra("citation", 1),
        Finish("COMPLETE"),
    ]


def test_a_whole_response_of_2024_has_no_finish_reason_and_is_complete() -> None:
    """As in a cassette of traceloop/openllmetry of 12 February 2024 (`test_cohere_chat.yaml`)."""
    body = {"generation_id": "g", "text": "Well.", "token_count": {"total_tokens": 7}}
    assert decode(json.dumps(body).encode())[1:] == [Text("Well."), Finish("COMPLETE")]


SEARCHED: dict[str, list[Any]] = {
    "documents": [
        {"id": "web_0", "title": "Rain", "url": "https://a.example"},
        {"id": "own_0", "snippet": "It rains."},
        7,
    ],
    "citations": [
        {"start": 0, "end": 4, "text": "Well", "document_ids": ["web_0", "own_0", "lost"]},
        {"start": 4, "end": 5, "text": ".", "document_ids": ["own_0"]},
        {"start": 4, "end": 5, "text": "."},
    ],
}
CITED = [
    url_citation("https://a.example", "Rain", 0, 4),
    *(Extra("citation", citation) for citation in SEARCHED["citations"][1:]),
]


def test_citations_of_found_pages_are_annotations() -> None:
    body = {"generation_id": "g", "text": "Well.", **SEARCHED}
    assert decode(json.dumps(body).encode())[2:-1] == CITED
    streamed = feed(
        event("text-generation", text="Well."),
        event("stream-end", finish_reason="COMPLETE", response=SEARCHED),
    )
    assert streamed == [Text("Well."), *CITED, Finish("COMPLETE")]


def test_unreadable_events_are_failures_or_extras() -> None:
    odd = b'{"event_type":"stream-start","tool_calls":tru}'
    assert isinstance(feed(odd)[0], Failure)
    assert feed(b'{"generation_id":1,"text":["a"]}') == [Start(None, None), Finish(None)]
    assert feed(b'{"event_type":"text-generation","text":"\xff"}') == [Text("\ufffd")]


def test_deep_nesting_does_not_raise() -> None:
    nested = b"[" * 100_000 + b"]" * 100_000
    assert isinstance(feed(b'{"generation_id":"g","text":%b}' % nested)[0], Failure)


def test_recorded_lines_decode_to_a_response() -> None:
    lines = [
        event("stream-start", generation_id="g"),
        event("text-generation", text="Well."),
        event("stream-end", **END),
    ]
    final = replay(b"\n".join(lines), dialect="cohere")[-1]["response"]
    assert final["status"] == "completed"
    assert final["output"][0]["content"][0]["text"] == "Well."
    assert final["usage"]["total_tokens"] == 7
