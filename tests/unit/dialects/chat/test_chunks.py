"""Chunks with members of unexpected types: what can be read of them is read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.core.deltas import Delta, Start, Text, ToolCall
from antiphon.dialects.chat.chunks import decode_tolerant
from antiphon.dialects.chat.decode import ChatDecoder, decode
from antiphon.dialects.json_input import UNREADABLE
from antiphon.framing.sse import Frame
from tests.support.tables import table

CALL = {"index": 0, "id": "x", "function": {"name": "f", "arguments": "{}"}}


def said(**choice: Any) -> list[Delta]:
    data = json.dumps({"choices": [{"index": 0, **choice}]}).encode()
    return [delta for delta in ChatDecoder().feed(Frame(data)) if not isinstance(delta, Start)]


@table(
    ("delta", "expected"),
    [
        ([], []),
        ("", []),
        ({"content": "a", "tool_calls": ""}, [Text("a")]),
        ({"content": "a", "tool_calls": [None]}, [Text("a")]),
        ({"content": "a", "function_call": ""}, [Text("a")]),
        ({"tool_calls": [{"id": "x", "function": "f"}]}, [ToolCall(0, "x")]),
        # TGI 2: https://github.com/huggingface/text-generation-inference/issues/2794
        ({"tool_calls": CALL}, [ToolCall(0, "x", "f", "{}")]),
    ],
)
def test_a_member_of_another_type_does_not_fail_its_chunk(
    delta: object, expected: list[Delta]
) -> None:
    assert said(delta=delta) == expected


@table("index", ["0", "", None, True, {}])
def test_an_index_that_is_no_number_is_that_of_the_first_choice(index: object) -> None:
    choice = {"index": index, "delta": {"content": "a"}, "message": {"content": "a"}}
    data = json.dumps({"choices": [choice]}).encode()
    assert Text("a") in decode(data)
    assert Text("a") in ChatDecoder().feed(Frame(data))


def test_a_member_of_another_type_does_not_fail_a_whole_response() -> None:
    body = {"choices": [{"message": {"content": "a", "function_call": ""}}]}
    assert decode(json.dumps(body).encode())[1] == Text("a")


def test_a_broken_chunk_may_have_such_members_too() -> None:
    chunk, data = decode_tolerant(b'{"choices":[{"delta":{"content":"\n","tool_calls":{}}}]}')
    assert chunk.choices is not None
    assert chunk.choices[0].delta is not None
    assert (chunk.choices[0].delta.content, json.loads(data)["choices"][0]["delta"]["content"]) == (
        "\n",
        "\n",
    )


@table("data", [b"[]", b"7", b'{"choices":1}', b'{"choices":[3]}', b"<html>"])
def test_what_is_no_chunk_cannot_be_read(data: bytes) -> None:
    with pytest.raises(UNREADABLE):
        decode_tolerant(data)


def test_a_body_in_an_envelope_is_decoded() -> None:
    """cline/cline issues 12647 and 13348; in each chunk, too: router-for-me/CLIProxyAPI 4512."""
    body = {"model": "m", "choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}
    whole = decode(json.dumps({"data": body, "success": True}).encode())
    assert whole == decode(json.dumps(body).encode())
    chunk = json.dumps({"data": body, "success": True}).encode()
    assert ChatDecoder().feed(Frame(chunk)) == whole


@table("data", [None, "x", {}, {"choices": None}, {"choices": ["x"]}])
def test_what_is_no_envelope_is_as_without_it(data: object) -> None:
    inner = {"choices": [{"delta": {"content": "a"}}], "data": data}
    assert ChatDecoder().feed(Frame(json.dumps(inner).encode())) == [Start(), Text("a")]
    outer = json.dumps({"data": data, "success": True}).encode()
    assert not any(isinstance(delta, Text) for delta in decode(outer))
    assert not any(isinstance(delta, Text) for delta in ChatDecoder().feed(Frame(outer)))
