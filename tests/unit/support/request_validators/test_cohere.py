"""The validator of Cohere requests reports a violation of each rule."""

from __future__ import annotations

import json
from typing import Any

from tests.support.request_validators.cohere import problems
from tests.support.tables import table

USER = {"role": "user", "content": "hi"}
SYSTEM = {"role": "system", "content": "Be brief."}
FUNCTION = {"name": "look", "arguments": "{}"}
CALL = {"id": "a", "type": "function", "function": FUNCTION}
CALLED = {"role": "assistant", "tool_calls": [CALL]}
TOOL = {"role": "tool", "tool_call_id": "a", "content": "1"}
ANSWER = {"role": "assistant", "content": "Done."}
IMAGE = {"type": "image_url", "image_url": {"url": "https://x.test/1", "detail": "low"}}
THOUGHT = {"type": "thinking", "thinking": "hm"}
TEXT = {"type": "text", "text": "Done."}
DOCUMENT = {"type": "document", "document": {"data": {"a": 1}}}
LOOK = {"type": "function", "function": {"name": "look", "parameters": {}}}
OFF = {"type": "disabled"}


def called(**changes: Any) -> dict[str, Any]:
    return CALLED | {"tool_calls": [CALL | {"function": FUNCTION | changes}]}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def problems_of(*messages: Any, **fields: Any) -> list[str]:
    body = {"model": "m", "stream": True, **fields, "messages": list(messages)}
    return problems(json.dumps(body).encode())


def test_valid_requests_have_no_problems() -> None:
    planned = CALLED | {"tool_plan": "I will look."}
    thought = CALLED | {"content": [THOUGHT]}
    answer = {"role": "assistant", "content": [THOUGHT, TEXT]}
    cited = TOOL | {"content": [DOCUMENT]}
    assert problems_of(SYSTEM, USER, planned, TOOL, thought, cited, answer, user(TEXT, IMAGE)) == []
    assert problems_of(USER, tools=[LOOK], tool_choice="REQUIRED", thinking=OFF, p=0.5) == []
    form = {"type": "json_object", "json_schema": {}}
    budget = {"type": "enabled", "token_budget": 9}
    assert problems_of(USER, response_format=form, thinking=budget) == []


@table(
    ("messages", "problem"),
    [
        ([], "there are no messages"),
        ([1], "bad role None"),
        ([USER | {"name": "me"}], "unknown key name"),
        ([{"role": "user", "content": " "}], "it is empty"),
        ([user()], "it is empty"),
        ([user(THOUGHT)], "a thinking block in a user message"),
        ([user(TEXT | {"more": 1})], "bad keys of a text block"),
        ([user({"type": "text", "text": ""})], "an empty text block"),
        ([user({"type": "image_url", "image_url": {"url": ""}})], "bad image"),
        ([user({"type": "image_url", "image_url": {"url": "x", "detail": "x"}})], "bad detail"),
        ([TOOL | {"tool_call_id": None}], "a result without the id"),
        ([TOOL | {"content": [DOCUMENT | {"document": {"data": "a"}}]}], "bad document"),
        ([ANSWER | {"content": [THOUGHT]}], "an assistant message without text"),
        ([ANSWER | {"tool_plan": "a"}], "a tool plan without calls"),
        ([CALLED | {"tool_calls": []}], "tool calls are empty"),
        ([CALLED | {"content": [TEXT]}], "text beside calls"),
        ([CALLED | {"content": "Well."}], "text beside calls"),
        ([CALLED | {"tool_plan": ""}], "an empty tool plan"),
        ([CALLED | {"content": [THOUGHT], "tool_plan": "a"}], "content and a tool plan"),
        ([CALLED | {"tool_calls": [{"id": "a"}]}], "bad keys of a call"),
        ([CALLED | {"tool_calls": [CALL | {"id": ""}]}], "a call without an id"),
        ([called(name="a b")], "bad function"),
        ([called(arguments="[]")], "arguments are not the text of an object"),
        ([called(arguments={})], "arguments are not the text of an object"),
        ([USER, TOOL], "a result without a call"),
        ([USER, CALLED, TOOL | {"tool_call_id": "b"}], "a result of another call"),
        ([USER, CALLED, USER], "1 calls before it have no result"),
        ([USER, CALLED], "1 calls at the end have no result"),
        ([ANSWER, USER], "an assistant message that follows no user or tool message"),
        ([SYSTEM, ANSWER, USER], "an assistant message that follows no user or tool message"),
        ([USER, ANSWER], "the last message is not a user or tool message"),
        ([SYSTEM], "the last message is not a user or tool message"),
    ],
)
def test_a_bad_message_is_reported(messages: list[Any], problem: str) -> None:
    assert any(problem in found for found in problems_of(*messages))


@table(
    ("fields", "problem"),
    [
        ({"model": 1}, "model is not a string"),
        ({"top_p": 1}, "unknown key top_p"),
        ({"stream": None}, "stream is not a boolean"),
        ({"p": 1}, "bad p 1"),
        ({"thinking": {"type": "on"}}, "bad thinking"),
        ({"thinking": OFF | {"token_budget": 1}}, "bad budget"),
        ({"response_format": {"type": "json_schema"}}, "bad format"),
        ({"response_format": {"type": "json_object"}, "tools": [LOOK]}, "a format beside tools"),
        ({"tool_choice": "NONE"}, "tool_choice of no tools"),
        ({"tools": []}, "tools are empty"),
        ({"tools": [LOOK | {"strict": True}]}, "bad keys of a tool"),
        ({"tools": [{"type": "function", "function": {}}]}, "bad keys of a function"),
        ({"tools": [LOOK], "strict_tools": True}, "a strict tool without required parameters"),
        ({"tools": [LOOK], "tool_choice": "auto"}, "bad tool choice 'auto'"),
        (
            {"tools": [LOOK | {"function": {"name": "a b", "parameters": {}}}]},
            "bad tool name 'a b'",
        ),
        ({"tools": [LOOK | {"function": {"name": "a", "parameters": []}}]}, "are not a schema"),
    ],
)
def test_a_bad_field_is_reported(fields: dict[str, Any], problem: str) -> None:
    assert any(problem in found for found in problems_of(USER, **fields))


def test_a_thinking_block_while_thinking_is_off_is_reported() -> None:
    thought = CALLED | {"content": [THOUGHT]}
    assert problems_of(USER, thought, TOOL, thinking=OFF) == [
        "messages[1]: thinking while it is disabled"
    ]


def test_messages_must_be_the_last_field_of_an_object() -> None:
    assert problems(b"[]") == ["the body is not an object"]
    body = json.dumps({"messages": [USER], "stream": True, "model": "m"}).encode()
    assert problems(body) == ["messages must be the last field"]
