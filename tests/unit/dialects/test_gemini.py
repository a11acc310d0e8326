"""Gemini's answers: chunks, arrays of chunks and whole bodies to deltas."""

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
from antiphon.core.faults import ProviderFault
from antiphon.core.plan import Plan
from antiphon.dialects.dialect import resolve
from antiphon.dialects.gemini import GeminiDecoder, GeminiDialect, decode
from antiphon.dialects.gemini_request import GeminiQuirks
from antiphon.wire.sse import Frame

Document = dict[str, Any]


def feed(*chunks: object, decoder: GeminiDecoder | None = None) -> list[Delta]:
    """The deltas of these chunks, without who is answering."""
    decoder = decoder or GeminiDecoder()
    frames = [
        Frame(chunk if isinstance(chunk, bytes) else json.dumps(chunk).encode()) for chunk in chunks
    ]
    deltas = [delta for frame in frames for delta in decoder.feed(frame)]
    return [delta for delta in deltas if not isinstance(delta, Start)]


def chunk(*parts: object, **candidate: Any) -> Document:
    return {"candidates": [{"content": {"parts": list(parts), "role": "model"}, **candidate}]}


def says(*parts: object, **candidate: Any) -> list[Delta]:
    return feed(chunk(*parts, **candidate))


def text(content: str, **more: Any) -> Document:
    return {"text": content, **more}


def call(name: str = "f", **more: Any) -> Document:
    return {"functionCall": {"name": name, **more}}


def on_text(signature: str, **place: int) -> ReasoningState:
    return ReasoningState("gemini.thought_signature", {"signature": signature, **place}, "text")


def on_call(signature: str) -> ReasoningState:
    return ReasoningState("gemini.thought_signature", signature, "tool")


def echo(part: Document, **place: int) -> ReasoningState:
    return ReasoningState("gemini.part", {"part": part, **place}, "turn")


def fault(deltas: list[Delta]) -> ProviderFault:
    [failure] = [delta for delta in deltas if isinstance(delta, Failure)]
    return failure.fault


# --- parts ----------------------------------------------------------------------------------------

SIGNED = {"thoughtSignature": "s"}
CODE = {"executableCode": {"language": "PYTHON", "code": "1"}}
RESULT = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}
IMAGE = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}


@pytest.mark.parametrize(
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
        ([IMAGE], [Extra("inlineData", IMAGE["inlineData"])]),
        ([IMAGE | SIGNED], [Extra("inlineData", IMAGE["inlineData"])]),
        ([{"hologram": 1}], [Extra("part", {"hologram": 1})]),
        ([{"text": 5}], [Extra("part", {"text": 5})]),
        ([{"functionCall": "odd"}], [Extra("part", {"functionCall": "odd"})]),
        (["odd"], [Extra("part", "odd")]),
    ],
)
def test_parts_are_told_in_their_order(parts: list[object], expected: list[Delta]) -> None:
    assert says(*parts) == expected


def test_several_calls_are_told_apart_by_their_arrival() -> None:
    assert feed(chunk(call("f"), call("g", args={"a": 1})), chunk(call("f"))) == [
        *(ToolCall(0, None, "f", "{}"), ToolEnd(0)),
        *(ToolCall(1, None, "g", '{"a":1}'), ToolEnd(1)),
        *(ToolCall(2, None, "f", "{}"), ToolEnd(2)),
    ]


def test_a_call_without_a_name_is_told_as_it_came() -> None:
    assert says({"functionCall": {"args": {"a": 1}}}) == [
        ToolCall(0, None, None, '{"a":1}'),
        ToolEnd(0),
    ]


def test_the_end_of_a_call_that_has_ended_says_nothing() -> None:
    assert says(text("a"), {"functionCall": {}}, text("b")) == [Text("a"), Text("b")]
    assert says({"functionCall": {"willContinue": False}}) == []


# --- what must come back --------------------------------------------------------------------------


def test_the_signature_of_a_call_stands_right_before_it() -> None:
    deltas = says(text("hm", thought=True), call() | SIGNED, call("g"))
    assert deltas == [
        Reasoning("hm", "summary"),
        on_call("s"),
        *(ToolCall(0, None, "f", "{}"), ToolEnd(0)),
        *(ToolCall(1, None, "g", "{}"), ToolEnd(1)),
    ]


def test_a_signature_on_text_says_which_stretch_it_sits_on() -> None:
    deltas = feed(chunk(text("The ", **SIGNED)), chunk(text("end")), chunk(text("", **SIGNED)))
    assert deltas == [
        Text("The "),
        on_text("s", start=0, end=4),
        Text("end"),
        on_text("s", start=7, end=7),
    ]


def test_text_after_something_else_is_counted_anew() -> None:
    for between in (call(), text("hm", thought=True)):
        deltas = says(text("Hello"), between, text("you", **SIGNED))
        assert deltas[-1] == on_text("s", start=0, end=3)


def test_state_between_two_stretches_of_text_counts_from_the_first() -> None:
    thought = text("hm", thought=True, **SIGNED)
    deltas = says(text("Hello"), thought, text("you"))
    assert deltas[2] == echo(thought, start=5)


def test_a_signature_without_any_text_says_no_place() -> None:
    assert says(text("", **SIGNED)) == [on_text("s")]
    assert says(text("", thought=True, **SIGNED)) == [echo(text("", thought=True, **SIGNED))]


def test_parts_of_the_servers_own_tools_are_echoed_and_are_no_calls() -> None:
    tool = {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "id": "x"}, **SIGNED}
    assert says(tool, text("a"), CODE, RESULT, text("b")) == [
        Extra("toolCall", tool["toolCall"]),
        echo(tool),
        Text("a"),
        *(Extra("executableCode", CODE["executableCode"]), echo(CODE, start=1)),
        *(Extra("codeExecutionResult", RESULT["codeExecutionResult"]), echo(RESULT, start=1)),
        Text("b"),
    ]


def test_a_signed_part_that_nobody_knows_is_echoed() -> None:
    part = {"hologram": 1, **SIGNED}
    assert says(part) == [Extra("part", part), echo(part)]


# --- candidates -----------------------------------------------------------------------------------


def test_only_the_first_candidate_answers() -> None:
    second = {"content": {"parts": [text("b")]}, "index": 1, "finishReason": "STOP"}
    first = {"content": {"parts": [text("a")]}, "index": 0}
    assert feed({"candidates": [first, second]}, {"candidates": [second]}) == [
        Text("a"),
        Extra("candidate", second),
        Extra("candidate", second),
    ]


def test_candidates_that_are_not_numbered_are_told_apart_by_their_place() -> None:
    both = [{"content": {"parts": [text(word)]}} for word in "ab"]
    assert feed({"candidates": both}) == [Text("a"), Extra("candidate", both[1])]


@pytest.mark.parametrize(
    "candidate",
    [{}, {"content": None}, {"content": {}}, {"content": {"parts": None}}, {"content": "odd"}],
)
def test_a_candidate_without_content_says_nothing(candidate: Document) -> None:
    assert feed({"candidates": [candidate]}) == []


@pytest.mark.parametrize("odd", [{"candidates": "odd"}, {"candidates": None}, {}])
def test_a_chunk_without_candidates_says_nothing(odd: Document) -> None:
    assert feed(odd) == []


def test_a_candidate_that_is_no_object_is_kept_for_the_trace() -> None:
    assert feed({"candidates": [5]}) == [Extra("candidate", 5)]


def test_what_stands_beside_the_content_is_kept_for_the_trace() -> None:
    urls = {"urlMetadata": [{"retrievedUrl": "https://a.test"}]}
    deltas = says(text("a"), urlContextMetadata=urls, finishMessage="Done.", finishReason="STOP")
    assert deltas == [
        Text("a"),
        Extra("urlContextMetadata", urls),
        Extra("finishMessage", "Done."),
        Finish("STOP"),
    ]


def test_who_answers_is_said_once() -> None:
    decoder = GeminiDecoder()
    first = {"modelVersion": "gemini-x", "responseId": "r", **chunk(text("a"))}
    deltas = decoder.read([first, first])
    assert deltas == [Start("gemini-x", "r"), Text("a"), Text("a")]


def test_nobody_answers_a_chunk_that_only_counts() -> None:
    assert GeminiDecoder().read({"usageMetadata": {"promptTokenCount": 1}}) == [Usage(1)]


# --- citations ------------------------------------------------------------------------------------


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


def grounding(*supports: tuple[int, int, list[Any]]) -> Document:
    return {
        "groundingChunks": [
            {"web": {"uri": "https://a.test", "title": "A"}},
            {"retrievedContext": {"text": "no address"}},
            {"maps": {"uri": "https://maps.test", "title": None}},
            "odd",
        ],
        "groundingSupports": [
            {"segment": {"startIndex": begin, "endIndex": end}, "groundingChunkIndices": indices}
            for begin, end, indices in supports
        ],
    }


def test_grounding_cites_its_sources_by_characters() -> None:
    found = grounding((0, 3, [0]), (3, 6, [2, 0]))
    assert says(text("°a"), text("bcd"), groundingMetadata=found) == [
        *(Text("°a"), Text("bcd")),
        cited("https://a.test", 0, 2, "A"),
        cited("https://maps.test", 2, 5),
        cited("https://a.test", 2, 5, "A"),
        Extra("groundingMetadata", found),
    ]


@pytest.mark.parametrize(
    ("segment", "place"),
    [
        ({"startIndex": 0, "endIndex": 3, "text": "°a"}, (0, 2)),
        ({"startIndex": 0, "endIndex": 2, "text": "cd"}, (3, 5)),
        ({"startIndex": 3, "endIndex": 4, "text": "nowhere"}, (2, 3)),
        ({"startIndex": 3, "endIndex": 4, "text": ""}, (2, 3)),
        ({"startIndex": 3, "endIndex": 4, "text": 5}, (2, 3)),
    ],
)
def test_a_segment_that_quotes_its_text_is_found_by_it(
    segment: Document, place: tuple[int, int]
) -> None:
    found: Document = {"groundingChunks": [{"web": {"uri": "https://a.test"}}]}
    found["groundingSupports"] = [{"segment": segment, "groundingChunkIndices": [0]}]
    assert says(text("°abcd"), groundingMetadata=found)[1] == cited("https://a.test", *place)


def test_a_place_beyond_the_text_counts_on() -> None:
    deltas = says(text("°a"), groundingMetadata=grounding((3, 10, [0])))
    assert deltas[1] == cited("https://a.test", 2, 9, "A")


def test_sources_without_an_address_are_only_traced() -> None:
    found = grounding((0, 1, [1, 3, 9, -1, "x"]))
    assert says(groundingMetadata=found) == [Extra("groundingMetadata", found)]


@pytest.mark.parametrize(
    "odd",
    [
        {"groundingChunks": "odd", "groundingSupports": [{"groundingChunkIndices": [0]}]},
        {"groundingSupports": ["odd", {}, {"groundingChunkIndices": "odd"}]},
        {"groundingSupports": "odd", "webSearchQueries": ["q"]},
    ],
)
def test_odd_grounding_is_only_traced(odd: Document) -> None:
    assert says(groundingMetadata=odd) == [Extra("groundingMetadata", odd)]


@pytest.mark.parametrize("empty", [{}, None, [], "odd"])
def test_empty_grounding_says_nothing(empty: object) -> None:
    assert says(groundingMetadata=empty, citationMetadata=empty) == []


def test_grounding_that_comes_again_is_cited_once() -> None:
    found = grounding((0, 1, [0]))
    deltas = feed(chunk(text("a"), groundingMetadata=found), chunk(groundingMetadata=found))
    assert [delta for delta in deltas if isinstance(delta, Annotation)] == [
        cited("https://a.test", 0, 1, "A")
    ]


def test_grounding_without_a_segment_cites_the_beginning() -> None:
    found: Document = {"groundingChunks": [{"web": {"uri": "https://a.test"}}]}
    found["groundingSupports"] = [{"groundingChunkIndices": [0]}]
    assert says(text("a"), groundingMetadata=found)[1] == cited("https://a.test", 0, 0)


@pytest.mark.parametrize("key", ["citationSources", "citations"])
def test_citations_are_annotations_where_they_have_an_address(key: str) -> None:
    bare = {"startIndex": 1, "license": "mit"}
    sources = [{"startIndex": 1, "endIndex": 2, "uri": "https://a.test", "title": "A"}, bare, "odd"]
    assert says(text("abc"), citationMetadata={key: sources}) == [
        Text("abc"),
        cited("https://a.test", 1, 2, "A"),
        Extra("citation", bare),
    ]


# --- counting -------------------------------------------------------------------------------------


def test_thinking_is_output_and_what_tools_brought_is_input() -> None:
    counts = {
        "promptTokenCount": 10,
        "toolUsePromptTokenCount": 5,
        "cachedContentTokenCount": 4,
        "candidatesTokenCount": 3,
        "thoughtsTokenCount": 2,
        "totalTokenCount": 20,
    }
    assert feed({"usageMetadata": counts}) == [
        Usage(15, 5, cached_tokens=4, reasoning_tokens=2, total_tokens=20)
    ]


@pytest.mark.parametrize("counts", [{"trafficType": "ON_DEMAND"}, {}, None, "odd"])
def test_a_chunk_without_counts_counts_nothing(counts: object) -> None:
    assert feed({"usageMetadata": counts}) == []


# --- the end --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("STOP", "STOP"),
        ("MAX_TOKENS", "MAX_TOKENS"),
        ("NEW_REASON", "NEW_REASON"),
        (1, "STOP"),
        (2, "MAX_TOKENS"),
        (8, "SPII"),
        (99, "99"),
        (-1, "-1"),
    ],
)
def test_a_finish_reason_is_the_providers_word(reason: object, word: str) -> None:
    assert says(text("a"), finishReason=reason) == [Text("a"), Finish(word)]


@pytest.mark.parametrize("reason", [None, "", 0, True, "FINISH_REASON_UNSPECIFIED", {}, 1.5])
def test_no_finish_reason_says_nothing(reason: object) -> None:
    assert says(text("a"), finishReason=reason) == [Text("a")]


@pytest.mark.parametrize(
    "reason",
    [
        "MALFORMED_FUNCTION_CALL",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "MALFORMED_RESPONSE",
    ],
)
def test_a_mishap_of_the_model_may_be_tried_again(reason: str) -> None:
    deltas = says(text("a"), finishReason=reason, finishMessage="Malformed call: x")
    assert deltas[0] == Text("a")
    found = fault(deltas)
    assert (found.code, found.retryable, found.scope) == ("tool_use_failed", True, "model")
    assert found.message == "Malformed call: x"


def test_a_missing_signature_is_a_rejected_state() -> None:
    found = fault(says(finishReason="MISSING_THOUGHT_SIGNATURE"))
    assert (found.code, found.retryable) == ("reasoning_rejected", True)


def test_a_reason_of_its_own_without_an_answer_is_the_providers_fault() -> None:
    for parts in ([], [text("hm", thought=True)]):
        found = fault(says(*parts, finishReason="OTHER", finishMessage="It failed."))
        assert (found.code, found.retryable) == ("server_error", True)


def test_a_reason_of_its_own_leaves_an_answer_incomplete() -> None:
    assert says(text("a"), finishReason="OTHER")[1:] == [Finish("other_after_output")]
    assert says(call(), finishReason="OTHER")[2:] == [Finish("other_after_output")]
    assert feed(chunk(text("a")), chunk(finishReason=5))[1:] == [Finish("other_after_output")]


@pytest.mark.parametrize("reason", ["SAFETY", "OTHER", "PROHIBITED_CONTENT", "NEW_REASON"])
def test_a_blocked_prompt_is_a_fault_of_its_content(reason: str) -> None:
    found = fault(feed({"promptFeedback": {"blockReason": reason}}))
    assert (found.type, found.code) == ("content_blocked", reason)
    assert (found.retryable, found.scope) == (False, "content")


def test_a_reason_that_is_a_number_is_not_shown() -> None:
    assert fault(feed({"promptFeedback": {"blockReason": 1}})).code == "content_filter"


@pytest.mark.parametrize(
    "feedback",
    [
        None,
        "odd",
        {},
        {"safetyRatings": []},
        {"blockReason": None},
        {"blockReason": 0},
        {"blockReason": "BLOCK_REASON_UNSPECIFIED"},
    ],
)
def test_feedback_that_blocks_nothing_says_nothing(feedback: object) -> None:
    assert feed({"promptFeedback": feedback, **chunk(text("a"))}) == [Text("a")]


def test_text_in_a_blocked_chunk_is_told_before_the_failure() -> None:
    blocked = {**chunk(text("a")), "promptFeedback": {"blockReason": "SAFETY"}}
    deltas = feed(blocked)
    assert deltas[0] == Text("a")
    assert isinstance(deltas[1], Failure)


def test_a_block_in_the_middle_of_an_answer_ends_it() -> None:
    deltas = feed(chunk(text("a")), {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})
    assert deltas == [Text("a"), Finish("content_filter")]


# --- errors ---------------------------------------------------------------------------------------

BUSY = {
    "error": {
        "code": 429,
        "message": "Quota exceeded for requests per minute.",
        "status": "RESOURCE_EXHAUSTED",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37s"}],
    }
}


def test_an_error_in_a_stream_is_classified() -> None:
    found = fault(feed(chunk(text("a")), BUSY))
    assert (found.code, found.retryable, found.scope) == ("rate_limit_exceeded", True, "key")
    assert found.retry_after_s == 37.0
    assert fault(feed({**BUSY, **chunk(text("a"))})).status == 429


@pytest.mark.parametrize("body", [BUSY, [BUSY]])
def test_an_error_body_is_classified_bare_and_in_an_array(body: object) -> None:
    data = json.dumps(body).encode()
    dialect = GeminiDialect()
    assert fault(decode(data)).retry_after_s == 37.0
    found = dialect.classify(429, {}, data)
    assert (found.code, found.retry_after_s) == ("rate_limit_exceeded", 37.0)
    assert "Quota exceeded" not in dialect.describe(found)


@pytest.mark.parametrize("data", [b'{"candidates": [', b"<html>", b"nope", b"\xff\xfe"])
def test_an_unreadable_frame_breaks_the_protocol(data: bytes) -> None:
    assert fault(feed(data)).type == "protocol"


def test_an_unreadable_frame_cannot_spoil_an_answer_that_has_ended() -> None:
    deltas = feed(chunk(text("a"), finishReason="STOP"), b"{")
    assert deltas == [Text("a"), Finish("STOP"), Extra("unreadable_frame", 1)]
    assert feed(b"  ") == [Extra("unreadable_frame", 2)]


@pytest.mark.parametrize("data", [b"5", b'"ping"', b"null", b"[5]"])
def test_a_chunk_that_is_no_object_is_kept_for_the_trace(data: bytes) -> None:
    [delta] = feed(data)
    assert isinstance(delta, Extra)


def test_a_frame_that_only_strict_readers_reject_is_read() -> None:
    data = b'{"candidates":[{"content":{"parts":[{"text":"a\\ud83d"}]}}]}'
    assert feed(data) == [Text("a\N{REPLACEMENT CHARACTER}")]


def test_a_marker_of_the_end_ends_the_stream() -> None:
    decoder = GeminiDecoder()
    assert feed(chunk(text("a"), finishReason="STOP"), decoder=decoder)
    assert not decoder.ended
    assert feed(b"[DONE]", decoder=decoder) == []
    assert decoder.ended


def test_a_call_that_was_not_finished_is_cut_when_the_stream_closes() -> None:
    decoder = GeminiDecoder()
    open_call = {"functionCall": {"name": "f", "willContinue": True}}
    assert feed(chunk(open_call), decoder=decoder) == [ToolCall(0, None, "f")]
    assert decoder.close() == [ToolEnd(0, complete=False)]
    assert decoder.close() == []


# --- whole answers --------------------------------------------------------------------------------


def test_a_whole_answer_and_an_array_of_chunks_are_read_like_a_stream() -> None:
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


def test_a_cut_call_in_an_array_is_cut() -> None:
    body = json.dumps([chunk({"functionCall": {"name": "f", "willContinue": True}})]).encode()
    assert decode(body)[-1] == ToolEnd(0, complete=False)


@pytest.mark.parametrize("body", [b"", b"nope", b"5", b"null", b"{", b"data: {}"])
def test_a_body_that_is_no_answer_fails(body: bytes) -> None:
    [delta] = decode(body)
    assert isinstance(delta, Failure)


# --- the dialect ----------------------------------------------------------------------------------


def test_the_dialect_is_found_by_its_name_and_reads_and_writes() -> None:
    dialect = resolve("gemini")
    frames = dialect.framer().feed(b'data: {"candidates":[]}\r\n\r\n')
    assert [frame.data for frame in frames] == [b'{"candidates":[]}']
    assert dialect.decoder().feed(frames[0]) == []
    assert dialect.decode(b"[]") == []
    outbound = dialect.encode(Plan(provider="p", model="m"), stream=True)
    assert outbound.path == "/models/m:streamGenerateContent?alt=sse"


def test_a_dialect_writes_with_the_quirks_of_its_provider() -> None:
    quirks = GeminiQuirks(effort="level")
    outbound = GeminiDialect(quirks=quirks).encode(Plan(provider="p", model="m"), stream=False)
    assert b'"thinkingConfig":{"includeThoughts":true}' in outbound.body
