"""Validator of Responses API requests, written from the API and not from our code.

It is as strict as the strictest server that stores nothing. Every problem is one line of text. The
types of the official package are checked as well; they know shapes, but no rules between fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import TypeAdapter, ValidationError

from tests.support.request_validators.rules import NAME, is_object

TOP = set(
    """
    model instructions tools tool_choice temperature top_p max_output_tokens top_logprobs
    parallel_tool_calls max_tool_calls truncation service_tier metadata user safety_identifier
    prompt_cache_key reasoning text include store stream input
    """.split()
)
REASONING = {"effort", "summary", "generate_summary", "context", "mode"}
INCLUDE = {
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "code_interpreter_call.outputs",
}
TOOL = {"type", "name", "description", "parameters", "strict"}
DETAILS = {"low", "high", "auto", "original"}


def problems(body: bytes, *, plain_reasoning: bool = False) -> list[str]:
    """All problems of a request."""
    document = json.loads(body)
    if not isinstance(document, dict):
        return ["the body is not an object"]
    found = [f"unknown key {key}" for key in document.keys() - TOP]
    if list(document)[-1:] != ["input"]:
        found.append("input must be the last field")
    if document.get("store") is not False:
        found.append("store is not false")
    found += _setting_problems(document)
    found += _tool_problems(document)
    items = document.get("input")
    if not isinstance(items, list) or not items:
        return [*found, "input is not a list, or is empty"]
    for index, item in enumerate(items):
        item_problems = _item_problems(item, plain_reasoning)
        found += [f"input[{index}]: {problem}" for problem in item_problems]
    found += _order_problems([item for item in items if isinstance(item, dict)])
    return found or list(_package_problems(document))


@cache
def _package() -> TypeAdapter[Any]:
    return TypeAdapter(ResponseCreateParamsNonStreaming)


def _package_problems(document: dict[str, Any]) -> Iterator[str]:
    try:
        _package().validate_json(json.dumps(document | {"stream": False}), strict=True)
    except ValidationError as error:
        for each in error.errors():
            yield f"the package: {'.'.join(map(str, each['loc']))}: {each['msg']}"


def _setting_problems(document: dict[str, Any]) -> Iterator[str]:
    if not isinstance(document.get("model"), str) or not document["model"]:
        yield "model is not a name"
    if document.get("instructions", "x") == "":
        yield "instructions are empty"
    if set(document.get("reasoning", {})) - REASONING:
        yield "unknown key of reasoning"
    if set(document.get("text", {})) - {"format", "verbosity"}:
        yield "unknown key of text"
    include = document.get("include", ["reasoning.encrypted_content"])
    if not include or set(include) - INCLUDE:
        yield f"bad include {include}"


def _tool_problems(document: dict[str, Any]) -> Iterator[str]:
    tools = document.get("tools")
    if tools is None:
        if "tool_choice" in document:
            yield "a tool choice without tools"
        return
    if not tools:
        yield "tools are empty"
    functions = [tool for tool in tools if tool.get("type") == "function"]
    names = [tool.get("name") for tool in functions]
    yield from (f"bad tool name {name!r}" for name in names if not NAME.fullmatch(str(name)))
    if len(names) != len(set(names)):
        yield "two tools share a name"
    for tool in functions:
        if set(tool) - TOOL or not isinstance(tool.get("parameters"), dict):
            yield f"bad function {tool.get('name')!r}"
    choice = document.get("tool_choice")
    if isinstance(choice, dict):
        if set(choice) != {"type", "name"} or choice["name"] not in names:
            yield "the tool choice names no declared tool"
    elif choice not in ("auto", "none", "required"):
        yield f"bad tool choice {choice!r}"


# --- items ----------------------------------------------------------------------------------------


def _item_problems(item: Any, plain_reasoning: bool) -> Iterator[str]:
    kind = item.get("type") if isinstance(item, dict) else None
    if kind == "message":
        yield from _message_problems(item)
    elif kind == "function_call":
        yield from _call_problems(item)
    elif kind == "function_call_output":
        yield from _output_problems(item)
    elif kind == "reasoning":
        yield from _reasoning_problems(item, plain_reasoning)
    elif kind == "compaction":
        if item.keys() - {"id"} != {"type", "encrypted_content"}:
            yield "a compaction has only its type and its content"
    else:
        yield f"bad type {kind!r}"


def _message_problems(item: dict[str, Any]) -> Iterator[str]:
    labelled = {"phase"} if item.get("role") == "assistant" else set()
    if set(item) - labelled != {"type", "role", "content"}:
        yield "bad keys of a message"
        return
    role, content = item["role"], item["content"]
    if role == "assistant":
        if not isinstance(content, str) or not content:
            yield "assistant content is not a string"
    elif role not in ("user", "system", "developer"):
        yield f"bad role {role!r}"
    elif not isinstance(content, list) or not content:
        yield "it is empty"
    else:
        yield from _part_problems(content, media=role == "user")


def _part_problems(parts: list[Any], *, media: bool) -> Iterator[str]:
    for part in parts:
        match part:
            case {"type": "input_text", "text": str(text), **rest} if not rest and text:
                pass
            case {"type": "input_image", "image_url": str(url), "detail": detail, **rest} if media:
                if rest or not url or detail not in DETAILS:
                    yield "bad image"
            case {"type": "input_file", **rest} if media:
                one_of = (["file_data", "filename"], ["file_id"], ["file_url"])
                if sorted(map(str, rest)) not in one_of or not all(rest.values()):
                    yield "bad file"
            case {"type": "input_audio", "input_audio": {"data": str(), "format": str()}} if media:
                pass
            case _:
                yield f"bad part {part!r}"


def _call_problems(item: dict[str, Any]) -> Iterator[str]:
    if set(item) != {"type", "call_id", "name", "arguments"}:
        yield "bad keys of a call"
        return
    yield from _call_id_problems(item)
    if not NAME.fullmatch(item["name"]):
        yield f"bad name {item['name']!r}"
    if not is_object(item["arguments"]):
        yield "arguments are not the text of an object"


def _call_id_problems(item: dict[str, Any]) -> Iterator[str]:
    call_id = item.get("call_id")
    if not isinstance(call_id, str) or not 0 < len(call_id) <= 64:
        yield f"bad call id {call_id!r}"


def _output_problems(item: dict[str, Any]) -> Iterator[str]:
    if set(item) != {"type", "call_id", "output"}:
        yield "bad keys of an output"
        return
    yield from _call_id_problems(item)
    if isinstance(item["output"], list) and item["output"]:
        if all(part.get("type") == "input_text" for part in item["output"]):
            yield "a list of parts where a string would do"
        yield from _part_problems(item["output"], media=True)
    elif not isinstance(item["output"], str) or not item["output"]:
        yield "an empty output"


def _reasoning_problems(item: dict[str, Any], plain: bool) -> Iterator[str]:
    if not isinstance(item.get("summary"), list):
        yield "reasoning without a summary"
    if not plain:
        if "content" in item:
            yield "reasoning with plain content"
        if not isinstance(item.get("encrypted_content"), str) or not item["encrypted_content"]:
            yield "reasoning without encrypted_content"


def _order_problems(items: list[dict[str, Any]]) -> Iterator[str]:
    """Each call has one result, directly after its turn, and an item follows reasoning."""
    expected: list[Any] = []
    called: set[Any] = set()
    for index, (item, following) in enumerate(zip(items, [*items[1:], {}], strict=True)):
        kind, where = item.get("type"), f"input[{index}]: "
        own = kind in ("reasoning", "function_call") or item.get("role") == "assistant"
        if kind == "function_call_output":
            if not expected:
                yield f"{where}a result without a call"
            elif item.get("call_id") != expected.pop(0):
                yield f"{where}a result of another call"
        elif expected and not own:
            yield f"{where}{len(expected)} calls before it have no result"
            expected = []
        if kind == "function_call":
            if item.get("call_id") in called:
                yield f"{where}two calls share an id"
            called.add(item.get("call_id"))
            expected.append(item.get("call_id"))
        if kind == "reasoning" and not (
            following.get("type") in ("reasoning", "function_call")
            or following.get("role") == "assistant"
        ):
            yield f"{where}reasoning without a following item"
    if expected:
        yield f"{len(expected)} calls at the end have no result"
