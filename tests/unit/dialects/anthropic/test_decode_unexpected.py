"""Anthropic answers that are not as documented: errors, nonsense, and the dialect around them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from antiphon.core.plan.plan import Plan
from antiphon.core.stream.deltas import Delta, Extra, Failure, Start, Text, ToolCall, ToolEnd
from antiphon.dialects.anthropic import encode as anthropic_request
from antiphon.dialects.anthropic.decode import AnthropicDecoder, decode
from antiphon.dialects.anthropic.dialect import AnthropicDialect
from antiphon.dialects.anthropic.quirks import AnthropicQuirks
from tests.support.dialect_samples.anthropic import Document, begin, end, fed, grow, stop, text

# --- errors and surprises -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "type_", "retryable"),
    [
        ("overloaded_error", "provider_overloaded", True),
        ("rate_limit_error", "rate_limit", True),
        ("invalid_request_error", "invalid_request", False),
        ("authentication_error", "auth", False),
    ],
)
def test_an_error_event_is_classified_like_an_answer_of_its_own(
    kind: str, type_: str, retryable: bool
) -> None:
    body = {"type": "error", "error": {"type": kind, "message": "no"}}
    for [delta] in (fed(body), decode(json.dumps(body).encode())):
        assert isinstance(delta, Failure)
        assert (delta.fault.type, delta.fault.retryable) == (type_, retryable)


@pytest.mark.parametrize("event", [{"type": "error"}, {"error": {"message": "no"}}])
def test_an_error_of_any_shape_is_a_failure(event: Document) -> None:
    [delta] = fed(event)
    assert isinstance(delta, Failure)


@pytest.mark.parametrize("data", [b"{", b"[]", b"\xff", b"[" * 100_000, b'{"type":"a"'])
def test_a_frame_that_cannot_be_read_is_a_failure_until_the_answer_is_whole(data: bytes) -> None:
    [delta] = fed(data)
    assert isinstance(delta, Failure)
    assert fed(stop("end_turn"), data)[1:] == [Extra("unreadable_frame", len(data))]


@pytest.mark.parametrize("data", [b"  ", b"42", b'"ping"'])
def test_a_frame_that_says_nothing_is_passed_over(data: bytes) -> None:
    assert fed(data) == [Extra("unreadable_frame", len(data))]


@pytest.mark.parametrize(
    ("event", "extra"),
    [
        ({"type": "fallback", "x": 1}, Extra("fallback", {"type": "fallback", "x": 1})),
        ({"x": 1}, Extra("event", {"x": 1})),
        (begin("?"), Extra("content_block", "?")),
        (begin({"type": 5}), Extra("content_block", {"type": 5})),
        (grow(type="smell_delta"), Extra("smell_delta", {"type": "smell_delta"})),
        ({"type": "content_block_delta", "delta": 5}, Extra("content_block_delta", 5)),
    ],
)
def test_what_is_not_known_is_kept_for_the_trace(event: Document, extra: Extra) -> None:
    assert fed(event) == [extra]


@pytest.mark.parametrize("kind", ["text", "thinking", "redacted_thinking", "tool_use"])
def test_a_delta_that_its_block_cannot_use_is_kept_for_the_trace(kind: str) -> None:
    decoder = AnthropicDecoder()
    fed(begin({"type": kind, "text": 5, "thinking": 5, "citations": 5}), decoder=decoder)
    assert fed(grow(type="smell_delta"), decoder=decoder) == [
        Extra("smell_delta", {"type": "smell_delta"})
    ]
    assert fed(text(5), decoder=decoder) in ([], [Extra("text_delta", text(5)["delta"])])


def test_halves_of_characters_do_not_break_a_stream() -> None:
    lone = b'{"type":"content_block_delta","delta":{"type":"text_delta","text":"\\ud83d"}}'
    assert fed(lone) == [Text("\ufffd")]
    block = b'{"type":"content_block_start","content_block":{"type":"text","text":"\\ud83d"}}'
    assert fed(block) == [Text("\ufffd")]
    unread = b'{"type":"fallback","x":"\\ud83d"}'
    assert fed(unread) == [Extra("fallback", {"type": "fallback", "x": "\ufffd"})]


def test_a_block_that_cannot_be_read_is_nothing() -> None:
    bottomless = Raw(b"[" * 100_000)
    assert AnthropicDecoder().open_block(0, bottomless) == [Extra("content_block", None)]


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff", b"[]", b"[" * 100_000, b'{"content":1}'])
def test_a_body_that_cannot_be_read_is_a_failure(body: bytes) -> None:
    [delta] = decode(body)
    assert isinstance(delta, Failure)


def test_a_body_without_an_answer_only_starts() -> None:
    assert decode(b"{}") == [Start(None, None)]
    assert fed({"type": "message_start"}) == [Start(None, None)]
    assert fed({"type": "message_delta"}) == []
    assert fed(end()) == []


leaves = (
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.floats(allow_nan=False)
)
names = st.sampled_from(
    """
    type index delta content_block message usage error text thinking signature partial_json citation
    citations input stop_reason stop_details explanation output_tokens_details thinking_tokens
    """.split()
)
kinds = st.sampled_from(
    """
    message_start content_block_start content_block_delta content_block_stop message_delta error
    text thinking redacted_thinking tool_use text_delta thinking_delta signature_delta
    input_json_delta citations_delta server_tool_use
    """.split()
)
anything = st.recursive(
    leaves | kinds,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner | kinds, max_size=4),
    max_leaves=8,
)
any_event = st.fixed_dictionaries({"type": kinds}, optional={"index": st.integers(0, 2)}).flatmap(
    lambda event: st.dictionaries(names, anything, max_size=3).map(lambda more: more | event)
)


@given(st.lists(any_event, max_size=6), anything)
def test_any_events_give_deltas_and_never_an_exception(events: list[Any], body: Any) -> None:
    deltas = fed(*events) + decode(json.dumps(body).encode())
    assert all(isinstance(delta, Delta) for delta in deltas)
    indexes = {delta.index for delta in deltas if isinstance(delta, ToolCall)}
    assert all(delta.index in indexes for delta in deltas if isinstance(delta, ToolEnd))


# --- the dialect ----------------------------------------------------------------------------------


def test_the_dialect_writes_with_the_quirks_of_its_provider() -> None:
    plan = Plan(provider="p", model="m")
    quirks = AnthropicQuirks(max_tokens=5, caching="off")
    outbound = AnthropicDialect(quirks=quirks).encode(plan, stream=True)
    assert outbound == anthropic_request.encode(plan, stream=True, quirks=quirks)
    assert json.loads(outbound.body)["max_tokens"] == 5


def test_the_dialect_reads_streams_and_whole_answers() -> None:
    dialect = AnthropicDialect()
    data = b'event: content_block_delta\ndata: {"delta":{"type":"text_delta","text":"a"}}\n\n'
    [frame] = dialect.framer().feed(data)
    assert dialect.decoder().feed(frame) == [Text("a")]
    assert dialect.decode(b"{}") == [Start()]


def test_the_dialect_classifies_and_describes_errors() -> None:
    dialect = AnthropicDialect()
    body = b'{"type":"error","error":{"type":"overloaded_error","message":"sk-1"}}'
    fault = dialect.classify(529, {}, body)
    assert fault.type == "provider_overloaded"
    for name in ("en", "zh", "xx-YY"):
        assert "sk-1" not in dialect.describe(fault, name)
