"""Validator of Anthropic Messages requests, written from the format and not from our code.

It is as strict as the strictest server: no server refuses the form of a request without problems.
Every problem is one line of text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from tests.support.request_validators.rules import (
    NAME,
    Body,
    Turn,
    check_request,
    declaration_problems,
    is_visible,
    order_problems,
    resumes_without_thinking,
    turn_problems,
)

IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")

TOP = set(
    """
    model max_tokens tools tool_choice mcp_servers thinking output_config temperature top_p top_k
    metadata stop_sequences
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
ALLOWED_BLOCKS = {
    "user": {"text", "image", "document", "tool_result"},
    "assistant": {"text", "tool_use", "thinking", "redacted_thinking"},
    "system": {"text"},
    "tool_result": {"text", "image", "document"},
}
THOUGHTS = {"thinking", "redacted_thinking"}
MARKS = 4


def problems(body: bytes) -> list[str]:
    """All problems of a request."""
    check_item = partial(turn_problems, blocks=_block_problems)
    document, messages, found = check_request(body, TOP, check_item)
    if body.count(b'"cache_control":') > MARKS:
        found.append("too many cache markers")
    if "system" in document:
        found += [f"system: {each}" for each in _block_problems(document["system"], "system")]
    if not found:  # what follows trusts the shapes
        turns = [Turn(m["role"], [*map(_outline, m["content"])]) for m in messages]
        found += [*order_problems(turns), *_tool_problems(document)]
        found += [*_thinking_problems(document, turns), *_number_problems(document)]
    return found


def _outline(block: Body) -> tuple[str, str]:
    match block["type"]:
        case "tool_use":
            return "call", block["id"]
        case "tool_result":
            return "result", block["tool_use_id"]
        case kind:
            return "thinking" if kind in THOUGHTS else "text", ""


# --- the shape of messages ------------------------------------------------------------------------


def _block_problems(blocks: Any, location: str) -> Iterator[str]:
    if not isinstance(blocks, list) or not blocks:
        yield "there are no blocks"
        return
    for block in blocks:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind not in ALLOWED_BLOCKS[location]:
            yield f"a {kind} block in {location}"
        elif not BLOCK[kind] - OPTIONAL <= block.keys() <= BLOCK[kind] | OPTIONAL | {"type"}:
            yield f"bad keys of a {kind} block"
        elif block.get("cache_control", {"type": "ephemeral"}) != {"type": "ephemeral"}:
            yield "a bad cache marker"
        elif "cache_control" in block and kind in THOUGHTS:
            yield "a cache marker on thinking"
        else:
            yield from _content_problems(kind, block)


def _content_problems(kind: str, block: Body) -> Iterator[str]:
    if kind == "text" and not is_visible(block["text"]):
        yield "an empty text"
    elif kind in ("image", "document"):
        yield from _source_problems(kind, block)
    elif kind == "tool_use":
        if not NAME.fullmatch(block["id"]) or not NAME.fullmatch(block["name"]):
            yield f"a call with a bad id or name {block['id']!r} {block['name']!r}"
        if not isinstance(block["input"], dict):
            yield "an input that is not an object"
    elif kind == "tool_result":
        yield from _block_problems(block["content"], "tool_result")
    elif kind == "thinking" and not (block["signature"] and isinstance(block["thinking"], str)):
        yield "thinking without a signature"
    elif kind == "redacted_thinking" and not block["data"]:
        yield "redacted thinking without data"


def _source_problems(kind: str, block: Body) -> Iterator[str]:
    source = block["source"]
    types = IMAGES if kind == "image" else ("application/pdf",)
    match source:
        case {"type": "url", "url": str(url)} if re.match("https?://", url):
            expected = {"type", "url"}
        case {"type": "base64", "media_type": media, "data": str(data)} if data and media in types:
            expected = {"type", "media_type", "data"}
        case {"type": "text", "media_type": "text/plain", "data": data} if (
            kind == "document" and is_visible(data)
        ):
            expected = {"type", "media_type", "data"}
        case {"type": "file", "file_id": str(file_id)} if kind == "document":
            expected = {"type", "file_id"} if file_id.startswith("file_") else set()
        case _:
            expected = set()
    if not isinstance(source, dict) or set(source) != expected:
        yield f"a bad source of a {kind}"
    if not is_visible(block.get("title", "x")):
        yield "an empty title"


# --- everything but the messages ------------------------------------------------------------------


def _tool_problems(document: Body) -> Iterator[str]:
    tools = document.get("tools")
    called = any(b["type"] == "tool_use" for m in document["messages"] for b in m["content"])
    if not tools:
        chosen = "tool_choice" in document and not document.get("mcp_servers")
        if called or tools is not None or chosen:
            yield "calls or a choice, and no tools"
        return
    for tool in tools:
        if "input_schema" in tool:
            yield from declaration_problems(tool, "input_schema", tool["input_schema"])
        elif not re.fullmatch("web_search_[0-9]{8}|mcp_toolset", tool.get("type", "")):
            yield f"a bad tool {tool}"
    yield from _toolset_problems(document)
    names = [tool["name"] for tool in tools if "name" in tool]
    if len(names) != len(set(names)):
        yield "two tools share a name"
    match document.get("tool_choice", {"type": "auto"}):
        case {"type": "auto" | "any"} | {"type": "none"}:
            pass
        case {"type": "tool", "name": name} if name in names:
            pass
        case choice:
            yield f"bad tool choice {choice}"


def _toolset_problems(document: Body) -> Iterator[str]:
    """Every toolset names a server; if there are any, every server has one."""
    toolsets = [tool for tool in document["tools"] if tool.get("type") == "mcp_toolset"]
    named = sorted(tool["mcp_server_name"] for tool in toolsets)
    servers = sorted(server["name"] for server in document.get("mcp_servers", ()))
    if toolsets and named != servers:
        yield f"toolsets of {named}, and servers {servers}"


def _thinking_problems(document: Body, turns: list[Turn]) -> Iterator[str]:
    thinking = document.get("thinking", {})
    match thinking:
        case {"type": "disabled"}:
            if any(turn.ids("thinking") for turn in turns):
                yield "thinking blocks while thinking is disabled"
            return
        case {"type": "enabled", "budget_tokens": int(budget)}:
            if not 1024 <= budget < document["max_tokens"]:
                yield "a budget out of bounds"
            if resumes_without_thinking(turns):
                yield "a resumed turn without thinking"
        case {} if not thinking:
            return
        case {"type": "adaptive"}:
            pass
        case _:
            yield f"bad thinking {thinking}"
    if document.get("tool_choice", {}).get("type") in ("any", "tool"):
        yield "a forced choice while thinking"
    if {"temperature", "top_k"} & document.keys() or document.get("top_p", 1) < 0.95:
        yield "sampling while thinking"


def _number_problems(document: Body) -> Iterator[str]:
    limit = document.get("max_tokens")
    if not isinstance(limit, int) or limit < 1:
        yield "max_tokens is not a positive number"
    if not 0 <= document.get("temperature", 0) <= 1 or not 0 <= document.get("top_p", 1) <= 1:
        yield "sampling out of bounds"
    if "temperature" in document and "top_p" in document:
        yield "temperature and top_p together"
    if not all(text.strip() for text in document.get("stop_sequences", ["."])):
        yield "an empty stop sequence"
    if document.get("output_config", {}).keys() - {"effort", "format"}:
        yield "bad output_config"
    if document.get("metadata", {}).keys() - {"user_id"}:
        yield "bad metadata"
