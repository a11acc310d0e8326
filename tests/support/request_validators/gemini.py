"""Validator of Gemini `generateContent` requests, written from the format and not from our code.

It checks the rules that the API documents in prose (order of turns, counts, signatures, the subset
of schemas) and the types of the published `google-genai` package, which know every field. Every
problem is one line of text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial

from google.genai import types
from pydantic import BaseModel, ValidationError

from tests.support.request_validators.rules import Body as Document
from tests.support.request_validators.rules import check_request

NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
TOP: dict[str, type[BaseModel]] = {
    "systemInstruction": types.Content,
    "tools": types.Tool,
    "toolConfig": types.ToolConfig,
    "generationConfig": types.GenerationConfig,
    "contents": types.Content,
}
ECHOED = {"executableCode", "codeExecutionResult", "toolCall", "toolResponse"}
KINDS = {
    "user": {"text", "inlineData", "fileData", "functionResponse"},
    "model": {"text", "functionCall"} | ECHOED,
}
SCALARS = {
    "STRING": {"enum", "format", "minLength", "maxLength"},
    "NUMBER": {"format", "minimum", "maximum"},
    "INTEGER": {"format", "minimum", "maximum"},
    "BOOLEAN": set[str](),
    "ARRAY": {"items", "minItems", "maxItems"},
    "OBJECT": {"properties", "required", "propertyOrdering"},
}
FORMATS = {"date-time", "float", "double", "int32", "int64"}


def problems(body: bytes, *, signed: bool = False, json_beside_tools: bool = False) -> list[str]:
    """All problems of a request.

    `signed`: the model refuses calls without a signature. `json_beside_tools`: it
    accepts a JSON format beside functions.
    """
    check_item = partial(_content_problems, signed=signed)
    document, contents, found = check_request(body, TOP.keys(), check_item, last="contents")
    found += [*_type_problems(document), *_tool_problems(document)]
    found += _config_problems(document, json_beside_tools)
    return [*found, *_order_problems(contents)] if contents else found


def _type_problems(document: Document) -> Iterator[str]:
    """Fields that are unknown to the published types, or of another type."""
    for key, model in TOP.items():
        value = document.get(key, [])
        for each in value if isinstance(value, list) else [value]:
            try:
                model.model_validate_json(json.dumps(each))
            except ValidationError as error:
                yield f"{key}: {error}"


# --- tools and settings ---------------------------------------------------------------------------


def _tool_problems(document: Document) -> Iterator[str]:
    tools = document.get("tools", [])
    if "tools" in document and not tools:
        yield "tools are empty"
    functions = [each for tool in tools for each in tool.get("functionDeclarations", [])]
    names = [function.get("name", "") for function in functions]
    yield from (f"bad tool name {name!r}" for name in names if not NAME.fullmatch(name))
    if len(names) != len(set(names)):
        yield "two tools share a name"
    for function in functions:
        if "parameters" in function and "parametersJsonSchema" in function:
            yield "parameters twice"
        if function.get("parameters", {"type": "OBJECT"}).get("type") != "OBJECT":
            yield "parameters are not an object"
        if function.get("parameters", {"properties": 1}).get("properties") in ({}, None):
            yield "parameters without properties"
        yield from schema_problems(function.get("parameters", {"type": "STRING"}))
    yield from _choice_problems(document, names)


def _choice_problems(document: Document, names: list[str]) -> Iterator[str]:
    config = document.get("toolConfig", {})
    calling = config.get("functionCallingConfig")
    if config and "tools" not in document:
        yield "a tool choice without tools"
    if calling is None:
        return
    allowed = calling.get("allowedFunctionNames", [])
    if not calling or not names:
        yield "an empty tool choice"
    if allowed and calling.get("mode") != "ANY":
        yield "allowedFunctionNames without mode ANY"
    if not set(allowed) <= set(names):
        yield "the tool choice names no declared tool"


def schema_problems(schema: Document, where: str = "schema") -> Iterator[str]:
    """Keywords outside of the subset that every Gemini model accepts."""
    if "anyOf" in schema:
        if set(schema) != {"anyOf"} or len(schema["anyOf"]) < 2:
            yield f"{where}: a choice with something beside it, or of one"
        for branch in schema["anyOf"]:
            yield from schema_problems(branch, f"{where}|")
        return
    kind = schema.get("type")
    if kind not in SCALARS:
        yield f"{where}: no type"
        return
    unknown = set(schema) - {"type", "description", "nullable"} - SCALARS[kind]
    yield from (f"{where}: {keyword} on {kind}" for keyword in sorted(unknown))
    enum = schema.get("enum", ["a"])
    if not enum or not all(isinstance(each, str) and each for each in enum):
        yield f"{where}: bad enum"
    if schema.get("format", "int32") not in FORMATS:
        yield f"{where}: bad format"
    if kind == "ARRAY":
        yield from schema_problems(schema.get("items", {}), f"{where}[]")
    properties = schema.get("properties", {})
    listed = [*schema.get("required", []), *schema.get("propertyOrdering", [])]
    if not set(listed) <= set(properties):
        yield f"{where}: unknown properties are required"
    for name, inner in properties.items():
        yield from schema_problems(inner, f"{where}.{name}")


def _config_problems(document: Document, json_beside_tools: bool) -> Iterator[str]:
    config = document.get("generationConfig")
    if config is None:
        return
    if not config:
        yield "an empty configuration"
    if "responseSchema" in config and "responseJsonSchema" in config:
        yield "two schemas"
    if {"responseSchema", "responseJsonSchema"} & set(config) and "responseMimeType" not in config:
        yield "a schema without a type"
    if "responseMimeType" in config and "tools" in document and not json_beside_tools:
        yield "JSON beside tools"
    thinking = config.get("thinkingConfig", {"includeThoughts": True})
    if not thinking or {"thinkingLevel", "thinkingBudget"} <= set(thinking):
        yield "bad thinking"
    if thinking.get("thinkingBudget") == 0 and "includeThoughts" in thinking:
        yield "includeThoughts without thinking"
    yield from schema_problems(config.get("responseSchema", {"type": "STRING"}), "response")


# --- turns ----------------------------------------------------------------------------------------


def _content_problems(content: Document, signed: bool) -> Iterator[str]:
    role, parts = content.get("role"), content.get("parts")
    if list(content) != ["role", "parts"] or role not in KINDS or not parts:
        yield "bad keys, role, or no parts"
        return
    for part in parts:
        kinds = set(part) - {"thoughtSignature", "thought"}
        if len(kinds) != 1 or not kinds <= KINDS[role]:
            yield f"a part with {sorted(kinds)} of {role}"
        if part.get("text") == "" and "thoughtSignature" not in part:
            yield "an empty text"
        if "thoughtSignature" in part and role == "user":
            yield "a signature in a user turn"
        yield from _function_problems(part)
    results_found = ["functionResponse" in part for part in parts]
    if any(results_found) and not all(results_found):
        yield "results and other parts in one turn"
    calls = [part for part in parts if "functionCall" in part]
    if signed and calls and "thoughtSignature" not in calls[0]:
        yield "the first call has no signature"


def _function_problems(part: Document) -> Iterator[str]:
    call, answer = part.get("functionCall"), part.get("functionResponse")
    for function, content in ((call, "args"), (answer, "response")):
        if function is None:
            continue
        if not NAME.fullmatch(function.get("name", "")):
            yield f"bad name {function.get('name')!r}"
        if not isinstance(function.get(content), dict):
            yield f"{content} are no object"
        if function.get("id", "id") == "":
            yield "an empty id"


def _order_problems(contents: list[Document]) -> Iterator[str]:
    if contents[0].get("role") != "user":
        yield "the first turn is the model's"
    expected: list[tuple[str, str | None]] = []
    last, answered = None, False
    for index, content in enumerate(contents):
        results_found = _functions(content, "functionResponse")
        if results_found != expected:
            yield f"contents[{index}]: results {results_found} to calls {expected}"
        if content.get("role") == last and not (last == "user" and answered):
            yield f"contents[{index}]: two turns of {last} in a row"
        last, answered = content.get("role"), bool(results_found)
        expected = _functions(content, "functionCall")
    if expected:
        yield f"{len(expected)} calls at the end have no result"


def _functions(content: Document, kind: str) -> list[tuple[str, str | None]]:
    found = [part[kind] for part in content.get("parts") or () if kind in part]
    return [(function.get("name", ""), function.get("id")) for function in found]
