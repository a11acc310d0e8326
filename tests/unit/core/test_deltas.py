"""Parsing of deltas that come as plain mappings."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.core.deltas import (
    Delta,
    Failure,
    Finish,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    Usage,
    parse_delta,
)
from antiphon.errors import InvalidTransition
from tests.support.tables import table

USAGE = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}


@table(
    ("mapping", "expected"),
    [
        ({"text": "hi"}, Text("hi")),
        ({"text": ""}, Text("")),
        ({"reasoning": "hm"}, Reasoning("hm")),
        ({"refusal": "no"}, Refusal("no")),
        ({"toolCall": {"index": 2}}, ToolCall(2)),
        ({"toolCall": {"index": 0, "arguments": "{"}}, ToolCall(0, arguments="{")),
        (
            {
                "toolCall": {
                    "index": 0,
                    "id": "a",
                    "name": "f",
                    "arguments": "{}",
                    "type": "function",
                }
            },
            ToolCall(0, "a", "f", "{}"),
        ),
        ({"toolCall": {"index": 0, "id": "", "type": "custom"}}, ToolCall(0, kind="custom")),
        ({"usage": USAGE}, Usage(3, 2, total_tokens=5)),
        ({"usage": USAGE | {"input_tokens": 3.9}}, Usage(3, 2, total_tokens=5)),
        ({"usage": USAGE | {"input_tokens": -3}}, Usage(0, 2, total_tokens=5)),
        ({"usage": USAGE | {"input_tokens": 10**400}}, Usage(10**400, 2, total_tokens=5)),
        ({"usage": USAGE | {"note": "kept out"}}, Usage(3, 2, total_tokens=5)),
        (
            {
                "usage": USAGE
                | {
                    "input_tokens_details": {"cached_tokens": 1},
                    "output_tokens_details": {"reasoning_tokens": 1},
                }
            },
            Usage(3, 2, cached_tokens=1, reasoning_tokens=1, total_tokens=5),
        ),
        ({"finishReason": "stop"}, Finish("stop")),
        ({"finishReason": None}, Finish(None)),
    ],
)
def test_a_field_becomes_its_delta(mapping: dict[str, Any], expected: Delta) -> None:
    assert parse_delta(mapping) == [expected]


def test_one_mapping_may_hold_several_deltas_in_a_fixed_order() -> None:
    mapping = {"finishReason": "stop", "text": "b", "toolCall": {"index": 0}, "reasoning": "a"}
    kinds = [type(delta) for delta in parse_delta(mapping | {"usage": USAGE, "refusal": "c"})]
    assert kinds == [Usage, Reasoning, Refusal, ToolCall, Text, Finish]


@pytest.mark.parametrize("code", ["rate_limit_exceeded", None])
def test_an_error_becomes_a_failure(code: str | None) -> None:
    error = {"message": "Too fast"} | ({"code": code} if code else {})
    [delta] = parse_delta({"error": error})
    assert isinstance(delta, Failure)
    assert delta.fault.message == "Too fast"
    assert delta.fault.public_code == (code or "server_error")


def test_an_error_with_an_empty_message_is_still_a_failure() -> None:
    [delta] = parse_delta({"error": {"message": ""}})
    assert isinstance(delta, Failure)


@table(
    ("mapping", "names"),
    [
        ({}, "delta"),
        (None, "delta"),
        ([], "delta"),
        ("text", "delta"),
        ({"speech": "x"}, "'speech'"),
        ({"text": "x", "speech": "x"}, "'speech'"),
        ({1: "x"}, "'1'"),
        ({"text": None}, "text"),
        ({"text": 1}, "text"),
        ({"reasoning": None}, "reasoning"),
        ({"refusal": []}, "refusal"),
        ({"toolCall": None}, "toolCall"),
        ({"toolCall": {}}, "toolCall"),
        ({"toolCall": []}, "toolCall"),
        ({"toolCall": {"index": -1}}, "toolCall.index"),
        ({"toolCall": {"index": 1.0}}, "toolCall.index"),
        ({"toolCall": {"index": True}}, "toolCall.index"),
        ({"toolCall": {"index": "0"}}, "toolCall.index"),
        ({"toolCall": {"index": None}}, "toolCall.index"),
        ({"toolCall": {"id": "c", "name": "f"}}, "toolCall.index"),
        ({"toolCall": {"index": 0, "id": None}}, "toolCall.id"),
        ({"toolCall": {"index": 0, "name": 1}}, "toolCall.name"),
        ({"toolCall": {"index": 0, "type": None}}, "toolCall.type"),
        ({"toolCall": {"index": 0, "arguments": {}}}, "toolCall.arguments"),
        ({"toolCall": {"index": 0, "input": "x"}}, "'input'"),
        ({"usage": None}, "usage"),
        ({"usage": {}}, "usage.input_tokens"),
        ({"usage": {"input_tokens": 1, "output_tokens": 1}}, "usage.total_tokens"),
        ({"usage": USAGE | {"output_tokens": "2"}}, "usage.output_tokens"),
        ({"usage": USAGE | {"output_tokens": True}}, "usage.output_tokens"),
        ({"usage": USAGE | {"total_tokens": float("nan")}}, "usage.total_tokens"),
        ({"usage": USAGE | {"total_tokens": float("inf")}}, "usage.total_tokens"),
        ({"usage": USAGE | {"input_tokens_details": None}}, "usage.input_tokens_details"),
        ({"usage": USAGE | {"output_tokens_details": []}}, "usage.output_tokens_details"),
        ({"usage": USAGE | {"input_tokens_details": {"cached_tokens": "1"}}}, "cached_tokens"),
        ({"usage": USAGE | {"output_tokens_details": {"reasoning_tokens": None}}}, "reasoning_t"),
        ({"finishReason": 1}, "finishReason"),
        ({"error": "broken"}, "error"),
        ({"error": {}}, "error.message"),
        ({"error": {"message": None}}, "error.message"),
        ({"error": {"message": "x", "code": 1}}, "error.code"),
    ],
)
def test_an_invalid_mapping_is_an_error_that_names_the_field(mapping: object, names: str) -> None:
    with pytest.raises(InvalidTransition, match=names) as raised:
        parse_delta(mapping)
    assert raised.value.code == "bridge.stream.invalid_transition"
