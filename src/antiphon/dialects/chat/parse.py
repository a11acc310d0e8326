"""Parsing of the body of `POST /v1/chat/completions` to a canonical `Request`.

A message becomes one or more input items: an assistant message its reasoning, its text and its
calls, in this order. Every member that the API documents is validated, and an error names it as the
client has spelled it (`messages[3].tool_calls[0].function.name`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from antiphon.core.items import Document
from antiphon.core.plan.effort import effort_of_budget
from antiphon.core.request import Request, Thinking
from antiphon.dialects.chat.own_names import MAX_TOKENS, SEARCH, sends_functions
from antiphon.dialects.chat.parse_messages import read_messages
from antiphon.dialects.validate import (
    Reader,
    Readers,
    any_object,
    any_value,
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

_LOGPROBS = frozenset({"message.output_text.logprobs"})


def parse_chat(raw: Document, *, is_large: bool = False) -> Request:
    """Validate a decoded body, or raise an `InvalidRequest`."""
    fields = {name: value for name, value in raw.items() if value is not None}
    unknown = [name for name in fields if name not in _KNOWN_FIELDS]
    for name in ("model", "messages"):
        if name not in fields:
            raise missing_parameter(name, given=unknown)
    values = {name: read(fields[name], name) for name, read in _FIELDS.items() if name in fields}
    for name, read in _CHECKED_FIELDS.items():
        if name in fields:
            read(fields[name], name)
    _reject_unsupported(fields)
    if sends_functions(fields):
        values["parallel_tool_calls"] = False
    return Request(
        raw=raw,
        is_large=is_large,
        **describe_unknown(unknown, _KNOWN_FIELDS),
        input=read_messages(fields["messages"], "messages"),
        store=fields.get("store") is True,
        state_carrier="call_ids" if fields.get("store") is False else "store",
        tools=tuple(_read_tools(fields)),
        tool_choice=_read_tool_choice(fields),
        max_output_tokens=_read_max_tokens(fields),
        text_format=_read_format(fields.get("response_format")),
        format_param="response_format",
        schema_param="response_format.json_schema.schema",
        effort=_read_effort(fields),
        thinking=_read_thinking(fields),
        include=_LOGPROBS if fields.get("logprobs") is True else frozenset(),
        **values,
    )


def _reject_unsupported(fields: Document) -> None:
    if fields.get("n", 1) != 1:
        raise invalid_value("n", "must be 1: one response is generated for a request.")
    if "audio" in fields.get("modalities", ()):
        problem = "cannot contain 'audio': responses are text. Leave it out, or send ['text']."
        raise invalid_value("modalities", problem, "unsupported_value")


# --- tools ----------------------------------------------------------------------------------------

_FUNCTION = object_of(
    {"name": non_empty_string},
    {"description": string, "parameters": any_object, "strict": boolean},
)
_GRAMMAR = object_of({"definition": string, "syntax": enum("lark", "regex")})
_CUSTOM = object_of(
    {"name": non_empty_string},
    {
        "description": string,
        "format": tagged_union({"text": any_object, "grammar": object_of({"grammar": _GRAMMAR})}),
    },
)
_MCP = object_of(
    {"server_label": non_empty_string, "require_approval": enum("never")},
    {
        "server_url": string,
        "server_description": string,
        "authorization": string,
        "headers": map_of(string),
        "allowed_tools": list_of(string),
    },
)
"""The format has no item for a call of a server: the client cannot approve one."""
_TOOL = tagged_union(
    {
        "function": object_of({"function": _FUNCTION}),
        "custom": object_of({"custom": _CUSTOM}),
        "mcp": _MCP,
    },
    allow_unknown=True,
)
_NAMED = object_of({"name": non_empty_string})
_CHOSEN_TOOL: Readers = {
    "function": object_of({"function": _NAMED}),
    "custom": object_of({"custom": _NAMED}),
}
_ALLOWED_TOOLS = object_of(
    {
        "mode": enum("auto", "required"),
        "tools": list_of(tagged_union(_CHOSEN_TOOL, allow_unknown=True)),
    }
)
_TOOL_CHOICE = by_type(
    "a string or an object",
    {
        str: enum("none", "auto", "required"),
        dict: tagged_union(
            {**_CHOSEN_TOOL, "allowed_tools": object_of({"allowed_tools": _ALLOWED_TOOLS})}
        ),
    },
)
_FUNCTION_CHOICE = by_type("a string or an object", {str: enum("none", "auto"), dict: _NAMED})


def _read_tools(fields: Document) -> Iterator[Document]:
    """Read the tools, the functions of older clients, and the search that the API itself runs."""
    for tool in fields.get("tools", ()):
        yield _read_tool(tool)
    for function in fields.get("functions", ()):
        yield {"type": "function", **function}
    if SEARCH in fields:
        yield {"type": "web_search", **_read_search(fields[SEARCH])}


def _read_tool(tool: Document) -> Document:
    """Flatten a tool: `{"type": "function", "function": {…}}` has its members in an object."""
    kind = tool["type"]
    nested = tool.get(kind)
    if not isinstance(nested, Mapping) or kind == "mcp":
        return tool
    flat = {"type": kind, **{name: value for name, value in tool.items() if name != kind}, **nested}
    grammar = (flat.get("format") or {}).get("grammar") if kind == "custom" else None
    if grammar is not None:
        flat["format"] = {"type": "grammar", **grammar}
    return flat


def _read_search(options: Document) -> Document:
    location = options.get("user_location", {})
    approximate = location.get("approximate") if isinstance(location, Mapping) else None
    search: Document = {}
    if size := options.get("search_context_size"):
        search["search_context_size"] = size
    if isinstance(approximate, Mapping):
        search["user_location"] = {"type": "approximate", **approximate}
    return search


def _read_tool_choice(fields: Document) -> str | Document:
    if "tool_choice" in fields:
        return _flatten_choice(fields["tool_choice"])
    choice = fields.get("function_call", "auto")
    return choice if isinstance(choice, str) else {"type": "function", "name": choice["name"]}


def _flatten_choice(choice: str | Document) -> str | Document:
    if isinstance(choice, str):
        return choice
    if choice["type"] == "allowed_tools":
        allowed = choice["allowed_tools"]
        tools = [_flatten_named(tool) for tool in allowed["tools"]]
        return {"type": "allowed_tools", "mode": allowed["mode"], "tools": tools}
    return _flatten_named(choice)


def _flatten_named(tool: Document) -> Document:
    nested = tool.get(tool["type"])
    return {"type": tool["type"], **nested} if isinstance(nested, Mapping) else tool


# --- other members --------------------------------------------------------------------------------

_EFFORT = string_up_to(64)


def _read_max_tokens(fields: Document) -> int | None:
    return next((fields[name] for name in MAX_TOKENS if name in fields), None)


def _read_effort(fields: Document) -> str | None:
    """Read the effort, also from the object that routers have for it (`reasoning.effort`)."""
    nested = fields.get("reasoning", {})
    if nested.get("enabled") is False:
        return "none"
    effort: str | None = fields.get("reasoning_effort") or nested.get("effort")
    thinking = _read_thinking(fields)
    if effort is None and thinking is not None:
        return effort_of_budget(thinking.budget_tokens)
    return effort


def _read_thinking(fields: Document) -> Thinking | None:
    """Read the budget for reasoning that clients of routers set (`reasoning.max_tokens`)."""
    nested = fields.get("reasoning", {})
    budget = nested.get("max_tokens")
    if not budget or nested.get("enabled") is False:
        return None
    return Thinking(mode="enabled", budget_tokens=budget)


def _read_format(response_format: Document | None) -> Document:
    if response_format is None or response_format["type"] != "json_schema":
        return response_format or {"type": "text"}
    return {"type": "json_schema", **response_format["json_schema"]}


def _stop(value: Any, param: str) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return list_of(string)(value, param)


_FORMAT = tagged_union(
    {
        "text": any_object,
        "json_object": any_object,
        "json_schema": object_of(
            {
                "json_schema": object_of(
                    {"name": non_empty_string},
                    {"description": string, "schema": any_object, "strict": boolean},
                )
            }
        ),
    }
)
_FIELDS: Readers = {
    "model": model_name,
    "stream": boolean,
    "stream_options": object_of({}, {"include_usage": boolean}),
    "parallel_tool_calls": boolean,
    "stop": _stop,
    "temperature": number(0, 2),
    "top_p": number(0, 1),
    "top_k": integer(0),
    "seed": integer(-(2**63), 2**63 - 1),
    "logit_bias": map_of(number(-100, 100)),
    "top_logprobs": integer(0, 20),
    "presence_penalty": number(-2, 2),
    "frequency_penalty": number(-2, 2),
    "verbosity": enum("low", "medium", "high"),
    "metadata": map_of(string_up_to(512)),
    "service_tier": string,
    "prompt_cache_key": string,
    "safety_identifier": string_up_to(128),
    "user": string,
}
"""Members that have the same name and form in a canonical request."""
_REASONING: Reader[Any] = by_type(
    "an object", {dict: object_of({}, {"effort": _EFFORT, "max_tokens": integer(0)})}
)
_CHECKED_FIELDS: Readers = {
    "messages": any_value,
    "n": integer(1, 128),
    "store": boolean,
    "tools": list_of(_TOOL),
    "functions": list_of(_FUNCTION),
    "tool_choice": _TOOL_CHOICE,
    "function_call": _FUNCTION_CHOICE,
    "max_tokens": integer(1),
    "max_completion_tokens": integer(1),
    "response_format": _FORMAT,
    "reasoning_effort": _EFFORT,
    "reasoning": _REASONING,
    "modalities": list_of(string),
    "audio": any_object,
    "logprobs": boolean,
    "prediction": any_object,
    SEARCH: any_object,
}
"""Members that become something else in a canonical request."""
_KNOWN_FIELDS = frozenset({*_FIELDS, *_CHECKED_FIELDS})
