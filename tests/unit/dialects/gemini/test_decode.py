"""Decoding of Gemini chunks, arrays of chunks and whole bodies."""

from __future__ import annotations

import json

import pytest

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
from antiphon.dialects.gemini.decode import GeminiDecoder, decode
from tests.support.dialect_samples.gemini import Document, call, chunk, decode_parts, feed, text
from tests.support.tables import table


def on_text(signature: str, **position: int) -> ReasoningState:
    return ReasoningState("gemini.thought_signature", {"signature": signature, **position}, "text")


def on_call(signature: str) -> ReasoningState:
    return ReasoningState("gemini.thought_signature", signature, "tool")


def echo(part: Document, **position: int) -> ReasoningState:
    return ReasoningState("gemini.part", {"part": part, **position}, "turn")


# --- parts ----------------------------------------------------------------------------------------

SIGNED = {"thoughtSignature": "s"}
CODE = {"executableCode": {"language": "PYTHON", "code": "1"}}
RESULT = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}
IMAGE = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}


@table(
    ("parts", "expected"),
    [
        ([], []),
        ([{}], []),
        ([text("")], []),
        ([text("a"), text("b")], [Text("a"), Text("b")]),
        ([text("hm", thought=True), text("a")], [Reasoning("hm", "summary"), Text("a")]),
        ([text("", thought=True)], []),
        ([text("a", thought=False)], [Text("a")]),
        ([call()], [ToolCall(0, None, "f", "{}"), ToolEnd(0)]),
        ([call(args=None, id="")], [ToolCall(0, None, "f", "{}"), ToolEnd(0)]),
        ([call(args={"é": [1]}, id="x")], [ToolCall(0, "x", "f", '{"é":[1]}'), ToolEnd(0)]),
        ([IMAGE], [Extra("inlineData", IMAGE["inlineData"], is_output=True)]),
        ([IMAGE | SIGNED], [Extra("inlineData", IMAGE["inlineData"], is_output=True)]),
        ([{"hologram": 1}], [Extra("part", {"hologram": 1}, is_output=True)]),
        ([{"text": 5}], [Extra("part", {"text": 5}, is_output=True)]),
        ([{"functionCall": "odd"}], [Extra("part", {"functionCall": "odd"}, is_output=True)]),
        ([{"thoughtSummary": "**Plan**"}], [Reasoning("**Plan**", "summary")]),
        (
            [{"text": "a", "thoughtSummary": "**Plan**"}],
            [Reasoning("**Plan**", "summary"), Text("a")],
        ),
        (
            [{"text": "**Plan**", "thought": True, "thoughtSummary": "**Plan**"}],
            [Reasoning("**Plan**", "summary")],
        ),
        (
            [{"thoughtSummary": {"odd": 1}}],
            [Extra("part", {"thoughtSummary": {"odd": 1}}, is_output=True)],
        ),
        (["odd"], [Extra("part", "odd", is_output=True)]),
    ],
)
def test_parts_become_deltas_in_their_order(parts: list[object], expected: list[Delta]) -> None:
    assert decode_parts(*parts) == expected


def test_calls_are_numbered_in_the_order_of_arrival() -> None:
    assert feed(chunk(call("f"), call("g", args={"a": 1})), chunk(call("f"))) == [
        *(ToolCall(0, None, "f", "{}"), ToolEnd(0)),
        *(ToolCall(1, None, "g", '{"a":1}'), ToolEnd(1)),
        *(ToolCall(2, None, "f", "{}"), ToolEnd(2)),
    ]


def test_a_call_without_a_name_is_emitted_without_one() -> None:
    assert decode_parts({"functionCall": {"args": {"a": 1}}}) == [
        ToolCall(0, None, None, '{"a":1}'),
        ToolEnd(0),
    ]


def test_an_empty_function_call_without_an_open_call_is_ignored() -> None:
    assert decode_parts(text("a"), {"functionCall": {}}, text("b")) == [Text("a"), Text("b")]
    assert decode_parts({"functionCall": {"willContinue": False}}) == []


# --- state for the next request -------------------------------------------------------------------


def test_the_signature_of_a_call_is_emitted_directly_before_it() -> None:
    deltas = decode_parts(text("hm", thought=True), call() | SIGNED, call("g"))
    assert deltas == [
        Reasoning("hm", "summary"),
        on_call("s"),
        *(ToolCall(0, None, "f", "{}"), ToolEnd(0)),
        *(ToolCall(1, None, "g", "{}"), ToolEnd(1)),
    ]


def test_a_signature_of_text_records_its_range() -> None:
    deltas = feed(chunk(text("The ", **SIGNED)), chunk(text("end")), chunk(text("", **SIGNED)))
    assert deltas == [
        Text("The "),
        on_text("s", start=0, end=4),
        Text("end"),
        on_text("s", start=7, end=7),
    ]


def test_positions_restart_after_another_kind_of_part() -> None:
    for between in (call(), text("hm", thought=True)):
        deltas = decode_parts(text("Hello"), between, text("you", **SIGNED))
        assert deltas[-1] == on_text("s", start=0, end=3)


def test_state_between_two_texts_is_positioned_in_the_first() -> None:
    thought = text("hm", thought=True, **SIGNED)
    deltas = decode_parts(text("Hello"), thought, text("you"))
    assert deltas[2] == echo(thought, start=5)


def test_a_signature_without_text_has_no_range() -> None:
    assert decode_parts(text("", **SIGNED)) == [on_text("s")]
    assert decode_parts(text("", thought=True, **SIGNED)) == [
        echo(text("", thought=True, **SIGNED))
    ]


def test_parts_of_server_side_tools_are_echoed_and_not_emitted_as_calls() -> None:
    tool = {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "id": "x"}, **SIGNED}
    assert decode_parts(tool, text("a"), CODE, RESULT, text("b")) == [
        Extra("toolCall", tool["toolCall"]),
        echo(tool),
        Text("a"),
        *(Extra("executableCode", CODE["executableCode"]), echo(CODE, start=1)),
        *(Extra("codeExecutionResult", RESULT["codeExecutionResult"]), echo(RESULT, start=1)),
        Text("b"),
    ]


def test_an_unknown_part_with_a_signature_is_echoed() -> None:
    part = {"hologram": 1, **SIGNED}
    assert decode_parts(part) == [Extra("part", part, is_output=True), echo(part)]


# --- candidates -----------------------------------------------------------------------------------


def test_only_the_first_candidate_is_decoded() -> None:
    second = {"content": {"parts": [text("b")]}, "index": 1, "finishReason": "STOP"}
    first = {"content": {"parts": [text("a")]}, "index": 0}
    assert feed({"candidates": [first, second]}, {"candidates": [second]}) == [
        Text("a"),
        Extra("candidate", second, is_output=True),
        Extra("candidate", second, is_output=True),
    ]


def test_candidates_without_an_index_are_numbered_by_position() -> None:
    both = [{"content": {"parts": [text(word)]}} for word in "ab"]
    assert feed({"candidates": both}) == [Text("a"), Extra("candidate", both[1], is_output=True)]


@pytest.mark.parametrize(
    "candidate",
    [{}, {"content": None}, {"content": {}}, {"content": {"parts": None}}, {"content": "odd"}],
)
def test_a_candidate_without_content_gives_no_deltas(candidate: Document) -> None:
    assert feed({"candidates": [candidate]}) == []


@pytest.mark.parametrize("odd", [{"candidates": "odd"}, {"candidates": None}, {}])
def test_a_chunk_without_candidates_gives_no_deltas(odd: Document) -> None:
    assert feed(odd) == []


def test_a_candidate_that_is_not_an_object_becomes_an_extra() -> None:
    assert feed({"candidates": [5]}) == [Extra("candidate", 5, is_output=True)]


def test_metadata_of_a_candidate_becomes_extras() -> None:
    urls = {"urlMetadata": [{"retrievedUrl": "https://a.test"}]}
    deltas = decode_parts(
        text("a"), urlContextMetadata=urls, finishMessage="Done.", finishReason="STOP"
    )
    assert deltas == [
        Text("a"),
        Extra("urlContextMetadata", urls),
        Extra("finishMessage", "Done."),
        Finish("STOP"),
    ]


def test_the_model_version_is_emitted_once() -> None:
    decoder = GeminiDecoder()
    first = {"modelVersion": "gemini-x", "responseId": "r", **chunk(text("a"))}
    deltas = decoder.read([first, first])
    assert deltas == [Start("gemini-x", "r"), Text("a"), Text("a")]


def test_a_chunk_with_usage_alone_does_not_start_a_response() -> None:
    assert GeminiDecoder().read({"usageMetadata": {"promptTokenCount": 1}}) == [Usage(1)]


# --- whole answers --------------------------------------------------------------------------------


def test_a_whole_body_and_an_array_of_chunks_decode_like_a_stream() -> None:
    one = {**chunk(text("a")), "modelVersion": "m"}
    two = chunk(call() | SIGNED, finishReason="STOP")
    expected = [
        *(Start("m"), Text("a"), on_call("s")),
        *(ToolCall(0, None, "f", "{}"), ToolEnd(0), Finish("STOP")),
    ]
    assert decode(json.dumps([one, two]).encode()) == expected
    assert decode(json.dumps([one, two], indent=1).encode()) == expected
    whole = {**chunk(text("a"), call() | SIGNED, finishReason="STOP"), "modelVersion": "m"}
    assert decode(json.dumps(whole).encode()) == expected


def test_an_unfinished_call_in_an_array_is_incomplete() -> None:
    body = json.dumps([chunk({"functionCall": {"name": "f", "willContinue": True}})]).encode()
    assert decode(body)[-1] == ToolEnd(0, complete=False)


@table("body", [b"", b"nope", b"5", b"null", b"{", b"data: {}"])
def test_a_body_that_is_not_a_response_is_a_failure(body: bytes) -> None:
    [delta] = decode(body)
    assert isinstance(delta, Failure)
