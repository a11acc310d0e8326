"""Validator of Chat Completions requests, written from the format and not from our code.

It is as strict as the strictest provider: none refuses the form of a request without problems.
Every problem is one line of text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.request_validators.rules import (
    NAME,
    Body,
    check_by_role,
    check_request,
    consecutive_assistant_problems,
    is_object,
    result_problems,
)

TOP = set(
    """
    model tools tool_choice response_format temperature top_p max_tokens max_completion_tokens
    presence_penalty frequency_penalty top_logprobs logprobs parallel_tool_calls user
    logit_bias random_seed seed stop top_k
    prompt_cache_key service_tier verbosity reasoning_effort stream stream_options messages
    """.split()
)
MESSAGE = {
    "system": {"role", "content"},
    "developer": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls", "reasoning_content"},
    "tool": {"role", "content", "tool_call_id"},
}
PART = {
    "text": {"text"},
    "image_url": {"url", "detail"},
    "file": {"filename", "file_data", "file_id"},
    "input_audio": {"data", "format"},
}
PARTS = {"user": set(PART), "tool": {"text", "image_url"}}


def problems(body: bytes) -> list[str]:
    """All problems of a request."""
    document, messages, found = check_request(body, TOP, check_by_role(MESSAGE, _message_problems))
    turns = [message for message in messages if isinstance(message, dict)]
    found += [
        *_tool_problems(document),
        *result_problems(turns),
        *consecutive_assistant_problems(turns),
    ]
    return found


def _tool_problems(document: Body) -> Iterator[str]:
    tools = document.get("tools")
    if tools is None:
        if "tool_choice" in document:
            yield "a tool choice without tools"
        return
    if not tools:
        yield "tools are empty"
    names = [tool["function"]["name"] for tool in tools if tool.get("type") == "function"]
    yield from (f"bad tool name {name!r}" for name in names if not NAME.fullmatch(name))
    if len(names) != len(set(names)):
        yield "two tools share a name"
    choice = document.get("tool_choice")
    if isinstance(choice, dict):
        if choice.get("function", {}).get("name") not in names:
            yield "the tool choice names no declared tool"
    elif choice not in ("auto", "none", "required"):
        yield f"bad tool choice {choice!r}"


def _message_problems(message: Body) -> Iterator[str]:
    calls = message.get("tool_calls")
    if calls is not None:
        yield from _call_problems(calls)
    content = message.get("content")
    if content is None and calls:
        return
    if isinstance(content, list):
        yield from _part_problems(content, message["role"])
    elif not isinstance(content, str) or not content:
        yield "it is empty"


def _part_problems(parts: list[Any], role: str) -> Iterator[str]:
    if all(part.get("type") == "text" for part in parts):
        yield "a list of parts where a string would do"
    for part in parts:
        kind = part.get("type")
        if kind not in PARTS.get(role, set()):
            yield f"a {kind} part in a {role} message"
            continue
        inner = part if kind == "text" else part.get(kind)
        if set(part) != {"type", kind}:
            yield f"bad keys of a {kind} part"
        elif not isinstance(inner, dict) or not set(inner) - {"type"} <= PART[kind]:
            yield f"bad {kind}"
        elif not all(isinstance(value, str) and value for value in inner.values()):
            yield f"an empty {kind}"
        elif kind == "image_url" and inner.get("detail", "auto") not in ("low", "high", "auto"):
            yield "bad detail"


def _call_problems(calls: Any) -> Iterator[str]:
    if not isinstance(calls, list) or not calls:
        yield "tool calls are empty"
        return
    for call in calls:
        if set(call) != {"id", "type", "function"} or call["type"] != "function":
            yield "bad keys of a call"
            continue
        function = call["function"]
        if set(function) != {"name", "arguments"} or not NAME.fullmatch(function["name"]):
            yield f"bad function {function!r}"
        if not isinstance(call["id"], str) or not call["id"]:
            yield "a call without an id"
        if not is_object(function.get("arguments")):
            yield "arguments are not the text of an object"
