"""Validator of Bedrock Converse requests, written from the format and not from our code.

It is as strict as the strictest model: no model refuses the form of a request without problems.
Every problem is one line of text.
"""

from __future__ import annotations

import base64
import binascii
import json
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

FILENAME = re.compile(r"(?!.*\s\s)[a-zA-Z0-9\s()\[\]-]{1,200}")

TOP = set(
    """
    additionalModelRequestFields inferenceConfig outputConfig serviceTier toolConfig system messages
    """.split()
)
FORMATS = {
    "image": set("png jpeg gif webp".split()),
    "document": set("pdf csv doc docx xls xlsx html txt md".split()),
    "audio": set("mp3 opus wav aac flac mp4 ogg mkv m4a mpeg pcm webm".split()),
}
MARKS = 4
ALLOWED_BLOCKS = {
    "user": {"text", "image", "document", "audio", "toolResult", "cachePoint"},
    "assistant": {"text", "toolUse", "reasoningContent"},
    "system": {"text", "cachePoint"},
    "toolResult": {"text", "image", "document"},
}


def problems(body: bytes, *, separate_tool_messages: bool = False) -> list[str]:
    """All problems of a request."""
    check_item = partial(turn_problems, blocks=_block_problems)
    document, messages, found = check_request(body, TOP, check_item)
    if body.count(b'"cachePoint":') > MARKS:
        found.append("too many cache markers")
    if "system" in document:
        found += [f"system: {each}" for each in _block_problems(document["system"], "system")]
    if not found:  # what follows trusts the shapes
        turns = [_outline(message) for message in messages]
        found += [*order_problems(turns), *_tool_problems(document)]
        found += [*_file_problems(messages), *_config_problems(document, turns)]
        found += [*_mixture_problems(messages)] if separate_tool_messages else []
    return found


def _outline(message: Body) -> Turn:
    """The blocks of a message, without cache markers."""
    known = {"toolUse": "call", "toolResult": "result", "reasoningContent": "thinking"}
    blocks = [(kind, block[kind]) for block in message["content"] for kind in block]
    return Turn(
        message["role"],
        [
            (known.get(kind, "text"), content["toolUseId"] if "tool" in kind else "")
            for kind, content in blocks
            if kind != "cachePoint"
        ],
    )


# --- the shape of messages ------------------------------------------------------------------------


def _block_problems(blocks: Any, location: str) -> Iterator[str]:
    if not isinstance(blocks, list) or not blocks:
        yield "there are no blocks"
        return
    if "cachePoint" in blocks[0]:
        yield "a cache marker without a block before it"
    for block in blocks:
        if not isinstance(block, dict) or len(block) != 1:
            yield "a block must have exactly one key"
            continue
        [(kind, content)] = block.items()
        if kind not in ALLOWED_BLOCKS[location]:
            yield f"a {kind} block in {location}"
        elif kind == "text":
            if not is_visible(content):
                yield "a blank text"
        elif not isinstance(content, dict):
            yield f"bad {kind}"
        else:
            yield from _content_problems(kind, content)


def _content_problems(kind: str, content: Body) -> Iterator[str]:
    if kind == "cachePoint":
        if content != {"type": "default"}:
            yield "a bad cache marker"
    elif kind in FORMATS:
        yield from _media_problems(kind, content)
    elif kind == "toolUse":
        if set(content) != {"toolUseId", "name", "input"}:
            yield "bad keys of a call"
        elif not NAME.fullmatch(content["toolUseId"]) or not NAME.fullmatch(content["name"]):
            yield f"a call with a bad id or name {content['toolUseId']!r} {content['name']!r}"
        elif not isinstance(content["input"], dict):
            yield "an input that is not an object"
    elif kind == "toolResult":
        if set(content) != {"toolUseId", "content"}:
            yield "bad keys of a result"
        else:
            yield from _block_problems(content["content"], "toolResult")
    else:
        yield from _reasoning_block_problems(content)


def _media_problems(kind: str, media: Body) -> Iterator[str]:
    keys = {"format", "source", "name"} if kind == "document" else {"format", "source"}
    if set(media) != keys or media["format"] not in FORMATS[kind]:
        yield f"bad keys or format of {kind}"
        return
    match media["source"]:
        case {"bytes": str(data)} if _is_base64(data):
            pass
        case {"s3Location": {"uri": str(uri)}} if uri.startswith("s3://"):
            pass
        case _:
            yield f"a bad source of {kind}"
    if not FILENAME.fullmatch(media.get("name", "x")):
        yield f"a bad name of a document {media['name']!r}"


def _is_base64(data: str) -> bool:
    try:
        return bool(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return False


def _reasoning_block_problems(content: Body) -> Iterator[str]:
    match content:
        case {"reasoningText": {"text": str(), "signature": str(signature)} as thought}:
            if not signature or len(content) + len(thought) != 3:
                yield "thinking without a signature"
        case {"redactedContent": str(data)} if data and len(content) == 1:
            pass
        case _:
            yield "a bad thinking block"


# --- the order of messages ------------------------------------------------------------------------


def _kinds(message: Body) -> list[str]:
    """The blocks of a message, without cache markers."""
    kinds = [next(iter(block)) for block in message["content"]]
    return [kind for kind in kinds if kind != "cachePoint"]


def _mixture_problems(messages: list[Body]) -> Iterator[str]:
    """Some models refuse calls and results in one message with text."""
    for index, message in enumerate(messages):
        kinds = set(_kinds(message))
        if kinds & {"toolUse", "toolResult"} and len(kinds) > 1:
            yield f"messages[{index}]: text beside a call or a result"


def _file_problems(messages: list[Body]) -> Iterator[str]:
    names: list[str] = []
    for index, message in enumerate(messages):
        kinds = _kinds(message)
        if "document" in kinds and "text" not in kinds:
            yield f"messages[{index}]: a document without text"
        names += [b["document"]["name"] for b in message["content"] if "document" in b]
    if len(names) != len(set(names)):
        yield "two documents share a name"


# --- everything but the messages ------------------------------------------------------------------


def _tool_problems(document: Body) -> Iterator[str]:
    config = document.get("toolConfig")
    if config is None:
        if any("toolUse" in _kinds(message) for message in document["messages"]):
            yield "calls, and no tools"
        return
    if not config.get("tools") or config.keys() - {"tools", "toolChoice"}:
        yield "bad tools"
        return
    names: list[str] = []
    for tool in config["tools"]:
        match tool:
            case {"toolSpec": {"name": str(name), "inputSchema": {"json": {} as schema}} as spec}:
                names.append(name)
                yield from _spec_problems(spec, schema)
            case {"systemTool": {"name": str(name)}}:
                names.append(name)
            case _:
                yield f"a bad tool {tool}"
    if len(names) != len(set(names)):
        yield "two tools share a name"
    match config.get("toolChoice", {"auto": {}}):
        case {"auto": {}} | {"any": {}}:
            pass
        case {"tool": {"name": name}} if name in names:
            pass
        case choice:
            yield f"bad tool choice {choice}"


def _spec_problems(spec: Body, schema: Body) -> Iterator[str]:
    yield from declaration_problems(spec, "inputSchema", schema)
    if not is_visible(spec.get("description", "x")):
        yield "a blank description"


def _config_problems(document: Body, turns: list[Turn]) -> Iterator[str]:
    config = document.get("inferenceConfig", {})
    known = {"maxTokens", "stopSequences", "temperature", "topP"}
    if config.keys() - known or config.get("maxTokens", 1) < 1:
        yield f"bad inferenceConfig {config}"
    if not 0 <= config.get("temperature", 0) <= 1 or not 0 <= config.get("topP", 1) <= 1:
        yield "sampling out of bounds"
    if document.get("serviceTier", {}).get("type", "flex") not in ("default", "flex", "priority"):
        yield "bad tier"
    match document.get("outputConfig"):
        case None:
            pass
        case {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": {"schema": text}}}}:
            if not isinstance(json.loads(text), dict):
                yield "a schema that is not an object"
        case output:
            yield f"bad outputConfig {output}"
    fields = document.get("additionalModelRequestFields", {})
    yield from _thinking_problems(document, fields.get("thinking", {}), config, turns)
    if fields.get("reasoningConfig", {}).get("maxReasoningEffort") == "high" and config:
        yield "limits while thinking with maximum effort"


def _thinking_problems(
    document: Body, thinking: Body, config: Body, turns: list[Turn]
) -> Iterator[str]:
    match thinking:
        case {"type": "enabled", "budget_tokens": int(budget)}:
            if not 1024 <= budget < config.get("maxTokens", 0):
                yield "a budget out of bounds"
            if resumes_without_thinking(turns):
                yield "a resumed turn without thinking"
        case {"type": "adaptive"}:
            pass
        case {"type": "disabled"}:
            return
        case {} if not thinking:
            return
        case _:
            yield f"bad thinking {thinking}"
    if "toolChoice" in document.get("toolConfig", {}):
        yield "a forced choice while thinking"
    if config.keys() & {"temperature", "topP"}:
        yield "sampling while thinking"
