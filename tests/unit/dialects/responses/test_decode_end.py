"""The end of a Responses stream: completed, incomplete, failed, or missing."""

from __future__ import annotations

import json

import pytest

from antiphon.core.deltas import Delta, Extra, Failure, Finish, Text
from antiphon.dialects.responses.decode import ResponsesDecoder
from antiphon.framing.sse import Frame
from tests.support.dialect_samples.responses import (
    Document,
    done,
    ended,
    event,
    feed,
    message,
    text,
)
from tests.support.tables import table

# Finish reasons


@table(
    ("last", "reason"),
    [
        (ended("completed"), "completed"),
        (event("done", response={"status": "completed"}), "completed"),
        (event("completed", response={"status": "incomplete"}), "max_output_tokens"),
        (event("incomplete"), "max_output_tokens"),
        (ended("incomplete", incomplete_details=None), "max_output_tokens"),
        (ended("incomplete", incomplete_details={"reason": "content_filter"}), "content_filter"),
        (ended("incomplete", incomplete_details={"reason": "steered"}), "steered"),
        (ended("incomplete", incomplete_details={"reason": "new"}), "incomplete: new"),
    ],
)
def test_a_terminal_event_gives_the_finish_reason(last: Document, reason: str) -> None:
    assert feed(last)[-1] == Finish(reason)


def test_a_terminal_event_ends_the_stream() -> None:
    decoder = ResponsesDecoder()
    decoder.feed(Frame(json.dumps(ended()).encode()))
    assert decoder.ended
    assert decoder.feed(Frame(b"[DONE]")) == []


def test_a_done_marker_alone_finishes_if_every_item_is_done() -> None:
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
        event("error", error={"code": "rate_limit_exceeded", "message": "Slow down."}),
    ],
    ids=["flat", "nested", "without a type", "failed", "failed without a response", "OpenRouter"],
)
def test_an_error_is_classified_in_every_shape(last: Document) -> None:
    fault = failure(text("a"), last).fault
    assert (fault.type, fault.code, fault.retryable) == ("rate_limit", "rate_limit_exceeded", True)


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_failed_status_without_an_error_is_a_protocol_fault(status: str) -> None:
    assert failure(ended(status)).fault.type == "protocol"


def test_a_failure_without_a_reason_has_that_of_the_next_event() -> None:
    """Azure, if its content filter ends a stream: maximhq/bifrost#6652 and #6419."""
    error = {"code": "content_policy_violation", "message": "The response was filtered."}
    events = (ended("failed", error=None), {"type": "keepalive"}, {"type": "error", "error": error})
    assert failure(*events).fault.type == "content_blocked"
    assert failure(ended("failed"), b"[DONE]").fault.type == "protocol"


def test_a_frame_that_cannot_be_read_is_a_failure() -> None:
    assert failure(b'{"type":').fault.type == "protocol"


@pytest.mark.parametrize("data", [b" ", b"5", b'"ping"'])
def test_a_scalar_frame_becomes_an_extra(data: bytes) -> None:
    [noted] = feed(data)
    assert isinstance(noted, Extra)


def test_an_unpaired_surrogate_is_replaced() -> None:
    data = b'{"type":"response.output_text.delta","delta":"a\\ud83d"}'
    assert feed(data) == [Text("a\N{REPLACEMENT CHARACTER}")]


@table(
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
def test_unknown_events_become_extras(sent: Document, expected: list[Delta]) -> None:
    assert feed(sent) == expected
