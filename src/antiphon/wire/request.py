"""A request: a typed view over the document a client sent, which it keeps untouched.

Everything the API documents is read once, here, and a mistake names its parameter. What the API
does not document stays in `raw`, and `unknown` says what it was called.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from antiphon.errors import InvalidRequest
from antiphon.wire.body import decode
from antiphon.wire.items import Document
from antiphon.wire.request_format import answer, reasoning
from antiphon.wire.request_items import items, part
from antiphon.wire.request_tools import tool_choice, tools
from antiphon.wire.validate import (
    Reader,
    Readers,
    document,
    either,
    flag,
    label,
    many,
    mapping,
    missing,
    number,
    shape,
    short,
    tagged,
    text,
    whole,
    word,
    wrong_value,
)


def _plain_text() -> Document:
    return {"type": "text"}


class Request(Struct, frozen=True, kw_only=True):
    """What a client asks for. Absent and null fields have the API's defaults, or None."""

    raw: Document
    unknown: tuple[str, ...] = ()
    """Names of top-level fields that no version of the API has."""

    model: str
    input: tuple[Document, ...] = ()
    instructions: str | None = None
    previous_response_id: str | None = None
    conversation: str | None = None
    prompt: Document | None = None

    stream: bool = False
    stream_options: Document | None = None
    store: bool = True
    background: bool = False
    include: frozenset[str] = frozenset()

    tools: tuple[Document, ...] = ()
    tool_choice: str | Document = "auto"
    parallel_tool_calls: bool | None = None
    max_tool_calls: int | None = None

    text_format: Document = field(default_factory=_plain_text)
    verbosity: str | None = None
    reasoning: Document | None = None
    effort: str | None = None
    summary: str | None = None

    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_logprobs: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None

    truncation: str = "disabled"
    context_management: tuple[Document, ...] = ()
    metadata: dict[str, str] = {}
    service_tier: str = "auto"
    prompt_cache_key: str | None = None
    safety_identifier: str | None = None
    user: str | None = None

    @classmethod
    def parse(cls, body: bytes) -> Request:
        """Read a body, or raise the `InvalidRequest` that says what is wrong with it."""
        raw = decode(body)
        given = {name: value for name, value in raw.items() if value is not None}
        _refuse_moved(given)
        if "model" not in given:
            raise missing("model")
        values = _read(_FIELDS, given)
        _read(_CHECKED, given)
        _refuse_contradictions(values)
        unknown = tuple(name for name in given if name not in _KNOWN)
        return cls(raw=raw, unknown=unknown, **values, **_spread(given))


# --- the fields -----------------------------------------------------------------------------------

METADATA_PAIRS = 16
METADATA_KEY_LENGTH = 64
METADATA_VALUE_LENGTH = 512
INCLUDABLE = (
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
)


def _include(value: Any, param: str) -> frozenset[str]:
    return frozenset(many(word(*INCLUDABLE))(value, param))


def _id(value: Any, param: str) -> str:
    return str(shape({"id": label})(value, param)["id"])


def _metadata(value: Any, param: str) -> dict[str, str]:
    pairs = mapping(short(METADATA_VALUE_LENGTH))(value, param)
    if len(pairs) > METADATA_PAIRS:
        problem = f"must have at most {METADATA_PAIRS} pairs; it has {len(pairs)}."
        raise wrong_value(param, problem, "object_above_max_properties")
    longest = max(map(len, pairs), default=0)
    if longest > METADATA_KEY_LENGTH:
        problem = f"has a key of {longest} characters; at most {METADATA_KEY_LENGTH} are allowed."
        raise wrong_value(param, problem, "string_above_max_length")
    return pairs


_FIELDS: Readers = {
    "model": label,
    "input": items,
    "instructions": text,
    "previous_response_id": label,
    "conversation": either("a string or an object", {str: label, dict: _id}),
    "prompt": shape(
        {"id": label},
        {
            "version": text,
            "variables": mapping(either("a string or a part", {str: text, dict: part})),
        },
    ),
    "stream": flag,
    "stream_options": shape({}, {"include_obfuscation": flag}),
    "store": flag,
    "background": flag,
    "include": _include,
    "tools": tools,
    "tool_choice": tool_choice,
    "parallel_tool_calls": flag,
    "max_tool_calls": whole(1),
    "reasoning": reasoning,
    # The API itself asks for 16; a well-known client warms its model up with 1.
    "max_output_tokens": whole(1),
    "temperature": number(0, 2),
    "top_p": number(0, 1),
    "top_logprobs": whole(0, 20),
    "presence_penalty": number(-2, 2),
    "frequency_penalty": number(-2, 2),
    "truncation": word("auto", "disabled"),
    "context_management": many(
        tagged({"compaction": shape({}, {"compact_threshold": whole(1000)})}), least=1
    ),
    "metadata": _metadata,
    "service_tier": word("auto", "default", "flex", "scale", "priority", "fast", "ultrafast"),
    "prompt_cache_key": text,
    "safety_identifier": short(128),
    "user": text,
}

_MODE = shape({"mode": word("score", "block")})
# Read, so that a mistake is found, and left in `raw` for whoever can do something about it.
_CHECKED: Readers = {
    "text": answer,
    "moderation": shape({"model": text}, {"policy": shape({}, {"input": _MODE, "output": _MODE})}),
    "access_programs": shape({}, {"cyber": word("standard", "daybreak_blue", "daybreak_red")}),
    "image": shape({}, {"context_compression": word("auto", "enabled", "disabled")}),
    "prompt_cache_options": shape(
        {},
        {
            "mode": word("implicit", "explicit"),
            "ttl": word("30m", "12h"),
            "prewarm": flag,
            "comparison_response_id": text,
        },
    ),
    "prompt_cache_retention": word("in_memory", "in-memory", "24h"),
    "multi_agent": document,
    "client_metadata": document,
    # a request that came in a WebSocket frame
    "type": word("response.create"),
    "generate": flag,
    "stream_id": text,
}
_KNOWN = {*_FIELDS, *_CHECKED}

_MOVED = {
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "response_format": "text.format",
    "reasoning_effort": "reasoning.effort",
    "functions": "tools",
    "function_call": "tool_choice",
}
"""Chat Completions' own names: to ignore them would answer another question than the client's."""


def _read(readers: Mapping[str, Reader[Any]], given: Document) -> Document:
    return {name: read(given[name], name) for name, read in readers.items() if name in given}


def _spread(given: Document) -> Document:
    """The fields that the API keeps inside of others."""
    wanted, thought = given.get("text", {}), given.get("reasoning", {})
    return {
        "text_format": wanted.get("format") or _plain_text(),
        "verbosity": wanted.get("verbosity"),
        "effort": thought.get("effort"),
        "summary": thought.get("summary") or thought.get("generate_summary"),
    }


def _refuse_moved(given: Document) -> None:
    for name, home in _MOVED.items():
        if name in given:
            problem = f"belongs to the Chat Completions API; use '{home}' here."
            raise wrong_value(name, problem, "unsupported_parameter")


def _refuse_contradictions(values: Document) -> None:
    if "previous_response_id" in values and "conversation" in values:
        raise InvalidRequest(
            "'previous_response_id' and 'conversation' cannot be used together: give one of them.",
            param="previous_response_id",
            code="mutually_exclusive_parameters",
        )
    if values.get("background") and values.get("store") is False:
        raise wrong_value("background", "needs 'store' to be true.")
