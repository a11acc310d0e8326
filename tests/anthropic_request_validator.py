"""A strict reader of Anthropic Messages requests, written from the format and not from our code.

It is as narrow as the narrowest server: a request without problems here is refused by nobody for
its form. Every problem is one line of text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

Body = dict[str, Any]

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")

TOP = set(
    """
    model max_tokens tools tool_choice thinking output_config temperature top_p metadata
    service_tier stream cache_control system messages
    """.split()
)
BLOCK = {
    "text": {"text"},
    "image": {"source"},
    "document": {"source", "title"},
    "tool_use": {"id", "name", "input"},
    "tool_result": {"tool_use_id", "content"},
    "thinking": {"thinking", "signature"},
    "redacted_thinking": {"data"},
}
OPTIONAL = {"title", "cache_control"}
PLACES = {
    "user": {"text", "image", "document", "tool_result"},
    "assistant": {"text", "tool_use", "thinking", "redacted_thinking"},
    "system": {"text"},
    "tool_result": {"text", "image", "document"},
}
THOUGHTS = {"thinking", "redacted_thinking"}
MARKS = 4


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
    if body.count(b'"cache_control":') > MARKS:
        found.append("too many cache markers")
    messages = document.get("messages")
    if not isinstance(messages, list) or not messages:
        return [*found, "there are no messages"]
    for place, message in enumerate(messages):
        found += [f"messages[{place}]: {problem}" for problem in _message_problems(message)]
    if "system" in document:
        found += [f"system: {each}" for each in _block_problems(document["system"], "system")]
    if not found:  # what follows trusts the shapes
        found += [*_order_problems(messages), *_tool_problems(document)]
        found += [*_thinking_problems(document), *_number_problems(document)]
    return found


# --- the shape of messages ------------------------------------------------------------------------


def _message_problems(message: Any) -> Iterator[str]:
    if not isinstance(message, dict) or set(message) != {"role", "content"}:
        yield "bad keys of a message"
    elif message["role"] not in ("user", "assistant"):
        yield f"bad role {message['role']!r}"
    else:
        yield from _block_problems(message["content"], message["role"])


def _block_problems(blocks: Any, place: str) -> Iterator[str]:
    if not isinstance(blocks, list) or not blocks:
        yield "there are no blocks"
        return
    for block in blocks:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind not in PLACES[place]:
            yield f"a {kind} block in {place}"
        elif not BLOCK[kind] - OPTIONAL <= block.keys() <= BLOCK[kind] | OPTIONAL | {"type"}:
            yield f"bad keys of a {kind} block"
        elif block.get("cache_control", {"type": "ephemeral"}) != {"type": "ephemeral"}:
            yield "a bad cache marker"
        elif "cache_control" in block and kind in THOUGHTS:
            yield "a cache marker on a thought"
        else:
            yield from _content_problems(kind, block)


def _content_problems(kind: str, block: Body) -> Iterator[str]:
    if kind == "text" and not _is_visible(block["text"]):
        yield "an empty text"
    elif kind in ("image", "document"):
        yield from _source_problems(kind, block)
    elif kind == "tool_use":
        if not NAME.fullmatch(block["id"]) or not NAME.fullmatch(block["name"]):
            yield f"a call with a bad id or name {block['id']!r} {block['name']!r}"
        if not isinstance(block["input"], dict):
            yield "an input that is no object"
    elif kind == "tool_result":
        yield from _block_problems(block["content"], "tool_result")
    elif kind == "thinking" and not (block["signature"] and isinstance(block["thinking"], str)):
        yield "a thought that is not signed"
    elif kind == "redacted_thinking" and not block["data"]:
        yield "a redacted thought without data"


def _is_visible(text: Any) -> bool:
    return isinstance(text, str) and bool(text.strip())


def _source_problems(kind: str, block: Body) -> Iterator[str]:
    source = block["source"]
    types = IMAGES if kind == "image" else ("application/pdf",)
    match source:
        case {"type": "url", "url": str(url)} if re.match("https?://", url):
            expected = {"type", "url"}
        case {"type": "base64", "media_type": media, "data": str(data)} if data and media in types:
            expected = {"type", "media_type", "data"}
        case {"type": "text", "media_type": "text/plain", "data": data} if (
            kind == "document" and _is_visible(data)
        ):
            expected = {"type", "media_type", "data"}
        case _:
            expected = set()
    if not isinstance(source, dict) or set(source) != expected:
        yield f"a bad source of a {kind}"
    if not _is_visible(block.get("title", "x")):
        yield "an empty title"


# --- the order of messages ------------------------------------------------------------------------


def _order_problems(messages: list[Body]) -> Iterator[str]:
    """Turns alternate; calls end their turn, and each is answered at the start of the next."""
    if messages[0]["role"] != "user" or messages[-1]["role"] != "user":
        yield "the first and the last message must be the user's"
    used: list[str] = []
    expected: list[str] = []
    for place, message in enumerate(messages):
        if place and messages[place - 1]["role"] == message["role"]:
            yield f"messages[{place}]: two messages of one role in a row"
        kinds = [block["type"] for block in message["content"]]
        answers = [b["tool_use_id"] for b in message["content"] if b["type"] == "tool_result"]
        if sorted(answers) != sorted(expected):
            yield f"messages[{place}]: answers {answers} to the calls {expected}"
        if "tool_result" in kinds[len(answers) :]:
            yield f"messages[{place}]: an answer behind something else"
        expected = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        used += expected
        if "tool_use" in kinds[: len(kinds) - len(expected)]:
            yield f"messages[{place}]: something behind a call"
        if kinds[-1] in THOUGHTS:
            yield f"messages[{place}]: a thought at the end"
    if len(used) != len(set(used)):
        yield "two calls share an id"


# --- everything but the messages ------------------------------------------------------------------


def _tool_problems(document: Body) -> Iterator[str]:
    tools = document.get("tools")
    called = any(b["type"] == "tool_use" for m in document["messages"] for b in m["content"])
    if not tools:
        if called or tools is not None or "tool_choice" in document:
            yield "calls or a choice, and no tools"
        return
    for tool in tools:
        if "input_schema" in tool:
            yield from _declaration_problems(tool)
        elif not re.fullmatch("web_search_[0-9]{8}", tool.get("type", "")):
            yield f"a bad tool {tool}"
    names = [tool["name"] for tool in tools]
    if len(names) != len(set(names)):
        yield "two tools share a name"
    match document.get("tool_choice", {"type": "auto"}):
        case {"type": "auto" | "any"} | {"type": "none"}:
            pass
        case {"type": "tool", "name": name} if name in names:
            pass
        case choice:
            yield f"bad tool choice {choice}"


def _declaration_problems(tool: Body) -> Iterator[str]:
    if not tool.keys() <= {"name", "description", "input_schema", "strict"}:
        yield f"bad keys of a tool {tool}"
    if not NAME.fullmatch(tool["name"]):
        yield f"bad tool name {tool['name']!r}"
    schema = tool["input_schema"]
    if schema.get("type") != "object" or schema.keys() & {"anyOf", "oneOf", "allOf"}:
        yield "an input schema that is no plain object"


def _thinking_problems(document: Body) -> Iterator[str]:
    thinking, messages = document.get("thinking", {}), document["messages"]
    kinds = {block["type"] for message in messages for block in message["content"]}
    match thinking:
        case {"type": "disabled"}:
            if kinds & THOUGHTS:
                yield "thoughts, and thinking is off"
            return
        case {"type": "enabled", "budget_tokens": int(budget)}:
            if not 1024 <= budget < document["max_tokens"]:
                yield "a budget out of bounds"
            if _resumes_without_thought(messages):
                yield "a turn that goes on without its thought"
        case {} if not thinking:
            return
        case {"type": "adaptive"}:
            pass
        case _:
            yield f"bad thinking {thinking}"
    if document.get("tool_choice", {}).get("type") in ("any", "tool"):
        yield "a forced choice while thinking"
    if "temperature" in document or document.get("top_p", 1) < 0.95:
        yield "sampling while thinking"


def _resumes_without_thought(messages: list[Body]) -> bool:
    """The turn that tools answer began after the user's last words, and not with a thought."""
    if messages[-1]["content"][0]["type"] != "tool_result":
        return False
    spoken = [
        place
        for place, message in enumerate(messages[:-1])
        if message["role"] == "user" and any(b["type"] != "tool_result" for b in message["content"])
    ]
    return messages[spoken[-1] + 1]["content"][0]["type"] not in THOUGHTS


def _number_problems(document: Body) -> Iterator[str]:
    limit = document.get("max_tokens")
    if not isinstance(limit, int) or limit < 1:
        yield "max_tokens is no positive number"
    if not 0 <= document.get("temperature", 0) <= 1 or not 0 <= document.get("top_p", 1) <= 1:
        yield "sampling out of bounds"
    if "temperature" in document and "top_p" in document:
        yield "temperature and top_p together"
    if document.get("output_config", {}).keys() - {"effort", "format"}:
        yield "bad output_config"
    if document.get("metadata", {}).keys() - {"user_id"}:
        yield "bad metadata"
