"""Decoding of JSON frames and bodies: repaired, classified or an extra; never an exception."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from antiphon.core.deltas import Delta, Extra, Failure, Text
from antiphon.dialects.anthropic.decode import decode as decode_anthropic
from antiphon.dialects.bedrock.decode import decode as decode_bedrock
from antiphon.dialects.chat.decode import decode as decode_chat
from antiphon.dialects.cohere.decode import decode as decode_cohere
from antiphon.dialects.gemini.decode import decode as decode_gemini
from antiphon.dialects.json_input import (
    UNREADABLE,
    decode_body,
    decode_lenient,
    decode_unexpected,
    error_or_extra,
    fail_unreadable,
    find_error,
    nonempty_string,
    report_unreadable,
)
from antiphon.dialects.ollama.decode import decode as decode_ollama
from antiphon.dialects.responses.decode import decode as decode_responses
from antiphon.framing.sse import Frame
from tests.support.tables import table

decode = msgspec.json.Decoder().decode
DEEP = b"[" * 100_000


class Echo:
    """A decoder that repeats its frames, and stops at the word `end`."""

    def __init__(self) -> None:
        self.ended = False

    def feed(self, frame: Frame) -> list[Delta]:
        self.ended = frame.data == b'{"a":"end"}'
        return [] if frame.data == b"{}" else [Text(frame.data.decode())]

    def close(self) -> list[Delta]:
        return []


def fault_of(deltas: list[Delta]) -> tuple[str, bool]:
    [failure] = deltas
    assert isinstance(failure, Failure)
    return failure.fault.type, failure.fault.retryable


def test_a_document_is_repaired_if_necessary() -> None:
    assert decode_lenient(decode, b'{"a":1}') == {"a": 1}
    assert decode_lenient(decode, b'{"a":"\\ud83d"}') == {"a": "\ufffd"}
    assert decode_lenient(decode, b'{"a":NaN}') == {"a": None}


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", DEEP])
def test_invalid_json_raises(data: bytes) -> None:
    with pytest.raises(UNREADABLE):
        decode_lenient(decode, data)


@pytest.mark.parametrize(("value", "text"), [("a", "a"), ("", None), (1, None), (None, None)])
def test_only_a_nonempty_string_is_a_string(value: Any, text: str | None) -> None:
    assert nonempty_string(value) == text


def test_an_unexpected_frame_is_its_error_or_an_extra() -> None:
    assert fault_of(decode_unexpected(b'{"error":"rate limit"}')) == ("rate_limit", True)
    assert decode_unexpected(b'{"a":1}') == [Extra("frame", {"a": 1})]
    assert decode_unexpected(b'"ping"') == [Extra("frame", "ping")]
    assert decode_unexpected(b"[1]") == [Extra("frame", [1])]


@pytest.mark.parametrize("data", [b'{"a":', b"oops", DEEP])
def test_a_broken_frame_is_a_failure_unless_the_answer_has_finished(data: bytes) -> None:
    assert fault_of(decode_unexpected(data)) == ("protocol", True)
    assert decode_unexpected(data, finished=True) == [Extra("unreadable_frame", len(data))]


def test_a_blank_frame_is_an_extra() -> None:
    assert decode_unexpected(b"  ") == [Extra("unreadable_frame", 2)]


def test_an_error_without_a_reason_is_a_server_fault() -> None:
    fault = find_error({"error": "something odd"})
    assert fault is not None
    assert (fault.type, fault.retryable, fault.scope) == ("api_error", True, "provider")


def test_an_error_with_a_reason_is_classified_by_it() -> None:
    fault = find_error({"error": "the input length exceeds the context length"})
    assert fault is not None
    assert fault.type == "context_length"


def test_a_document_without_an_error_has_no_fault() -> None:
    assert find_error({"message": {"content": "a"}}) is None
    assert error_or_extra({"a": 1}) == Extra("frame", {"a": 1})
    assert isinstance(error_or_extra({"error": "x"}), Failure)


def test_a_whole_answer_is_a_stream_of_one_frame() -> None:
    assert decode_body(b'{\n "a": 1\n}', Echo()) == [Text('{\n "a": 1\n}')]


def test_recorded_lines_are_decoded_until_the_stream_ends() -> None:
    body = b'{"a":1}\r\n\n{"a":"end"}\n{"a":2}'
    assert decode_body(body, Echo()) == [Text('{"a":1}'), Text('{"a":"end"}')]


def test_a_body_without_an_answer_is_a_failure() -> None:
    for body in (b"", b"<html>", b"upstream timed out", b"{}"):
        assert isinstance(decode_body(body, Echo())[0], Failure)
    assert fault_of(decode_body(b"upstream timed out", Echo())) == ("timeout", True)


@table(
    "decode",
    [
        decode_anthropic,
        decode_bedrock,
        decode_chat,
        decode_cohere,
        decode_gemini,
        decode_ollama,
        decode_responses,
    ],
)
def test_words_in_a_damaged_response_are_not_taken_for_its_cause(
    decode: Callable[[bytes], list[Delta]],
) -> None:
    words = b'{"thoughtSignature": "x", "encrypted_content": "y", "text": "rate limit, overloaded"'
    for body in (words, b"\xff\x00" + words + b"}", b"data: " + words + b"\n\n"):
        [failure] = decode(body)
        assert isinstance(failure, Failure)
        assert (failure.fault.code, failure.fault.retryable) == ("invalid_chunk", True)


def test_an_unreadable_body_is_kept_for_the_log() -> None:
    assert fail_unreadable(b'{"text": "cut').fault.original == '{"text": "cut'


def test_a_document_of_another_shape_and_plain_text_are_searched_for_a_cause() -> None:
    error = b'{"error": {"message": "overloaded"}}'
    for body in (b"overloaded", error, b"data: " + error + b"\n\n"):
        assert fail_unreadable(body).fault.type == "provider_overloaded"


def test_an_error_in_an_array_is_that_error() -> None:
    """As Google sends it, also in the middle of a stream of Chat Completions."""
    data = b'[{"error":{"code":429,"message":"no","status":"RESOURCE_EXHAUSTED"}}]'
    [delta] = report_unreadable(data, finished=False)
    assert isinstance(delta, Failure)
    assert (delta.fault.type, delta.fault.status) == ("rate_limit", 429)
    assert report_unreadable(data, finished=True) == [Extra("unreadable_frame", len(data))]
    for other in (b'[{"text":"a"}]', b"[7]", b"[{"):
        [delta] = report_unreadable(other, finished=False)
        assert isinstance(delta, Failure)
        assert delta.fault.type == "protocol"
