"""How a streamed answer of another Responses server ends: well, cut, failed, or not at all."""

from __future__ import annotations

import json

import pytest

from antiphon.core.stream.deltas import (
    Delta,
    Extra,
    Failure,
    Finish,
    Start,
    Text,
    Usage,
)
from antiphon.dialects.responses.decode import ResponsesDecoder
from antiphon.wire.sse import Frame
from tests.support.dialect_samples.responses import (
    Document,
    done,
    ended,
    event,
    feed,
    message,
    text,
)

# Counts and endings


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (
            {
                "input_tokens": 9,
                "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
                "output_tokens": 7,
                "output_tokens_details": {"reasoning_tokens": 3},
                "total_tokens": 16,
            },
            Usage(9, 7, 4, 2, 3, 16),
        ),
        ({"input_tokens": 1, "output_tokens": 2, "input_tokens_details": None}, Usage(1, 2)),
        ({"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}, Usage(1, 2, 0, 0, 0, 3)),
    ],
)
def test_usage_comes_before_the_end(usage: Document, expected: Usage) -> None:
    assert feed(ended(usage=usage)) == [Start(), expected, Finish("completed")]


@pytest.mark.parametrize(
    ("last", "reason"),
    [
        (ended("completed"), "completed"),
        (event("done", response={"status": "completed"}), "completed"),
        (event("completed", response={"status": "incomplete"}), "max_output_tokens"),
        (event("incomplete"), "max_output_tokens"),
        (ended("incomplete", incomplete_details=None), "max_output_tokens"),
        (ended("incomplete", incomplete_details={"reason": "content_filter"}), "content_filter"),
        (ended("incomplete", incomplete_details={"reason": "steered"}), "steered"),
    ],
)
def test_an_ending_says_why(last: Document, reason: str) -> None:
    assert feed(last)[-1] == Finish(reason)


def test_nothing_comes_after_the_last_event() -> None:
    decoder = ResponsesDecoder()
    decoder.feed(Frame(json.dumps(ended()).encode()))
    assert decoder.ended
    assert decoder.feed(Frame(b"[DONE]")) == []


def test_a_stream_that_only_says_that_it_is_done_is_done_if_its_items_are() -> None:
    item = message("a", id="msg_1")
    assert feed(done(0, **item), b"[DONE]") == [Text("a"), Finish("stop")]
    assert feed(text("a"), b"[DONE]") == [Text("a")]
    assert feed(b"[DONE]") == []


# Errors


def failure(*events: Document | bytes) -> Failure:
    [delta] = [delta for delta in feed(*events) if isinstance(delta, Failure)]
    return delta


@pytest.mark.parametrize(
    "last",
    [
        {"type": "error", "code": "rate_limit_exceeded", "message": "Slow down.", "param": None},
        {"type": "error", "error": {"code": "rate_limit_exceeded", "message": "Slow down."}},
        {"error": {"code": "rate_limit_exceeded", "message": "Slow down."}},
        ended("failed", error={"code": "rate_limit_exceeded", "message": "Slow down."}),
        event("failed", error={"code": "rate_limit_exceeded", "message": "Slow down."}),
    ],
    ids=["flat", "nested", "without a type", "failed", "failed without a response"],
)
def test_an_error_is_classified_in_every_shape(last: Document) -> None:
    fault = failure(text("a"), last).fault
    assert (fault.type, fault.code, fault.retryable) == ("rate_limit", "rate_limit_exceeded", True)


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_an_end_without_an_answer_is_the_providers_fault(status: str) -> None:
    assert failure(ended(status)).fault.type == "protocol"


def test_a_frame_that_cannot_be_read_is_a_failure() -> None:
    assert failure(b'{"type":').fault.type == "protocol"


@pytest.mark.parametrize("data", [b" ", b"5", b'"ping"'])
def test_a_frame_that_says_nothing_is_noted(data: bytes) -> None:
    [noted] = feed(data)
    assert isinstance(noted, Extra)


def test_half_a_character_is_mended() -> None:
    data = b'{"type":"response.output_text.delta","delta":"a\\ud83d"}'
    assert feed(data) == [Text("a\N{REPLACEMENT CHARACTER}")]


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({"type": "keepalive"}, [Extra("frame", {"type": "keepalive"})]),
        ({"sequence_number": 3}, [Extra("frame", {"sequence_number": 3})]),
        (event("rate_limits.updated"), [Extra("response.rate_limits.updated")]),
        (event("mcp_call.failed", error={"message": "x"}), [Extra("response.mcp_call.failed")]),
        (event("content_part.added"), []),
        (event("reasoning_part.done"), []),
        (event("output_item.added", item=None), []),
        (event("output_item.done", item="x"), [Extra("item", "x")]),
    ],
)
def test_what_nobody_knows_is_noted(sent: Document, expected: list[Delta]) -> None:
    assert feed(sent) == expected
