"""Anthropic Messages decoder: errors, unreadable frames and unknown events."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from antiphon.core.deltas import Delta, Extra, Failure, Start, Text, ToolCall, ToolEnd
from antiphon.dialects.anthropic.decode import AnthropicDecoder, decode
from tests.support.dialect_samples.anthropic import Document, begin, end, fed, grow, stop, text
from tests.support.tables import table


@pytest.mark.parametrize(
    ("kind", "type_", "retryable"),
    [
        ("overloaded_error", "provider_overloaded", True),
        ("rate_limit_error", "rate_limit", True),
        ("invalid_request_error", "invalid_request", False),
        ("authentication_error", "auth", False),
    ],
)
def test_an_error_event_is_classified_like_an_error_body(
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
def test_an_unreadable_frame_is_a_failure_until_the_answer_has_finished(data: bytes) -> None:
    [delta] = fed(data)
    assert isinstance(delta, Failure)
    assert fed(stop("end_turn"), data)[1:] == [Extra("unreadable_frame", len(data))]


@pytest.mark.parametrize("data", [b"  ", b"42", b'"ping"'])
def test_a_scalar_frame_is_an_extra(data: bytes) -> None:
    assert fed(data) == [Extra("unreadable_frame", len(data))]


@table(
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
def test_unknown_events_are_extras(event: Document, extra: Extra) -> None:
    assert fed(event) == [extra]


@pytest.mark.parametrize("kind", ["text", "thinking", "redacted_thinking", "tool_use"])
def test_a_delta_of_another_block_type_is_an_extra(kind: str) -> None:
    decoder = AnthropicDecoder()
    fed(begin({"type": kind, "text": 5, "thinking": 5, "citations": 5}), decoder=decoder)
    assert fed(grow(type="smell_delta"), decoder=decoder) == [
        Extra("smell_delta", {"type": "smell_delta"})
    ]
    assert fed(text(5), decoder=decoder) in ([], [Extra("text_delta", text(5)["delta"])])


def test_half_a_character_does_not_fail_the_stream() -> None:
    lone = b'{"type":"content_block_delta","delta":{"type":"text_delta","text":"\\ud83d"}}'
    assert fed(lone) == [Text("\ufffd")]
    block = b'{"type":"content_block_start","content_block":{"type":"text","text":"\\ud83d"}}'
    assert fed(block) == [Text("\ufffd")]
    unread = b'{"type":"fallback","x":"\\ud83d"}'
    assert fed(unread) == [Extra("fallback", {"type": "fallback", "x": "\ufffd"})]


def test_an_unreadable_block_is_an_extra() -> None:
    bottomless = Raw(b"[" * 100_000)
    assert AnthropicDecoder().open_block(0, bottomless) == [Extra("content_block", None)]


@table("body", [b"", b"<html>", b"\xff", b"[]", b"[" * 100_000, b'{"content":1}'])
def test_an_unreadable_body_is_a_failure(body: bytes) -> None:
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
