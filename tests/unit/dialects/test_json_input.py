"""Frames as providers really send them: mended, named, or refused; never a crash."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from antiphon.core.stream.deltas import Delta, Extra, Failure, Text
from antiphon.dialects.json_input import UNREADABLE, decoded, read, reported, string, surprise, told
from antiphon.wire.sse import Frame

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


def test_a_document_is_read_and_mended_where_it_has_to_be() -> None:
    assert read(decode, b'{"a":1}') == {"a": 1}
    assert read(decode, b'{"a":"\\ud83d"}') == {"a": "\ufffd"}
    assert read(decode, b'{"a":NaN}') == {"a": None}


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", DEEP])
def test_what_is_no_document_is_said_to_be_none(data: bytes) -> None:
    with pytest.raises(UNREADABLE):
        read(decode, data)


@pytest.mark.parametrize(("value", "text"), [("a", "a"), ("", None), (1, None), (None, None)])
def test_a_string_has_something_in_it(value: Any, text: str | None) -> None:
    assert string(value) == text


def test_an_odd_frame_is_the_error_it_carries_or_worth_tracing() -> None:
    assert fault_of(surprise(b'{"error":"rate limit"}')) == ("rate_limit", True)
    assert surprise(b'{"a":1}') == [Extra("frame", {"a": 1})]
    assert surprise(b'"ping"') == [Extra("frame", "ping")]
    assert surprise(b"[1]") == [Extra("frame", [1])]


@pytest.mark.parametrize("data", [b'{"a":', b"oops", DEEP])
def test_a_broken_frame_breaks_the_stream_unless_it_has_finished(data: bytes) -> None:
    assert fault_of(surprise(data)) == ("protocol", True)
    assert surprise(data, finished=True) == [Extra("unreadable_frame", len(data))]


def test_a_blank_frame_says_nothing() -> None:
    assert surprise(b"  ") == [Extra("unreadable_frame", 2)]


def test_an_error_that_explains_nothing_is_the_servers() -> None:
    fault = reported({"error": "something odd"})
    assert fault is not None
    assert (fault.type, fault.retryable, fault.scope) == ("provider_overloaded", True, "provider")


def test_an_error_that_explains_itself_is_taken_at_its_word() -> None:
    fault = reported({"error": "the input length exceeds the context length"})
    assert fault is not None
    assert fault.type == "context_length"


def test_a_healthy_document_reports_no_error() -> None:
    assert reported({"message": {"content": "a"}}) is None
    assert told({"a": 1}) == Extra("frame", {"a": 1})
    assert isinstance(told({"error": "x"}), Failure)


def test_a_whole_answer_is_a_stream_of_one_frame() -> None:
    assert decoded(b'{\n "a": 1\n}', Echo()) == [Text('{\n "a": 1\n}')]


def test_recorded_lines_are_a_stream_of_many_until_it_ends() -> None:
    body = b'{"a":1}\r\n\n{"a":"end"}\n{"a":2}'
    assert decoded(body, Echo()) == [Text('{"a":1}'), Text('{"a":"end"}')]


def test_a_body_without_an_answer_is_a_failure() -> None:
    for body in (b"", b"<html>", b"upstream timed out", b"{}"):
        assert isinstance(decoded(body, Echo())[0], Failure)
    assert fault_of(decoded(b"upstream timed out", Echo())) == ("timeout", True)
