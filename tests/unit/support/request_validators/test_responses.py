"""The validator of Responses requests accepts valid ones and reports a violation of each rule."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from tests.support.request_validators.responses import problems
from tests.support.tables import table

Body = dict[str, Any]

GOOD: Body = {
    "model": "m",
    "instructions": "Be brief.",
    "tools": [
        {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": True}
    ],
    "tool_choice": {"type": "function", "name": "look"},
    "reasoning": {"effort": "low", "summary": "auto"},
    "text": {"format": {"type": "json_object"}, "verbosity": "low"},
    "include": ["reasoning.encrypted_content"],
    "store": False,
    "stream": True,
    "input": [
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "hi"},
                {
                    "type": "input_image",
                    "image_url": "data:image/png;base64,aGk=",
                    "detail": "auto",
                },
                {"type": "input_file", "file_id": "file_1"},
                {"type": "input_file", "filename": "a.txt", "file_data": "data:;base64,aGk="},
            ],
        },
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"},
        {"type": "function_call", "call_id": "b", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "1"},
        {
            "type": "function_call_output",
            "call_id": "b",
            "output": [{"type": "input_image", "image_url": "https://x.test/a", "detail": "low"}],
        },
        {"type": "message", "role": "assistant", "content": "Done."},
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "x"}]},
    ],
}
Break = Callable[[Body], object]


def put(**changes: Any) -> Break:
    return lambda body: body.update(changes | {"input": body.pop("input")})


def item(place: int, **changes: Any) -> Break:
    return lambda body: body["input"][place].update(changes)


def insert(place: int, **fields: Any) -> Break:
    return lambda body: body["input"].insert(place, fields)


def drop(place: int, name: str) -> Break:
    return lambda body: body["input"][place].pop(name)


SAID = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]}
BREAKS: dict[str, Break] = {
    "unknown key messages": put(messages=[]),
    "model is not a name": put(model=""),
    "instructions are empty": put(instructions=""),
    "store is not false": put(store=True),
    "input must be the last field": lambda body: body.update(stream=body.pop("stream")),
    "input is not a list": lambda body: body.update(input="hi"),
    "or is empty": lambda body: body.update(input=[]),
    "unknown key of reasoning": put(reasoning={"budget": 1}),
    "unknown key of text": put(text={"size": 1}),
    "bad include": put(include=[]),
    "tools are empty": put(tools=[], tool_choice="auto"),
    "bad tool name": lambda body: body["tools"][0].update(name="a b"),
    "two tools share a name": lambda body: body["tools"].append(body["tools"][0]),
    "bad function": lambda body: body["tools"][0].update(function={}),
    "the tool choice names no declared tool": put(tool_choice={"type": "function", "name": "x"}),
    "bad tool choice": put(tool_choice="any"),
    "a tool choice without tools": lambda body: body.pop("tools"),
    "bad type": item(0, type="item_reference"),
    "bad keys of a message": item(0, id="msg_1"),
    "bad role": item(0, role="tool"),
    "it is empty": item(0, content=[]),
    "assistant content is not a string": item(6, content=[]),
    "bad part": item(0, content=[{"type": "output_text", "text": "a"}]),
    "bad image": lambda body: body["input"][0]["content"][1].update(detail="x"),
    "bad file": lambda body: body["input"][0]["content"][2].update(filename="x"),
    "bad keys of a call": item(2, id="fc_1"),
    "bad name": item(2, name="a.b"),
    "bad call id": item(2, call_id="x" * 65),
    "arguments are not the text of an object": item(2, arguments="[]"),
    "bad keys of an output": item(4, status="completed"),
    "an empty output": item(4, output=""),
    "a list of parts": item(4, output=[{"type": "input_text", "text": "a"}]),
    "reasoning without a summary": drop(1, "summary"),
    "reasoning with plain content": item(1, content=[]),
    "reasoning without encrypted_content": drop(1, "encrypted_content"),
    "a result without a call": insert(7, type="function_call_output", call_id="a", output="1"),
    "a result of another call": item(4, call_id="c"),
    "2 calls before it have no result": insert(4, **SAID),
    "two calls share an id": item(3, call_id="a"),
    "reasoning without a following item": insert(
        8, type="reasoning", summary=[], encrypted_content="x"
    ),
    "1 calls at the end": insert(8, type="function_call", call_id="c", name="x", arguments="{}"),
    "the package": put(temperature="hot"),
}


def found(body: Body, **options: Any) -> list[str]:
    return problems(json.dumps(body).encode(), **options)


def test_a_valid_request_has_no_problems() -> None:
    assert found(GOOD) == []


def test_a_request_without_tools_has_no_problems() -> None:
    bare = {name: value for name, value in GOOD.items() if name not in ("tools", "tool_choice")}
    assert found(bare) == []


@table("problem", BREAKS)
def test_a_bad_request_is_reported(problem: str) -> None:
    body = copy.deepcopy(GOOD)
    BREAKS[problem](body)
    assert any(problem in each for each in found(body))


def test_a_body_that_is_not_an_object_is_reported() -> None:
    assert problems(b"[]") == ["the body is not an object"]


def test_plain_reasoning_is_valid_where_supported() -> None:
    body = copy.deepcopy(GOOD)
    body["input"][1] = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "hm"}],
    }
    assert found(body, plain_reasoning=True) == []
    assert found(body)
