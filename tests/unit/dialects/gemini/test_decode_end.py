"""The end of Gemini responses: finish reasons, blocked prompts, errors, unreadable frames."""

from __future__ import annotations

import json

import pytest

from antiphon.core.deltas import Extra, Failure, Finish, Text, ToolCall, ToolEnd
from antiphon.dialects.gemini.decode import GeminiDecoder, decode
from antiphon.dialects.gemini.dialect import GeminiDialect
from tests.support.dialect_samples.gemini import call, chunk, decode_parts, fault, feed, text
from tests.support.tables import table

# --- the end --------------------------------------------------------------------------------------


@table(
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
def test_a_finish_reason_is_passed_on_by_name(reason: object, word: str) -> None:
    assert decode_parts(text("a"), finishReason=reason) == [Text("a"), Finish(word)]


@table("reason", [None, "", 0, True, "FINISH_REASON_UNSPECIFIED", {}, 1.5])
def test_without_a_finish_reason_there_is_no_finish(reason: object) -> None:
    assert decode_parts(text("a"), finishReason=reason) == [Text("a")]


@pytest.mark.parametrize(
    "reason",
    [
        "MALFORMED_FUNCTION_CALL",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "MALFORMED_RESPONSE",
    ],
)
def test_a_malformed_generation_is_a_retryable_fault(reason: str) -> None:
    deltas = decode_parts(text("a"), finishReason=reason, finishMessage="Malformed call: x")
    assert deltas[0] == Text("a")
    found = fault(deltas)
    assert (found.code, found.retryable, found.scope) == ("tool_use_failed", True, "model")
    assert found.message == "Malformed call: x"


def test_a_missing_signature_is_rejected_reasoning() -> None:
    found = fault(decode_parts(finishReason="MISSING_THOUGHT_SIGNATURE"))
    assert (found.code, found.retryable) == ("reasoning_rejected", True)


def test_finish_reason_other_without_output_is_a_server_error() -> None:
    for reason in ("OTHER", "NO_IMAGE"):
        for parts in ([], [text("hm", thought=True)]):
            found = fault(decode_parts(*parts, finishReason=reason, finishMessage="It failed."))
            assert (found.code, found.retryable) == ("server_error", True)


def test_finish_reason_other_after_output_makes_the_response_incomplete() -> None:
    assert decode_parts(text("a"), finishReason="OTHER")[1:] == [Finish("other_after_output")]
    assert decode_parts(call(), finishReason="OTHER")[2:] == [Finish("other_after_output")]
    assert decode_parts(text("a"), finishReason="NO_IMAGE")[1:] == [Finish("other_after_output")]
    assert feed(chunk(text("a")), chunk(finishReason=5))[1:] == [Finish("other_after_output")]


@pytest.mark.parametrize("reason", ["SAFETY", "OTHER", "PROHIBITED_CONTENT", "NEW_REASON"])
def test_a_blocked_prompt_is_a_content_fault(reason: str) -> None:
    found = fault(feed({"promptFeedback": {"blockReason": reason}}))
    assert (found.type, found.code) == ("content_blocked", reason)
    assert (found.retryable, found.scope) == (False, "content")


def test_a_numeric_block_reason_is_reported_as_content_filter() -> None:
    assert fault(feed({"promptFeedback": {"blockReason": 1}})).code == "content_filter"


@table(
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
def test_prompt_feedback_without_a_block_is_ignored(feedback: object) -> None:
    assert feed({"promptFeedback": feedback, **chunk(text("a"))}) == [Text("a")]


def test_text_in_a_blocked_chunk_is_emitted_before_the_failure() -> None:
    blocked = {**chunk(text("a")), "promptFeedback": {"blockReason": "SAFETY"}}
    deltas = feed(blocked)
    assert deltas[0] == Text("a")
    assert isinstance(deltas[1], Failure)


def test_a_block_after_output_finishes_with_content_filter() -> None:
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
def test_an_unreadable_frame_is_a_protocol_fault(data: bytes) -> None:
    assert fault(feed(data)).type == "protocol"


def test_an_unreadable_frame_after_the_finish_is_an_extra() -> None:
    deltas = feed(chunk(text("a"), finishReason="STOP"), b"{")
    assert deltas == [Text("a"), Finish("STOP"), Extra("unreadable_frame", 1)]
    assert feed(b"  ") == [Extra("unreadable_frame", 2)]


@pytest.mark.parametrize("data", [b"5", b'"ping"', b"null", b"[5]"])
def test_a_chunk_that_is_not_an_object_becomes_an_extra(data: bytes) -> None:
    [delta] = feed(data)
    assert isinstance(delta, Extra)


def test_an_unpaired_surrogate_in_a_frame_is_replaced() -> None:
    data = b'{"candidates":[{"content":{"parts":[{"text":"a\\ud83d"}]}}]}'
    assert feed(data) == [Text("a\N{REPLACEMENT CHARACTER}")]


def test_a_done_marker_ends_the_stream() -> None:
    decoder = GeminiDecoder()
    assert feed(chunk(text("a"), finishReason="STOP"), decoder=decoder)
    assert not decoder.ended
    assert feed(b"[DONE]", decoder=decoder) == []
    assert decoder.ended


def test_an_open_call_is_incomplete_when_the_stream_closes() -> None:
    decoder = GeminiDecoder()
    open_call = {"functionCall": {"name": "f", "willContinue": True}}
    assert feed(chunk(open_call), decoder=decoder) == [ToolCall(0, None, "f")]
    assert decoder.close() == [ToolEnd(0, complete=False)]
    assert decoder.close() == []
