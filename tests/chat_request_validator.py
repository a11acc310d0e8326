"""A strict reader of Chat Completions requests, written from the format and not from our code.

It is as narrow as the narrowest provider: a request without problems here is refused by nobody for
its form. Every problem is one line of text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")

TOP = set(
    """
    model tools tool_choice response_format temperature top_p max_tokens max_completion_tokens
    presence_penalty frequency_penalty top_logprobs logprobs parallel_tool_calls user
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
    """Everything that is wrong with a request."""
    document = json.loads(body)
    if not isinstance(document, dict):
        return ["the body is no object"]
    found = [f"unknown key {key}" for key in document.keys() - TOP]
    if list(document)[-1:] != ["messages"]:
        found.append("messages do not stand last")
    if not isinstance(document.get("model"), str):
        found.append("model is no string")
    found += _tool_problems(document)
    messages = document.get("messages")
    if not isinstance(messages, list) or not messages:
        return [*found, "there are no messages"]
    for place, message in enumerate(messages):
        found += [f"messages[{place}]: {problem}" for problem in _message_problems(message)]
    found += _order_problems([message for message in messages if isinstance(message, dict)])
    return found


def _tool_problems(document: dict[str, Any]) -> Iterator[str]:
    tools = document.get("tools")
    if tools is None:
        if "tool_choice" in document:
            yield "a choice of no tools"
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
            yield "the choice names no tool"
    elif choice not in ("auto", "none", "required"):
        yield f"bad tool choice {choice!r}"


def _message_problems(message: Any) -> Iterator[str]:
    role = message.get("role") if isinstance(message, dict) else None
    if role not in MESSAGE:
        yield f"bad role {role!r}"
        return
    yield from (f"unknown key {key}" for key in message.keys() - MESSAGE[role])
    calls = message.get("tool_calls")
    if calls is not None:
        yield from _call_problems(calls)
    content = message.get("content")
    if content is None and calls:
        return
    if isinstance(content, list):
        yield from _part_problems(content, role)
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
        if not _is_object(function.get("arguments")):
            yield "arguments are not the text of an object"


def _is_object(text: Any) -> bool:
    try:
        return isinstance(text, str) and isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _order_problems(messages: list[dict[str, Any]]) -> Iterator[str]:
    """Each call is answered once, right behind the message that made it, in its order."""
    expected: list[str] = []
    for place, message in enumerate(messages):
        role = message.get("role")
        if role == "tool":
            if not expected:
                yield f"messages[{place}]: an answer to no call"
            elif message.get("tool_call_id") != expected.pop(0):
                yield f"messages[{place}]: an answer to another call"
            continue
        if expected:
            yield f"messages[{place}]: {len(expected)} calls before it have no answer"
        expected = [call.get("id") for call in message.get("tool_calls") or ()]
        if len(expected) != len(set(expected)):
            yield f"messages[{place}]: two calls share an id"
        if role == "assistant" and place and messages[place - 1].get("role") == "assistant":
            yield f"messages[{place}]: two assistant messages in a row"
    if expected:
        yield f"{len(expected)} calls at the end have no answer"
