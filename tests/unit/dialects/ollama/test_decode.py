"""Decoding of Ollama lines and whole responses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.core.deltas import (
    Delta,
    Extra,
    Failure,
    Finish,
    Reasoning,
    Start,
    Text,
    ToolCall,
    ToolEnd,
    Usage,
)
from antiphon.dialects.ollama.decode import OllamaDecoder, decode
from antiphon.framing.sse import Frame


def line(message: Any = None, **fields: Any) -> bytes:
    body = fields if message is None else {"message": message, **fields}
    return json.dumps({"done": False, **body}).encode()


def feed(*lines: bytes) -> list[Delta]:
    decoder = OllamaDecoder()
    deltas = [delta for each in lines for delta in decoder.feed(Frame(each))]
    return deltas + decoder.close()


def faults(deltas: list[Delta]) -> list[str]:
    return [delta.fault.type for delta in deltas if isinstance(delta, Failure)]


def test_a_stream_has_reasoning_text_calls_and_a_finish() -> None:
    call = {"id": "c", "function": {"index": 0, "name": "look", "arguments": {"x": 1}}}
    assert feed(
        line({"role": "assistant", "content": "", "thinking": "hm"}, model="m"),
        line({"content": "Well", "thinking": None}, model="m"),
        line({"content": "", "tool_calls": [call]}, model="m"),
        line({"content": ""}, done=True, done_reason="stop", prompt_eval_count=3, eval_count=4),
    ) == [
        Start("m"),
        Reasoning("hm"),
        Text("Well"),
        ToolCall(0, "c", "look", '{"x": 1}'),
        ToolEnd(0),
        Usage(input_tokens=3, output_tokens=4),
        Finish("stop"),
    ]


def test_one_line_is_emitted_as_reasoning_text_and_calls() -> None:
    calls = [{"function": {"name": "a", "arguments": {}}}, {"function": {"name": "b"}}]
    said = {"content": "Well", "thinking": "hm", "tool_calls": calls, "images": ["AAAA"]}
    assert feed(line(said)) == [
        Reasoning("hm"),
        Text("Well"),
        Extra("images", ["AAAA"], is_output=True),
        ToolCall(0, None, "a", "{}"),
        ToolEnd(0),
        ToolCall(1, None, "b", "{}"),
        ToolEnd(1),
    ]


def test_calls_of_several_lines_are_numbered_in_order() -> None:
    one = line({"tool_calls": [{"function": {"index": 0, "name": "a", "arguments": {}}}]})
    calls = [delta for delta in feed(one, one) if isinstance(delta, ToolCall)]
    assert [call.index for call in calls] == [0, 1]


def test_a_malformed_call_becomes_an_extra() -> None:
    assert feed(line({"tool_calls": ["look"]})) == [Extra("tool_call", '"look"')]


def test_a_generate_response_decodes_like_a_chat() -> None:
    assert feed(
        line(model="m", response="Well", thinking="hm"),
        line(model="m", response="", done=True, done_reason="length", context=[1], eval_count=2),
    ) == [Start("m"), Reasoning("hm"), Text("Well"), Usage(output_tokens=2), Finish("length")]


def test_logprobs_come_with_their_text() -> None:
    scored = [{"token": "a", "logprob": -1.0, "top_logprobs": [{"token": "b", "logprob": -2.0}]}]
    [text] = feed(line({"content": "a"}, logprobs=scored))
    assert isinstance(text, Text)
    [token] = text.logprobs
    assert (token["token"], token["logprob"]) == ("a", -1.0)
    assert [other["token"] for other in token["top_logprobs"]] == ["b"]


@pytest.mark.parametrize("field", ["content", "thinking"])
def test_content_that_is_not_a_string_becomes_an_extra(field: str) -> None:
    assert feed(line({field: ["a"]})) == [Extra(field, ["a"], is_output=True)]


# --- the end --------------------------------------------------------------------------------------


def test_a_done_line_ends_the_stream() -> None:
    decoder = OllamaDecoder()
    decoder.feed(Frame(line({"content": "a"})))
    assert not decoder.ended
    decoder.feed(Frame(line({"content": ""}, done=True)))
    assert decoder.ended


def test_done_without_a_reason_is_a_stop() -> None:
    assert feed(line({"content": "a"}, done=True)) == [Text("a"), Finish("stop")]


def test_a_reason_without_done_finishes() -> None:
    decoder = OllamaDecoder()
    assert decoder.feed(Frame(line({"content": ""}, done_reason="stop"))) == [Finish("stop")]
    assert not decoder.ended


@pytest.mark.parametrize("reason", ["load", "unload"])
def test_loading_or_unloading_the_model_is_a_retryable_failure(reason: str) -> None:
    [failure] = feed(line({"content": ""}, done=True, done_reason=reason))
    assert isinstance(failure, Failure)
    assert (failure.fault.type, failure.fault.retryable) == ("protocol", True)
    spoken = feed(line({"content": "a"}), line({"content": ""}, done=True, done_reason=reason))
    assert spoken == [Text("a"), Finish(reason)]


@pytest.mark.parametrize("count", [None, 0, -1, "3", True])
def test_a_malformed_count_is_ignored(count: Any) -> None:
    last = line({"content": ""}, done=True, prompt_eval_count=count, eval_count=2)
    assert feed(last) == [Usage(output_tokens=2), Finish("stop")]
    assert feed(line({"content": ""}, done=True, eval_count=count)) == [Finish("stop")]


# --- errors and malformed lines -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("an error was encountered while running the model", "api_error"),
        ("the input length exceeds the context length", "context_length"),
        ("model 'x' not found", "model_error"),
    ],
)
def test_an_error_in_the_stream_is_a_failure(text: str, fault: str) -> None:
    assert faults(feed(line({"content": "a"}), json.dumps({"error": text}).encode())) == [fault]


def test_output_beside_an_error_is_emitted_first() -> None:
    text, failure = feed(line({"content": "a"}, error="broken"))
    assert text == Text("a")
    assert isinstance(failure, Failure)


def test_an_empty_message_gives_no_deltas() -> None:
    assert feed(line({"content": ""}), line(response=""), line({})) == []


def test_a_line_without_a_message_becomes_an_extra() -> None:
    assert feed(b'{"status":"pulling"}') == [Extra("frame", {"status": "pulling"})]
    assert feed(b'{"message":"a","model":"m"}') == [Extra("frame", {"message": "a", "model": "m"})]
    assert faults(feed(b'{"message":"Too many requests","code":429}')) == ["rate_limit"]


def test_a_broken_line_is_a_failure_unless_the_message_is_finished() -> None:
    assert faults(feed(b'{"message":')) == ["protocol"]
    finish = line({"content": ""}, done_reason="stop")
    assert feed(finish, b"oops") == [Finish("stop"), Extra("unreadable_frame", 4)]


def test_an_unpaired_surrogate_in_a_line_is_replaced() -> None:
    assert feed(b'{"message":{"content":"a\\ud83d"}}') == [Text("a\ufffd")]


# --- whole responses ------------------------------------------------------------------------------


def test_a_whole_response_is_one_line() -> None:
    call = {"id": "c", "function": {"name": "look", "arguments": {"x": 1}}}
    body = line(
        {"content": "Well", "thinking": "hm", "tool_calls": [call]},
        model="m",
        done=True,
        done_reason="stop",
        eval_count=4,
    )
    assert decode(body) == feed(body)
    assert decode(json.dumps(json.loads(body), indent=1).encode())[1:3] == [
        Reasoning("hm"),
        Text("Well"),
    ]


def test_a_recorded_stream_decodes_as_a_whole_response() -> None:
    lines = [line({"content": "a"}), line({"content": "b"}, done=True), line({"content": "c"})]
    assert decode(b"\n".join(lines)) == [Text("a"), Text("b"), Finish("stop")]


def test_an_error_body_is_a_failure() -> None:
    assert faults(decode(b'{"error":"model \'x\' not found"}')) == ["model_error"]
    assert faults(decode(b"<html>")) == ["unknown"]
