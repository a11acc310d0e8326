"""The validator of Chat Completions requests reports a violation of each rule."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.request_validators.chat import problems
from tests.support.tables import table

USER = {"role": "user", "content": "hi"}
FUNCTION = {"name": "look", "arguments": "{}"}
CALL = {"id": "a", "type": "function", "function": FUNCTION}
CALLED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
TOOL = {"role": "tool", "tool_call_id": "a", "content": "1"}
LOOK = {"type": "function", "function": {"name": "look", "parameters": {}}}
IMAGE = {"type": "image_url", "image_url": {"url": "https://x.test/1", "detail": "low"}}


def called(**changes: Any) -> dict[str, Any]:
    return CALLED | {"tool_calls": [CALL | {"function": FUNCTION | changes}]}


def problems_of(*messages: Any, **fields: Any) -> list[str]:
    return problems(json.dumps({"model": "m", **fields, "messages": messages}).encode())


@pytest.mark.parametrize(
    "messages",
    [
        [USER],
        [USER, CALLED, TOOL, USER],
        [{"role": "user", "content": [{"type": "text", "text": "look"}, IMAGE]}],
        [CALLED, TOOL | {"content": [IMAGE]}, CALLED, TOOL],
    ],
)
def test_a_valid_request_has_no_problems(messages: list[Any]) -> None:
    assert problems_of(*messages, tools=[LOOK], tool_choice="auto", stream=True) == []


@table(
    ("messages", "problem"),
    [
        ([], "there are no messages"),
        ([{"role": "critic", "content": "x"}], "bad role"),
        (["hi"], "bad role"),
        ([USER | {"name": "x"}], "unknown key name"),
        ([{"role": "user", "content": ""}], "empty"),
        ([{"role": "assistant", "content": None}], "empty"),
        ([{"role": "user", "content": [{"type": "text", "text": "x"}]}], "a string would do"),
        ([{"role": "system", "content": [IMAGE]}], "a image_url part in a system message"),
        ([{"role": "user", "content": [IMAGE | {"x": 1}]}], "bad keys of a image_url part"),
        ([{"role": "user", "content": [{"type": "file", "file": {"url": "x"}}]}], "bad file"),
        (
            [{"role": "user", "content": [{"type": "file", "file": {"file_id": ""}}]}],
            "an empty file",
        ),
        (
            [{"role": "user", "content": [{"type": "image_url", "image_url": {"detail": "full"}}]}],
            "bad detail",
        ),
        ([CALLED | {"tool_calls": []}], "tool calls are empty"),
        ([CALLED | {"tool_calls": [CALL | {"index": 0}]}, TOOL], "bad keys of a call"),
        ([called(name="a.b"), TOOL], "bad function"),
        ([called(arguments="[]"), TOOL], "arguments are not the text of an object"),
        ([called(arguments="{"), TOOL], "arguments are not the text of an object"),
        ([CALLED | {"tool_calls": [CALL | {"id": ""}]}, TOOL], "a call without an id"),
        ([CALLED | {"tool_calls": [CALL, CALL]}, TOOL, TOOL], "two calls share an id"),
        ([CALLED], "1 calls at the end have no result"),
        ([CALLED, USER], "1 calls before it have no result"),
        ([USER, TOOL], "a result without a call"),
        ([CALLED, TOOL, TOOL], "a result without a call"),
        ([CALLED, TOOL | {"tool_call_id": "b"}], "a result of another call"),
        ([CALLED | {"content": "x"}, TOOL, CALLED, CALLED], "two assistant messages in a row"),
    ],
)
def test_a_bad_message_is_reported(messages: list[Any], problem: str) -> None:
    assert any(problem in found for found in problems_of(*messages))


@table(
    ("fields", "problem"),
    [
        ({"mood": 1}, "unknown key mood"),
        ({"model": None}, "model is not a string"),
        ({"tool_choice": "auto"}, "a tool choice without tools"),
        ({"tools": [], "tool_choice": "auto"}, "tools are empty"),
        ({"tools": [LOOK, LOOK], "tool_choice": "auto"}, "two tools share a name"),
        ({"tools": [LOOK], "tool_choice": "any"}, "bad tool choice"),
        (
            {"tools": [LOOK], "tool_choice": {"type": "function", "function": {"name": "x"}}},
            "the tool choice names no declared tool",
        ),
        (
            {"tools": [{"type": "function", "function": {"name": "a b"}}], "tool_choice": "auto"},
            "bad tool name",
        ),
    ],
)
def test_a_bad_field_is_reported(fields: dict[str, Any], problem: str) -> None:
    assert any(problem in found for found in problems_of(USER, **fields))


def test_messages_must_be_the_last_field_of_an_object() -> None:
    assert problems(b"[]") == ["the body is not an object"]
    body = json.dumps({"messages": [USER], "model": "m"}).encode()
    assert problems(body) == ["messages must be the last field"]
