"""Whole Chat Completions answers: reasoning, then calls, then the message."""

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
    Refusal,
    Start,
    Text,
    ToolCall,
    Usage,
)
from antiphon.dialects.chat.decode import decode
from tests.support.tables import table


def call(arguments: Any = None, **more: Any) -> dict[str, Any]:
    return {"function": {"name": "f", "arguments": arguments}} | more


def whole(message: dict[str, Any], **choice: Any) -> list[Delta]:
    body = {"id": "x", "model": "m", "choices": [{"message": message, **choice}]}
    start, *deltas = decode(json.dumps(body).encode())
    assert start == Start("m", "x")
    return deltas


def test_a_whole_answer_gives_reasoning_then_calls_then_text() -> None:
    message = {
        "content": "c",
        "refusal": "d",
        "reasoning_content": "a",
        "tool_calls": [call("{}", id="x"), call("{}", id="x")],
        "annotations": [{"type": "url_citation", "url_citation": {"url": "u"}}],
    }
    deltas = whole(message, finish_reason="stop")
    assert deltas[:5] == [
        Reasoning("a"),
        ToolCall(0, "x", "f", "{}"),
        ToolCall(1, "x", "f", "{}"),
        Text("c"),
        Refusal("d"),
    ]
    assert isinstance(deltas[5], Annotation)
    assert deltas[6:] == [Finish("stop")]


@table(
    "message",
    [
        {"content": [{"type": "thinking", "thinking": "a"}, {"type": "text", "text": "b"}]},
        {"content": "b", "reasoning_text": "a"},
    ],
)
def test_reasoning_comes_before_the_calls_wherever_it_stands(message: dict[str, Any]) -> None:
    assert whole({**message, "tool_calls": [call("{}", id="x")]}, finish_reason="stop") == [
        Reasoning("a"),
        ToolCall(0, "x", "f", "{}"),
        Text("b"),
        Finish("stop"),
    ]


def test_a_signed_answer_without_a_thought_has_no_reasoning() -> None:
    signed = {"extra_content": {"google": {"thought_signature": "sig"}}}
    assert whole({"content": "a", **signed}, finish_reason="stop") == [
        Text("a"),
        ReasoningState("gemini.thought_signature", "sig", "text"),
        Finish("stop"),
    ]


def test_a_thought_in_the_content_is_reasoning() -> None:
    thought = {"extra_content": {"google": {"thought": True}}}
    assert whole({"content": "<thought>a</thought>b", **thought}, finish_reason="stop") == [
        Reasoning("a", "summary"),
        Text("b"),
        Finish("stop"),
    ]


def test_a_whole_answer_keeps_the_state_of_its_calls() -> None:
    signed = call("{}", id="x", extra_content={"google": {"thought_signature": "sig"}})
    assert whole({"tool_calls": [signed]}) == [
        ReasoningState("gemini.thought_signature", "sig", "tool"),
        ToolCall(0, "x", "f", "{}"),
        Finish(None),
    ]


def test_only_the_first_choice_of_a_whole_answer_is_decoded() -> None:
    body = {"choices": [{"index": 0, "message": {}}, {"index": 1, "message": {"content": "b"}}]}
    assert decode(json.dumps(body).encode())[1:] == [
        Finish(None),
        Extra("choice", 1, is_output=True),
    ]


def test_a_whole_answer_may_come_as_one_delta() -> None:
    body = {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}], "usage": {}}
    assert decode(json.dumps(body).encode())[1:] == [Usage(), Text("a"), Finish("stop")]


def test_calls_that_are_spread_over_choices_without_an_index_stay_apart() -> None:
    """Copilot gives each block of Claude a choice of its own: karthink/gptel pull request 1284."""
    messages = [{"content": "a"}, *({"tool_calls": [call("{}", id=id)]} for id in "xy")]
    choices = [{"message": each, "finish_reason": "tool_calls"} for each in messages]
    _, *deltas = decode(json.dumps({"model": "m", "choices": choices}).encode())
    assert [delta for delta in deltas if delta != Finish("tool_calls")] == [
        Text("a"),
        ToolCall(0, "x", "f", "{}"),
        ToolCall(1, "y", "f", "{}"),
    ]


UNREADABLE = [b"", b"<html>", b"\xff", b"[]", b"[" * 100_000, b'{"choices":1}']


@table("body", UNREADABLE)
def test_an_unreadable_body_is_a_failure(body: bytes) -> None:
    [delta] = decode(body)
    assert isinstance(delta, Failure)


@pytest.mark.parametrize("body", [b"{}", b'{"choices":[]}', b'{"choices":null}'])
def test_a_body_without_an_answer_only_starts(body: bytes) -> None:
    assert decode(body) == [Start(None, None)]
