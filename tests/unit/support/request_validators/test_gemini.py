"""The validator of Gemini requests accepts a valid one and reports a violation of each rule."""

from __future__ import annotations

import copy
import json
from typing import Any

from tests.support.request_validators.gemini import problems, schema_problems
from tests.support.tables import table

GOOD: dict[str, Any] = {
    "systemInstruction": {"parts": [{"text": "Be brief."}]},
    "tools": [{"functionDeclarations": [{"name": "look"}]}],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["look"]}},
    "generationConfig": {"thinkingConfig": {"thinkingLevel": "low", "includeThoughts": True}},
    "contents": [
        {"role": "user", "parts": [{"text": "hi"}]},
        {
            "role": "model",
            "parts": [
                {
                    "functionCall": {"name": "look", "id": "a", "args": {}},
                    "thoughtSignature": "c2ln",
                }
            ],
        },
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "look", "id": "a", "response": {}}}],
        },
        {"role": "user", "parts": [{"text": "Well?"}]},
    ],
}


def changed(*path: str | int, to: Any) -> bytes:
    """The valid request with one value changed or removed."""
    document = copy.deepcopy(GOOD)
    where: Any = document
    for step in path[:-1]:
        where = where[step]
    if to is None:
        del where[path[-1]]
    else:
        where[path[-1]] = to
    contents = document.pop("contents")
    return json.dumps({**document, "contents": contents}).encode()


def test_a_valid_request_has_no_problems() -> None:
    assert problems(json.dumps(GOOD).encode(), signed=True) == []


CALL = ("contents", 1, "parts", 0)
ANSWER = ("contents", 2, "parts", 0, "functionResponse")


@table(
    ("path", "value", "word"),
    [
        (("model",), "m", "unknown key model"),
        (("contents",), [], "no contents"),
        (("systemInstruction",), {"bogus": 1}, "systemInstruction"),
        (("tools",), [], "tools are empty"),
        (("tools",), None, "a tool choice without tools"),
        (("tools", 0, "functionDeclarations", 0, "name"), "1st", "bad tool name"),
        (("tools", 0, "functionDeclarations"), [{"name": "look"}] * 2, "share a name"),
        (("tools", 0), {"googleSearch": {}}, "an empty tool choice"),
        (
            ("tools", 0, "functionDeclarations", 0),
            {"name": "look", "parameters": {"type": "OBJECT"}},
            "without properties",
        ),
        (
            ("tools", 0, "functionDeclarations", 0),
            {"name": "look", "parameters": {"type": "STRING"}},
            "not an object",
        ),
        (
            ("tools", 0, "functionDeclarations", 0),
            {"name": "look", "parameters": {"type": "OBJECT"}, "parametersJsonSchema": {}},
            "parameters twice",
        ),
        (("toolConfig", "functionCallingConfig", "mode"), "AUTO", "without mode ANY"),
        (
            ("toolConfig", "functionCallingConfig", "allowedFunctionNames"),
            ["x"],
            "names no declared tool",
        ),
        (("generationConfig",), {}, "an empty configuration"),
        (("generationConfig",), {"responseMimeType": "application/json"}, "JSON beside tools"),
        (("generationConfig",), {"responseJsonSchema": {}}, "a schema without a type"),
        (
            ("generationConfig",),
            {"responseSchema": {"type": "STRING"}, "responseJsonSchema": {}},
            "two schemas",
        ),
        (("generationConfig", "thinkingConfig", "thinkingBudget"), 1, "bad thinking"),
        (
            ("generationConfig", "thinkingConfig"),
            {"thinkingBudget": 0, "includeThoughts": True},
            "includeThoughts without",
        ),
        (("contents", 0, "role"), "system", "bad keys, role"),
        (("contents", 0, "parts"), [], "no parts"),
        (("contents", 0, "parts", 0), {"text": ""}, "an empty text"),
        (("contents", 0, "parts", 0), {"text": "a", "thoughtSignature": "c2ln"}, "in a user turn"),
        (("contents", 0, "parts", 0), {"functionCall": {"name": "f", "args": {}}}, "of user"),
        (("contents", 0, "parts", 0), {}, "a part with []"),
        ((*CALL, "thoughtSignature"), None, "the first call has no signature"),
        ((*CALL, "thoughtSignature"), "***", "base64"),
        ((*CALL, "functionCall", "args"), None, "args are no object"),
        ((*CALL, "functionCall", "name"), "", "bad name"),
        ((*CALL, "functionCall", "id"), "", "an empty id"),
        ((*CALL, "functionCall", "id"), "b", "to calls"),
        ((*ANSWER, "name"), "other", "to calls"),
        (("contents", 2, "parts"), [{"text": "a"}], "to calls"),
        (("contents", 2), {"role": "user", "parts": GOOD["contents"][2]["parts"] * 2}, "to calls"),
        (
            ("contents", 2, "parts"),
            [*GOOD["contents"][2]["parts"], {"text": "a"}],
            "other parts in one turn",
        ),
        (("contents",), GOOD["contents"][:2], "1 calls at the end have no result"),
        (("contents",), GOOD["contents"][1:], "the first turn is the model's"),
        (("contents",), [GOOD["contents"][0]] * 2, "two turns of user in a row"),
    ],
)
def test_a_bad_request_is_reported(path: tuple[str | int, ...], value: Any, word: str) -> None:
    assert word in "\n".join(problems(changed(*path, to=value), signed=True))


def test_contents_must_be_the_last_field() -> None:
    document = {"contents": GOOD["contents"], "tools": GOOD["tools"]}
    assert problems(json.dumps(document).encode()) == ["contents must be the last field"]


@table(
    ("schema", "word"),
    [
        ({}, "no type"),
        ({"type": "string"}, "no type"),
        ({"anyOf": [{"type": "STRING"}, {"type": "ARRAY"}]}, "schema|[]: no type"),
        ({"anyOf": [{"type": "STRING"}]}, "or of one"),
        ({"anyOf": [{"type": "STRING"}] * 2, "description": "a"}, "beside it"),
        ({"type": "STRING", "title": "a"}, "title on STRING"),
        ({"type": "INTEGER", "enum": ["a"]}, "enum on INTEGER"),
        ({"type": "STRING", "enum": [""]}, "bad enum"),
        ({"type": "STRING", "enum": [1]}, "bad enum"),
        ({"type": "STRING", "format": "uri"}, "bad format"),
        ({"type": "OBJECT", "required": ["a"]}, "required"),
        ({"type": "OBJECT", "properties": {"a": {}}}, "schema.a: no type"),
    ],
)
def test_a_schema_outside_of_the_subset_is_reported(schema: Any, word: str) -> None:
    assert word in "\n".join(schema_problems(schema))
