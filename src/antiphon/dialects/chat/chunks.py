"""Chunks and bodies of Chat Completions: the members that are read, and how to decode them."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from antiphon.core.items import Document
from antiphon.dialects.json_input import decode_repaired

# Members are `Any` where some server sends another type than the documented one: an unexpected
# type in one member must not fail the whole chunk.


_Nothing: TypeAlias = Literal["", None]
_NoList: TypeAlias = tuple[()] | None


class Function(Struct):
    name: Any = None
    arguments: Any = None
    input: Any = None


class CallPiece(Struct):
    index: Any = None
    id: Any = None
    type: Any = None
    function: Function | None = None
    custom: Function | None = None
    extra_content: Any = None


class Message(Struct):
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_text: Any = None
    reasoning_details: Any = None
    refusal: Any = None
    tool_calls: list[CallPiece] | None = None
    function_call: Function | None = None
    annotations: Any = None
    extra_content: Any = None
    audio: Any = None
    images: Any = None
    executed_tools: Any = None


class Choice(Struct):
    delta: Message | None = None
    message: Message | None = None
    index: Any = 0
    finish_reason: Any = None
    logprobs: Any = None
    usage: Any = None
    error: Any = None


class Chunk(Struct):
    choices: list[Choice] | None = None
    model: Any = None
    id: Any = None
    usage: Any = None
    error: Any = None
    x_groq: Any = None
    base_resp: Any = None
    citations: Any = None
    search_results: Any = None
    web_search: Any = None
    service_tier: Any = None
    data: Any = None


class PlainFunction(Struct, gc=False):
    arguments: str
    name: None = None


class PlainCall(Struct, gc=False):
    index: int
    function: PlainFunction
    id: None = None
    custom: None = None
    extra_content: None = None


class PlainDelta(Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_text: str | None = None
    reasoning_details: _NoList = None
    refusal: _Nothing = None
    tool_calls: list[PlainCall] | None = None
    function_call: None = None
    annotations: _NoList = None
    extra_content: None = None
    audio: None = None
    images: _NoList = None
    executed_tools: _NoList = None


class PlainChoice(Struct, gc=False):
    delta: PlainDelta
    index: Literal[0] = 0
    finish_reason: _Nothing = None
    logprobs: None = None
    usage: None = None
    error: None = None


class PlainChunk(Struct, gc=False):
    """A chunk that has one piece of one choice, and nothing else that is read: every other member
    of `Chunk` is absent or empty. Nearly all chunks of a stream are like this."""

    choices: list[PlainChoice]
    service_tier: Any = None
    usage: None = None
    error: None = None
    x_groq: None = None
    base_resp: None = None
    citations: _NoList = None
    search_results: _NoList = None
    web_search: _NoList = None


decode_plain = msgspec.json.Decoder(PlainChunk).decode
decode_chunk = msgspec.json.Decoder(Chunk).decode
_decode_document = msgspec.json.Decoder().decode


def decode_tolerant(data: bytes) -> tuple[Chunk, bytes]:
    """Decode a chunk or a body that may be broken, or have members of unexpected types; also return
    the JSON that was decoded. Raises one of `UNREADABLE`."""
    try:
        return decode_repaired(decode_chunk, data)
    except msgspec.ValidationError:
        document, data = decode_repaired(_decode_document, data)
        return msgspec.convert(_soften(document), Chunk), data


def open_envelope(chunk: Chunk) -> Chunk:
    """The chunk or body in `{"success": true, "data": {…}}`, as Cline's API sends it; the same one
    if it is none. Raises one of `UNREADABLE`."""
    match chunk.data:
        case {"choices": [*_]} if chunk.choices is None:
            return msgspec.convert(_soften(chunk.data), Chunk)
    return chunk


def _soften(document: Any) -> Any:
    """The same document without structures of the wrong type, which would fail all of it."""
    match document:
        case {"choices": [*choices]}:
            return {**document, "choices": [_soften_choice(each) for each in choices]}
    return document


def _soften_choice(choice: Any) -> Any:
    if not isinstance(choice, dict):
        return choice
    said = {name: _soften_message(choice.get(name)) for name in ("delta", "message")}
    return {**choice, **said}


def _soften_message(message: Any) -> Document | None:
    if not isinstance(message, dict):  # `"delta": []`
        return None
    calls = message.get("tool_calls")
    # TGI 2 streams the piece of a call without a list around it.
    calls = [calls] if isinstance(calls, dict) else calls if isinstance(calls, list) else []
    pieces = [
        _without_words(each, "function", "custom") for each in calls if isinstance(each, dict)
    ]
    return {**_without_words(message, "function_call"), "tool_calls": pieces}


def _without_words(document: Document, *names: str) -> Document:
    """Leave out these members where they are no objects: `"function_call": ""`."""
    return {
        name: value
        for name, value in document.items()
        if name not in names or isinstance(value, dict)
    }
