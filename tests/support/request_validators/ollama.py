"""Validator of Ollama chat requests, written from the format and not from our code.

A server reads a request into typed fields and refuses other types; it ignores unknown fields, which
is a problem here as well. Every problem is one line of text.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from tests.support.request_validators.rules import (
    NAME,
    Body,
    check_by_role,
    check_request,
    consecutive_assistant_problems,
    result_problems,
)

LEVELS = ("low", "medium", "high", "max")

TOP = set(
    """
    model tools format think options logprobs top_logprobs keep_alive truncate stream messages
    """.split()
)
OPTIONS: dict[str, type | tuple[type, ...]] = {
    "num_ctx": int,
    "num_predict": int,
    "temperature": (int, float),
    "top_p": (int, float),
    "presence_penalty": (int, float),
    "frequency_penalty": (int, float),
    "seed": int,
    "stop": list,
    "top_k": int,
}
MESSAGE = {
    "system": {"role", "content"},
    "user": {"role", "content", "images"},
    "assistant": {"role", "content", "thinking", "tool_calls"},
    "tool": {"role", "content", "images", "tool_name", "tool_call_id"},
}


def problems(body: bytes) -> list[str]:
    """All problems of a request."""
    document, messages, found = check_request(body, TOP, check_by_role(MESSAGE, _message_problems))
    if document:
        found += [*_setting_problems(document), *_tool_problems(document)]
    # The rest trusts the shapes.
    return found or [*_result_problems(messages), *consecutive_assistant_problems(messages)]


def _setting_problems(document: Body) -> Iterator[str]:
    if not isinstance(document.get("stream"), bool):
        yield "stream is not a boolean"
    think = document.get("think", True)
    if not isinstance(think, bool) and think not in LEVELS:
        yield f"bad think {think!r}"
    form = document.get("format", "json")
    if form != "json" and not isinstance(form, dict):
        yield f"bad format {form!r}"
    if "options" in document and not document["options"]:
        yield "options are empty"
    for name, value in document.get("options", {}).items():
        if name not in OPTIONS:
            yield f"unknown option {name}"
        elif not isinstance(value, OPTIONS[name]) or isinstance(value, bool):
            yield f"bad {name} {value!r}"


# --- tools ----------------------------------------------------------------------------------------


def _tool_problems(document: Body) -> Iterator[str]:
    if "tools" in document and not document["tools"]:
        yield "tools are empty"
    names: list[str] = []
    for tool in document.get("tools", []):
        function = tool.get("function", {})
        if set(tool) != {"type", "function"} or tool["type"] != "function":
            yield "bad keys of a tool"
        if set(function) - {"description"} != {"name", "parameters"}:
            yield "bad keys of a function"
            continue
        if not NAME.fullmatch(function["name"]):
            yield f"bad tool name {function['name']!r}"
        names.append(function["name"])
        if function["parameters"].get("type") != "object":
            yield "parameters are not an object"
        yield from _schema_problems(function["parameters"])
    if len(names) != len(set(names)):
        yield "two tools share a name"


def _schema_problems(schema: Any) -> Iterator[str]:
    if not isinstance(schema, dict):
        yield f"bad schema {schema!r}"
        return
    kinds = {"description": str, "enum": list, "required": list, "properties": dict, "anyOf": list}
    for name, kind in kinds.items():
        if name in schema and not isinstance(schema[name], kind):
            yield f"bad {name} of a schema"
            return
    types = schema.get("type", "object")
    names = [*(types if isinstance(types, list) else [types]), *schema.get("required", [])]
    if not all(isinstance(name, str) for name in names):
        yield "a keyword of a schema is not a string"
    for inner in (*schema.get("properties", {}).values(), *schema.get("anyOf", [])):
        yield from _schema_problems(inner)


# --- messages -------------------------------------------------------------------------------------


def _message_problems(message: Body) -> Iterator[str]:
    if not isinstance(message.get("content"), str):
        yield "content is not a string"
    elif not (message["content"] or message.get("images") or message.get("tool_calls")):
        yield "it is empty"
    if not isinstance(message.get("thinking", "hm"), str) or message.get("thinking") == "":
        yield "bad thinking"
    if "images" in message and not _are_images(message["images"]):
        yield "bad images"
    if "tool_calls" in message:
        yield from _call_problems(message["tool_calls"])
    if message["role"] == "tool" and not all(
        isinstance(message.get(key), str) and message[key] for key in ("tool_name", "tool_call_id")
    ):
        yield "a result without the id of its call"


def _are_images(images: Any) -> bool:
    try:
        return bool(images) and all(base64.b64decode(image, validate=True) for image in images)
    except (TypeError, ValueError):
        return False


def _call_problems(calls: Any) -> Iterator[str]:
    if not isinstance(calls, list) or not calls:
        yield "tool calls are empty"
        return
    for call in calls:
        function = call.get("function", {})
        if set(call) != {"id", "function"} or set(function) != {"name", "arguments"}:
            yield "bad keys of a call"
        elif not isinstance(call["id"], str) or not call["id"]:
            yield "a call without an id"
        elif not NAME.fullmatch(function["name"]):
            yield f"bad function {function['name']!r}"
        elif not isinstance(function["arguments"], dict):
            yield "arguments are not an object"


def _result_problems(messages: list[Body]) -> Iterator[str]:
    """Results also name their function."""
    return result_problems(
        messages,
        call=lambda call: (call["id"], call["function"]["name"]),
        answer=lambda message: (message["tool_call_id"], message["tool_name"]),
    )
