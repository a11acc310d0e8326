"""The validator of Ollama requests reports a violation of each rule."""

from __future__ import annotations

import json
from typing import Any

from tests.support.request_validators.ollama import problems
from tests.support.tables import table

USER = {"role": "user", "content": "hi"}
FUNCTION = {"name": "look", "arguments": {}}
CALL = {"id": "a", "function": FUNCTION}
CALLED = {"role": "assistant", "content": "", "tool_calls": [CALL]}
TOOL = {"role": "tool", "content": "1", "tool_name": "look", "tool_call_id": "a"}
OBJECT = {"type": "object", "properties": {}}


def called(**changes: Any) -> dict[str, Any]:
    return CALLED | {"tool_calls": [CALL | {"function": FUNCTION | changes}]}


def declared(name: str = "look", **schema: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": OBJECT | schema}}


def problems_of(*messages: Any, **fields: Any) -> list[str]:
    body = {"model": "m", "stream": True, **fields, "messages": list(messages)}
    return problems(json.dumps(body).encode())


def test_valid_requests_have_no_problems() -> None:
    seen = {"role": "user", "content": "", "images": ["AAAA"]}
    answer = {"role": "assistant", "content": "1", "thinking": "hm"}
    assert problems_of(USER, CALLED, TOOL, answer, seen) == []
    inner = {"type": ["string", "null"], "enum": ["a"], "description": "A."}
    tool = declared(properties={"a": {"anyOf": [inner]}}, required=["a"])
    options = {"num_predict": 1, "temperature": 0.5}
    assert problems_of(USER, tools=[tool], think="low", format={}, options=options) == []


@table(
    ("messages", "problem"),
    [
        ([], "there are no messages"),
        ([1], "bad role None"),
        ([{"role": "developer", "content": "a"}], "bad role 'developer'"),
        ([USER | {"name": "me"}], "unknown key name"),
        ([{"role": "user", "content": None}], "content is not a string"),
        ([{"role": "user", "content": ""}], "it is empty"),
        ([{"role": "assistant", "content": "a", "thinking": ""}], "bad thinking"),
        ([USER | {"images": []}], "bad images"),
        ([USER | {"images": ["https://x.test/1"]}], "bad images"),
        ([CALLED | {"tool_calls": []}], "tool calls are empty"),
        ([CALLED | {"tool_calls": [{"id": "a"}]}], "bad keys of a call"),
        ([CALLED | {"tool_calls": [CALL | {"id": ""}]}], "a call without an id"),
        ([called(name="a b")], "bad function 'a b'"),
        ([called(arguments="{}")], "arguments are not an object"),
        ([TOOL | {"tool_name": ""}], "a result without the id"),
        ([TOOL], "a result without a call"),
        ([CALLED, TOOL | {"tool_call_id": "b"}], "a result of another call"),
        ([CALLED, USER], "1 calls before it have no result"),
        ([CALLED], "1 calls at the end have no result"),
        ([{"role": "assistant", "content": "a"}] * 2, "two assistant messages in a row"),
    ],
)
def test_a_bad_message_is_reported(messages: list[Any], problem: str) -> None:
    assert any(problem in found for found in problems_of(*messages))


@table(
    ("fields", "problem"),
    [
        ({"model": 1}, "model is not a string"),
        ({"temperature": 1}, "unknown key temperature"),
        ({"stream": None}, "stream is not a boolean"),
        ({"think": "minimal"}, "bad think 'minimal'"),
        ({"format": "xml"}, "bad format 'xml'"),
        ({"options": {}}, "options are empty"),
        ({"options": {"p": 1}}, "unknown option p"),
        ({"options": {"num_predict": 1.5}}, "bad num_predict 1.5"),
        ({"tools": []}, "tools are empty"),
        ({"tools": [declared() | {"strict": True}]}, "bad keys of a tool"),
        ({"tools": [{"type": "function", "function": {}}]}, "bad keys of a function"),
        ({"tools": [declared("a b")]}, "bad tool name 'a b'"),
        ({"tools": [declared(), declared()]}, "two tools share a name"),
        ({"tools": [declared(type="array")]}, "parameters are not an object"),
        ({"tools": [declared(properties={"a": True})]}, "bad schema True"),
        ({"tools": [declared(required="a")]}, "bad required of a schema"),
        ({"tools": [declared(required=[1])]}, "a keyword of a schema is not a string"),
        ({"tools": [declared(properties={"a": {"type": [1]}})]}, "a keyword of a schema"),
    ],
)
def test_a_bad_field_is_reported(fields: dict[str, Any], problem: str) -> None:
    assert any(problem in found for found in problems_of(USER, **fields))


def test_messages_must_be_the_last_field_of_an_object() -> None:
    assert problems(b"[]") == ["the body is not an object"]
    body = json.dumps({"messages": [USER], "stream": True, "model": "m"}).encode()
    assert problems(body) == ["messages must be the last field"]
