"""The validator of Bedrock requests reports a violation of each rule."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.request_validators.bedrock import problems
from tests.support.request_validators.converse_model import offences
from tests.support.tables import table

Body = dict[str, Any]

TEXT = {"text": "hi"}
USER = {"role": "user", "content": [TEXT]}
SAID = {"role": "assistant", "content": [TEXT]}
CALL = {"toolUse": {"toolUseId": "a", "name": "look", "input": {}}}
RESULT = {"toolResult": {"toolUseId": "a", "content": [TEXT]}}
SIGNED = {"reasoningContent": {"reasoningText": {"text": "", "signature": "s"}}}
REDACTED = {"reasoningContent": {"redactedContent": "eA=="}}
LOOK = {"toolSpec": {"name": "look", "inputSchema": {"json": {"type": "object"}}}}
IMAGE = {"image": {"format": "png", "source": {"bytes": "eA=="}}}
MARK = {"cachePoint": {"type": "default"}}
S3 = {"image": {"format": "png", "source": {"s3Location": {"uri": "s3://bucket/a.png"}}}}
FILE = {"document": {"format": "pdf", "name": "a b", "source": {"bytes": "eA=="}}}
SOUND = {"audio": {"format": "wav", "source": {"bytes": "eA=="}}}
SHAPE = {"type": "json_schema", "structure": {"jsonSchema": {"schema": "{}", "name": "n"}}}
THINKS = {"thinking": {"type": "enabled", "budget_tokens": 1024}}


def user(*blocks: Any) -> Body:
    return {"role": "user", "content": list(blocks)}


def model(*blocks: Any) -> Body:
    return {"role": "assistant", "content": list(blocks)}


def spec(**fields: Any) -> Body:
    return {"toolSpec": {**LOOK["toolSpec"], **fields}}


def call(**fields: Any) -> Body:
    return {"toolUse": {**CALL["toolUse"], **fields}}


def document(**fields: Any) -> Body:
    return {"document": {**FILE["document"], **fields}}


def body_of(*messages: Any, **fields: Any) -> Body:
    return {"toolConfig": {"tools": [LOOK]}, **fields, "messages": list(messages)}


def problems_of(*messages: Any, **fields: Any) -> list[str]:
    return problems(json.dumps(body_of(*messages, **fields)).encode())


GOOD = [
    [USER],
    [USER, SAID, USER],
    [USER, model(SIGNED, REDACTED, TEXT, CALL), user(RESULT, TEXT)],
    [user(TEXT, IMAGE, S3, FILE, SOUND)],
    [USER, model(CALL), user({"toolResult": {"toolUseId": "a", "content": [IMAGE]}})],
    [user(TEXT, MARK), model(CALL), user(RESULT, MARK)],
]


@table("messages", GOOD)
def test_a_valid_request_has_no_problems(messages: list[Any]) -> None:
    assert problems_of(*messages, system=[TEXT], serviceTier={"type": "flex"}) == []
    assert problems_of(*messages, outputConfig={"textFormat": SHAPE}) == []


@table("messages", GOOD)
def test_a_valid_request_matches_the_aws_service_model(messages: list[Any]) -> None:
    fields = {"system": [TEXT], "outputConfig": {"textFormat": SHAPE}}
    assert offences(body_of(*messages, **fields)) == []


@table(
    ("messages", "problem"),
    [
        ([], "there are no messages"),
        ([USER | {"name": "x"}], "bad keys of a message"),
        ([{"role": "system", "content": [TEXT]}], "bad role"),
        ([user()], "there are no blocks"),
        ([user(MARK)], "a cache marker without a block before it"),
        ([user(TEXT, {"cachePoint": {"type": "x"}})], "a bad cache marker"),
        ([user(TEXT, *[MARK] * 5)], "too many cache markers"),
        ([user({})], "exactly one key"),
        ([user(TEXT | IMAGE)], "exactly one key"),
        ([user(CALL)], "a toolUse block in user"),
        ([user({"text": " \n"})], "a blank text"),
        ([user({"image": 7})], "bad image"),
        ([user({"image": {**IMAGE["image"], "format": "bmp"}})], "format of image"),
        ([user({"image": {"format": "png", "source": {"bytes": ""}}})], "a bad source"),
        ([user({"image": {"format": "png", "source": {"bytes": "%"}}})], "a bad source"),
        ([user(TEXT, document(name="a.pdf"))], "a bad name"),
        ([user(TEXT, document(name="a  b"))], "a bad name"),
        ([user(FILE)], "a document without text"),
        ([user(TEXT, FILE, FILE)], "two documents share a name"),
        ([USER, model(call(toolUseId="a.b")), user(RESULT)], "a bad id"),
        ([USER, model(call(name="é")), user(RESULT)], "a bad id or name"),
        ([USER, model(call(input=[])), user(RESULT)], "not an object"),
        ([USER, model(call(x=1)), user(RESULT)], "bad keys of a call"),
        ([USER, model(CALL), user({"toolResult": {"toolUseId": "a"}})], "bad keys of a result"),
        ([USER, model({"reasoningContent": {}}, TEXT), USER], "a bad thinking block"),
        (
            [
                USER,
                model({"reasoningContent": {"reasoningText": {"text": "", "signature": ""}}}, TEXT),
            ],
            "without a signature",
        ),
        ([SAID, USER], "the first and the last"),
        ([USER, SAID], "the first and the last"),
        ([USER, USER], "two messages of one role"),
        ([USER, model(CALL), USER], "results [] to the calls ['a']"),
        ([user(RESULT)], "results ['a'] to the calls []"),
        ([USER, model(CALL), user(TEXT, RESULT)], "a result after another block"),
        ([USER, model(CALL, TEXT), user(RESULT)], "a block after a call"),
        ([USER, model(TEXT, SIGNED), USER], "thinking at the end"),
        ([USER, model(CALL), user(RESULT), model(CALL), user(RESULT)], "two calls share an id"),
    ],
)
def test_a_bad_message_is_reported(messages: list[Any], problem: str) -> None:
    assert any(problem in each for each in problems_of(*messages))


@table(
    ("fields", "problem"),
    [
        ({"model": "m"}, "unknown key model"),
        ({"system": []}, "system: there are no blocks"),
        ({"system": [{"text": ""}]}, "system: a blank text"),
        ({"toolConfig": {"tools": []}}, "bad tools"),
        ({"toolConfig": {"tools": [{}]}}, "a bad tool"),
        ({"toolConfig": {"tools": [LOOK, LOOK]}}, "share a name"),
        ({"toolConfig": {"tools": [spec(name="a.b")]}}, "bad tool name"),
        ({"toolConfig": {"tools": [spec(description=" ")]}}, "a blank description"),
        ({"toolConfig": {"tools": [spec(x=1)]}}, "bad keys of a tool"),
        (
            {"toolConfig": {"tools": [spec(inputSchema={"json": {"anyOf": []}})]}},
            "not a plain object",
        ),
        ({"toolConfig": {"tools": [LOOK], "toolChoice": {"none": {}}}}, "bad tool choice"),
        (
            {"toolConfig": {"tools": [LOOK], "toolChoice": {"tool": {"name": "x"}}}},
            "bad tool choice",
        ),
        ({"inferenceConfig": {"maxTokens": 0}}, "bad inferenceConfig"),
        ({"inferenceConfig": {"temperature": 2}}, "sampling out of bounds"),
        ({"serviceTier": {"type": "auto"}}, "bad tier"),
        ({"outputConfig": {}}, "bad outputConfig"),
        (
            {"additionalModelRequestFields": {"reasoningConfig": {"maxReasoningEffort": "high"}}},
            "limits while thinking",
        ),
        ({"additionalModelRequestFields": THINKS, "inferenceConfig": {}}, "a budget out of bounds"),
        ({"additionalModelRequestFields": THINKS}, "sampling while thinking"),
        ({"additionalModelRequestFields": {"thinking": {"type": "x"}}}, "bad thinking"),
        (
            {
                "additionalModelRequestFields": {"thinking": {"type": "adaptive"}},
                "toolConfig": {"tools": [LOOK], "toolChoice": {"any": {}}},
            },
            "a forced choice while thinking",
        ),
    ],
)
def test_a_bad_field_is_reported(fields: Body, problem: str) -> None:
    config = {"inferenceConfig": {"maxTokens": 9000, "temperature": 1}}
    assert any(problem in each for each in problems_of(USER, **config | fields))


def test_a_schema_must_be_an_object() -> None:
    shape = {"type": "json_schema", "structure": {"jsonSchema": {"schema": "[]"}}}
    assert problems_of(USER, outputConfig={"textFormat": shape}) == [
        "a schema that is not an object"
    ]


def test_a_resumed_turn_must_begin_with_thinking() -> None:
    fields = {
        "additionalModelRequestFields": THINKS,
        "inferenceConfig": {"maxTokens": 2000},
    }
    second = {"toolResult": {"toolUseId": "b", "content": [TEXT]}}
    rounds = [user(RESULT), model(call(toolUseId="b")), user(second)]
    assert problems_of(USER, model(SIGNED, CALL), *rounds, **fields) == []
    assert problems_of(USER, model(CALL), *rounds, **fields) == ["a resumed turn without thinking"]
    assert problems_of(USER, model(CALL), user(RESULT), SAID, USER, **fields) == []


def test_calls_without_tools_and_text_beside_calls_are_reported() -> None:
    messages = [USER, model(TEXT, CALL), user(RESULT, TEXT)]
    assert problems(json.dumps({"messages": messages}).encode()) == ["calls, and no tools"]
    body = json.dumps(body_of(*messages)).encode()
    found = problems(body, separate_tool_messages=True)
    assert [each.partition(":")[0] for each in found] == ["messages[1]", "messages[2]"]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"[]", "the body is not an object"),
        (b'{"messages": [{"role": "user", "content": [{"text": "a"}]}], "system": []}', "last"),
    ],
)
def test_a_body_of_another_form_is_reported(body: bytes, problem: str) -> None:
    assert any(problem in each for each in problems(body))


@table(
    "change",
    [
        {"messages": [user({"image": {"format": "bmp", "source": {"bytes": "eA=="}}})]},
        {"messages": [user(TEXT | IMAGE)]},
        {"messages": [user(CALL["toolUse"])]},
        {"messages": [user(document(source={"bytes": ""}))]},
        {"messages": "x"},
        {"messages": [7]},
        {"system": [{"text": 7}]},
        {"inferenceConfig": {"temperature": 2}},
        {"inferenceConfig": {"maxTokens": True}},
        {"toolConfig": {"tools": [spec(strict=1)]}},
        {"requestMetadata": {"é": "x"}},
        {"toolConfig": {"tools": [LOOK], "toolChoice": {"tool": {}}}},
    ],
)
def test_a_bad_request_does_not_match_the_aws_service_model(change: Body) -> None:
    assert offences(body_of(USER) | change)
