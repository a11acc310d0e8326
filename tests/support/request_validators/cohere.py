"""Validator of Cohere chat requests (v2), written from the format and not from our code.

It is as strict as the API was ever observed to be. Every problem is one line of text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.request_validators.rules import (
    NAME,
    Body,
    check_by_role,
    check_request,
    is_object,
    is_visible,
    result_problems,
)

TOP = set(
    """
    model tools strict_tools tool_choice response_format max_tokens temperature p k
    frequency_penalty presence_penalty seed stop_sequences thinking citation_options
    safety_mode stream messages
    """.split()
)
RANGES: dict[str, tuple[float, float]] = {
    "max_tokens": (1, 2**31),
    "temperature": (0, 1),
    "p": (0.01, 0.99),
    "k": (0, 500),
    "frequency_penalty": (0, 1),
    "presence_penalty": (0, 1),
    "seed": (0, 2**64 - 1),
}
MESSAGE = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_plan", "tool_calls"},
    "tool": {"role", "content", "tool_call_id"},
}
BLOCKS = {
    "system": {"text"},
    "user": {"text", "image_url"},
    "assistant": {"text", "thinking"},
    "tool": {"text", "document"},
}


def problems(body: bytes) -> list[str]:
    """All problems of a request."""
    document, messages, found = check_request(body, TOP, check_by_role(MESSAGE, _message_problems))
    if document:
        found += [*_setting_problems(document), *_tool_problems(document)]
    # The rest trusts the shapes.
    return found or [
        *result_problems(messages),
        *_order_problems(messages),
        *_thinking_problems(document),
    ]


def _setting_problems(document: Body) -> Iterator[str]:
    if not isinstance(document.get("stream"), bool):
        yield "stream is not a boolean"
    for name, (least, most) in RANGES.items():
        if name in document and not least <= document[name] <= most:
            yield f"bad {name} {document[name]!r}"
    thinking = document.get("thinking", {"type": "enabled"})
    if thinking["type"] not in ("enabled", "disabled") or set(thinking) - {"type", "token_budget"}:
        yield "bad thinking"
    elif "token_budget" in thinking and not (
        thinking["type"] == "enabled" and thinking["token_budget"] > 0
    ):
        yield "bad budget"
    form = document.get("response_format")
    if form is not None and "tools" in document:
        yield "a format beside tools"
    if form is not None and (form["type"] != "json_object" or set(form) - {"type", "json_schema"}):
        yield "bad format"


def _tool_problems(document: Body) -> Iterator[str]:
    tools = document.get("tools")
    if tools is None:
        yield from (
            f"{key} of no tools" for key in ("tool_choice", "strict_tools") & document.keys()
        )
        return
    if not tools:
        yield "tools are empty"
    for tool in tools:
        function = tool.get("function", {})
        if set(tool) != {"type", "function"} or tool["type"] != "function":
            yield "bad keys of a tool"
        elif set(function) - {"description"} != {"name", "parameters"}:
            yield "bad keys of a function"
        elif not NAME.fullmatch(function["name"]):
            yield f"bad tool name {function['name']!r}"
        elif not isinstance(function["parameters"], dict):
            yield "parameters are not a schema"
        elif document.get("strict_tools") and not function["parameters"].get("required"):
            yield "a strict tool without required parameters"
    if document.get("tool_choice", "NONE") not in ("NONE", "REQUIRED"):
        yield f"bad tool choice {document['tool_choice']!r}"


# --- messages -------------------------------------------------------------------------------------


def _message_problems(message: Body) -> Iterator[str]:
    role = message["role"]
    if "tool_calls" in message:
        yield from _call_problems(message)
    else:
        yield from _content_problems(message.get("content"), role)
        if "tool_plan" in message:
            yield "a tool plan without calls"
        if role == "assistant" and not _says_something(message.get("content")):
            yield "an assistant message without text"
    if role == "tool" and not is_visible(message.get("tool_call_id")):
        yield "a result without the id of its call"


def _says_something(content: Any) -> bool:
    return not isinstance(content, list) or any(block["type"] == "text" for block in content)


def _content_problems(content: Any, role: str) -> Iterator[str]:
    if not isinstance(content, list):
        if not is_visible(content):
            yield "it is empty"
        return
    if not content:
        yield "it is empty"
    for block in content:
        kind = block.get("type")
        if kind not in BLOCKS[role]:
            yield f"a {kind} block in a {role} message"
        elif set(block) != {"type", kind}:
            yield f"bad keys of a {kind} block"
        else:
            yield from _block_problems(kind, block[kind])


def _block_problems(kind: str, value: Any) -> Iterator[str]:
    if kind in ("text", "thinking"):
        if not is_visible(value):
            yield f"an empty {kind} block"
    elif kind == "image_url":
        if set(value) - {"detail"} != {"url"} or not is_visible(value["url"]):
            yield "bad image"
        elif value.get("detail", "auto") not in ("auto", "low", "high"):
            yield "bad detail"
    elif set(value) != {"data"} or not isinstance(value["data"], dict):
        yield "bad document"


def _call_problems(message: Body) -> Iterator[str]:
    calls = message["tool_calls"]
    if not isinstance(calls, list) or not calls:
        yield "tool calls are empty"
        return
    if "content" in message and "tool_plan" in message:
        yield "content and a tool plan"
    if "tool_plan" in message and not is_visible(message["tool_plan"]):
        yield "an empty tool plan"
    if "content" in message:
        yield from _content_problems(message["content"], "assistant")
        if _says_something(message["content"]):
            yield "text beside calls"
    for call in calls:
        yield from _one_call_problems(call)


def _one_call_problems(call: Body) -> Iterator[str]:
    function = call.get("function", {})
    if set(call) != {"id", "type", "function"} or call["type"] != "function":
        yield "bad keys of a call"
    elif set(function) != {"name", "arguments"} or not NAME.fullmatch(function["name"]):
        yield f"bad function {function!r}"
    elif not is_visible(call["id"]):
        yield "a call without an id"
    elif not is_object(function["arguments"]):
        yield "arguments are not the text of an object"


def _order_problems(messages: list[Body]) -> Iterator[str]:
    """An assistant message follows a user or tool message, and the last message is one of these."""
    before = ""
    for index, message in enumerate(messages):
        if message["role"] == "assistant" and before not in ("user", "tool"):
            yield f"messages[{index}]: an assistant message that follows no user or tool message"
        before = message["role"]
    if before not in ("user", "tool"):
        yield "the last message is not a user or tool message"


def _thinking_problems(document: Body) -> Iterator[str]:
    """With thinking disabled, no thinking blocks are sent."""
    if document.get("thinking", {}).get("type") != "disabled":
        return
    for index, message in enumerate(document["messages"]):
        content = message.get("content")
        blocks = content if isinstance(content, list) else []
        if any(block["type"] == "thinking" for block in blocks):
            yield f"messages[{index}]: thinking while it is disabled"
