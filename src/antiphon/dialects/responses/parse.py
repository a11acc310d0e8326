"""Parsing of the body of `POST /v1/responses` to a canonical `Request`.

Every field that the API documents is validated here, once, and an error names its parameter. The
object itself stays unchanged in `raw`; `unknown` lists the fields that the API does not document.
A request is read by the fields that it has, and by the table of all fields only if that fails: then
the first mistake in the order of the table is reported.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from antiphon.core.items import Document
from antiphon.core.request import Request
from antiphon.dialects.client_dialect import NO_HEADERS
from antiphon.dialects.responses.parse_format import reasoning_options, text_options
from antiphon.dialects.responses.parse_items import content_part, input_items
from antiphon.dialects.responses.parse_tools import tool_choice, tool_list
from antiphon.dialects.validate import (
    MAX_SAFE_INTEGER,
    UNNAMED,
    Reader,
    Readers,
    any_object,
    boolean,
    by_type,
    describe_unknown,
    enum,
    integer,
    invalid_value,
    list_of,
    map_of,
    missing_parameter,
    model_name,
    non_empty_string,
    number,
    object_of,
    string,
    string_up_to,
    tagged_union,
)
from antiphon.errors import InvalidRequest


def parse_request(
    document: Document,
    *,
    headers: Mapping[str, str] = NO_HEADERS,
    is_large: bool = False,
    is_count: bool = False,
) -> Request:
    """Validate a decoded body, or raise an `InvalidRequest`; the same as `ClientDialect.parse`. No
    header says anything about the request."""
    try:
        return _parse_present_fields(document, is_large=is_large, is_count=is_count)
    except InvalidRequest:
        return parse_in_order(document, is_large=is_large, is_count=is_count)


def _parse_present_fields(document: Document, *, is_large: bool, is_count: bool) -> Request:
    """Do what `parse_in_order` does, without a look at the fields that a request does not have, and
    without making the path of each value. An error does not say what is wrong."""
    values: dict[str, Any] = {}
    unknown: list[str] = []
    for name, value in document.items():
        if value is None:
            continue
        read = _PRESENT_FIELDS.get(name)
        if read is None:
            _reject_chat_completions_fields((name,))
            unknown.append(name)
        elif name in _CHECKED_FIELDS:
            read(value, UNNAMED)
        else:
            values[name] = read(value, UNNAMED)
    if "model" not in values:
        raise missing_parameter("model")
    _reject_conflicts(values)
    if not values.get("input"):
        _require_input(values, _COUNTED if is_count else _INSTEAD_OF_INPUT)
    if unknown:
        values |= describe_unknown(unknown, _KNOWN_FIELDS)
    if "text" in document or "reasoning" in document:
        fields = {name: value for name, value in document.items() if value is not None}
        values |= _read_nested_fields(fields)
    return Request(raw=document, is_large=is_large, **values)


def parse_in_order(
    document: Document, *, is_large: bool = False, is_count: bool = False
) -> Request:
    """Validate a decoded body, one documented field after the other."""
    fields = {name: value for name, value in document.items() if value is not None}
    _reject_chat_completions_fields(fields)
    unknown = [name for name in fields if name not in _KNOWN_FIELDS]
    if "model" not in fields:
        raise missing_parameter("model", given=unknown)
    values = _read_fields(_FIELDS, fields)
    _read_fields(_CHECKED_FIELDS, fields)
    _reject_conflicts(values)
    _require_input(values, _COUNTED if is_count else _INSTEAD_OF_INPUT, unknown)
    about = describe_unknown(unknown, _KNOWN_FIELDS)
    return Request(
        raw=document, is_large=is_large, **values, **about, **_read_nested_fields(fields)
    )


# --- the fields -----------------------------------------------------------------------------------

MAX_METADATA_PAIRS = 16
MAX_METADATA_KEY_LENGTH = 64
MAX_METADATA_VALUE_LENGTH = 512
INCLUDE_VALUES = (
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
)


def _include_set(value: Any, param: str) -> frozenset[str]:
    return frozenset(list_of(enum(*INCLUDE_VALUES))(value, param))


def _object_id(value: Any, param: str) -> str:
    return str(object_of({"id": non_empty_string})(value, param)["id"])


def read_metadata(value: Any, param: str) -> dict[str, str]:
    pairs = map_of(string_up_to(MAX_METADATA_VALUE_LENGTH))(value, param)
    if len(pairs) > MAX_METADATA_PAIRS:
        problem = f"must have at most {MAX_METADATA_PAIRS} pairs; it has {len(pairs)}."
        raise invalid_value(param, problem, "object_above_max_properties")
    longest = max(map(len, pairs), default=0)
    if longest > MAX_METADATA_KEY_LENGTH:
        problem = f"has a key of {longest} characters; the maximum is {MAX_METADATA_KEY_LENGTH}."
        raise invalid_value(param, problem, "string_above_max_length")
    return pairs


_stops = list_of(non_empty_string)


def _single_stop(value: Any, param: str) -> tuple[str, ...]:
    return (non_empty_string(value, param),)


_MODE = object_of({"mode": enum("score", "block")})
_FIELDS: Readers = {
    "model": model_name,
    "input": input_items,
    "instructions": string,
    "previous_response_id": non_empty_string,
    "conversation": by_type("a string or an object", {str: non_empty_string, dict: _object_id}),
    "prompt": object_of(
        {"id": non_empty_string},
        {
            "version": string,
            "variables": map_of(by_type("a string or a part", {str: string, dict: content_part})),
        },
    ),
    "stream": boolean,
    "stream_options": object_of({}, {"include_obfuscation": boolean}),
    "store": boolean,
    "background": boolean,
    "include": _include_set,
    "tools": tool_list,
    "tool_choice": tool_choice,
    "parallel_tool_calls": boolean,
    "max_tool_calls": integer(1),
    "reasoning": reasoning_options,
    # The API itself requires 16; a well-known client sends 1 to warm up its model.
    "max_output_tokens": integer(1),
    "temperature": number(0, 2),
    "top_p": number(0, 1),
    # Not in the API, but in that of most other providers.
    "stop": by_type("a string or an array of strings", {str: _single_stop, list: _stops}),
    "top_k": integer(0),
    "seed": integer(-MAX_SAFE_INTEGER),
    "logit_bias": map_of(number(-100, 100)),
    "top_logprobs": integer(0, 20),
    "presence_penalty": number(-2, 2),
    "frequency_penalty": number(-2, 2),
    "truncation": enum("auto", "disabled"),
    "context_management": list_of(
        tagged_union({"compaction": object_of({}, {"compact_threshold": integer(1000)})}),
        min_items=1,
    ),
    "metadata": read_metadata,
    "service_tier": enum("auto", "default", "flex", "scale", "priority", "fast", "ultrafast"),
    "prompt_cache_key": string,
    "safety_identifier": string_up_to(128),
    "user": string,
    "moderation": object_of(
        {"model": string}, {"policy": object_of({}, {"input": _MODE, "output": _MODE})}
    ),
    "access_programs": object_of({}, {"cyber": enum("standard", "daybreak_blue", "daybreak_red")}),
    "image": object_of({}, {"context_compression": enum("auto", "enabled", "disabled")}),
    "prompt_cache_options": object_of(
        {},
        {
            "mode": enum("implicit", "explicit"),
            "ttl": enum("30m", "12h"),
            "prewarm": boolean,
            "comparison_response_id": string,
        },
    ),
    "prompt_cache_retention": enum("in_memory", "in-memory", "24h"),
    "multi_agent": any_object,
    "client_metadata": any_object,
}
# Validated here; `text` is read below, the others before a request is parsed.
_CHECKED_FIELDS: Readers = {
    "text": text_options,
    # only in requests that arrive in a WebSocket frame
    "type": enum("response.create"),
    "generate": boolean,
    "stream_id": string,
}
_KNOWN_FIELDS = frozenset({*_FIELDS, *_CHECKED_FIELDS})

_CHAT_COMPLETIONS_FIELDS = {
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "response_format": "text.format",
    "reasoning_effort": "reasoning.effort",
    "functions": "tools",
    "function_call": "tool_choice",
}
"""Fields of Chat Completions → the field to use instead. Ignoring them would change the request."""


_PRESENT_FIELDS: Readers = {**_FIELDS, **_CHECKED_FIELDS}


def _read_fields(readers: Mapping[str, Reader[Any]], fields: Document) -> Document:
    return {name: read(fields[name], name) for name, read in readers.items() if name in fields}


def _read_nested_fields(fields: Document) -> Document:
    """Read the fields that the API nests in `text` and `reasoning`."""
    text = fields.get("text", {})
    reasoning = fields.get("reasoning", {})
    return {
        "text_format": text.get("format") or {"type": "text"},
        "verbosity": text.get("verbosity"),
        "effort": reasoning.get("effort"),
        "summary": reasoning.get("summary") or reasoning.get("generate_summary"),
    }


def _reject_chat_completions_fields(fields: Collection[str]) -> None:
    for name, replacement in _CHAT_COMPLETIONS_FIELDS.items():
        if name in fields:
            problem = f"is a parameter of the Chat Completions API; use '{replacement}' instead."
            raise invalid_value(name, problem, "unsupported_parameter")


def _reject_conflicts(values: Document) -> None:
    if "previous_response_id" in values and "conversation" in values:
        raise InvalidRequest(
            "'previous_response_id' and 'conversation' cannot be used together; send one of them.",
            param="previous_response_id",
            code="mutually_exclusive_parameters",
        )
    if values.get("background") and values.get("store") is False:
        raise invalid_value("background", "requires 'store' to be true.")


_INSTEAD_OF_INPUT = frozenset({"previous_response_id", "conversation", "prompt"})
"""Fields that a request may have in place of `input`."""
_COUNTED = _INSTEAD_OF_INPUT | {"instructions", "tools"}


def _require_input(
    values: Document, alternatives: frozenset[str], unknown: Sequence[str] = ()
) -> None:
    """Reject a request that has nothing to answer. An empty string is accepted: Codex sends one to
    warm up a model."""
    if not values.get("input") and not alternatives & values.keys():
        items = " with at least one item (or 'previous_response_id')"
        raise missing_parameter("input", items, unknown)
