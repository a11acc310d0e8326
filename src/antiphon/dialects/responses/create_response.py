"""The initial `Response` of a request, with the parameters that the API repeats.

Clients validate responses, so only values that the API's own types allow are repeated: tools of
unknown types and efforts outside of the API are left out (the plan's diagnostics report them).
Secrets are left out as well, because responses are stored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import structs

from antiphon.core.items import Document
from antiphon.core.mcp.credentials import hide_query
from antiphon.core.mcp.toolset import TOOLSET
from antiphon.core.request import Request
from antiphon.core.response import Response, UsedSettings
from antiphon.dialects.responses.parse_tools import EFFORTS, NAMESPACE_TOOLS, TOOLS

_SECRET_FIELDS = frozenset({"authorization", "authorization_token", "headers", "domain_secrets"})
_REPORTED_TIERS = {"auto": "default", "fast": "priority"}
_FUNCTION_DEFAULTS = {"description": None, "parameters": None, "strict": None}


def create_response(
    request: Request, *, response_id: str, created_at: int, used: UsedSettings | None = None
) -> Response:
    """Build the response in progress, with every field that its request determines; `used`: what
    has become of its settings, if that is known."""
    if used is None:
        settings = _make_response(_repeat_settings(request))
    else:
        settings = _find_settings(request, used)
    if _read_labels(request) == _NO_LABELS:
        return structs.replace(settings, id=response_id, created_at=created_at, model=request.model)
    return structs.replace(
        settings,
        id=response_id,
        created_at=created_at,
        model=request.model,
        **_repeat_labels(request),
    )


_read_labels = attrgetter(
    "background",
    "instructions",
    "parallel_tool_calls",
    "previous_response_id",
    "conversation",
    "prompt_cache_key",
    "safety_identifier",
    "store",
    "user",
    "metadata",
)
_PLAIN_REQUEST = Request(raw={}, model="")
_NO_LABELS = _read_labels(_PLAIN_REQUEST)
"""What most requests have of these fields."""


def _repeat_labels(request: Request) -> dict[str, Any]:
    """The fields of a response that repeat what the request says besides its settings."""
    return {
        "background": request.background,
        "instructions": request.instructions,
        "parallel_tool_calls": request.parallel_tool_calls is not False,
        "previous_response_id": request.previous_response_id,
        "conversation": {"id": request.conversation} if request.conversation else None,
        "prompt_cache_key": request.prompt_cache_key,
        "safety_identifier": request.safety_identifier,
        "store": request.store,
        "user": request.user,
        "metadata": request.metadata or {},
    }


def _make_response(settings: dict[str, Any]) -> Response:
    """Make a response that has nothing but its settings."""
    return Response(id="", created_at=0, model="", **_repeat_labels(_PLAIN_REQUEST), **settings)


def _repeat_settings(request: Request) -> dict[str, Any]:
    """The fields of a response that tell which settings were requested."""
    return {
        "max_output_tokens": request.max_output_tokens,
        "max_tool_calls": request.max_tool_calls,
        "presence_penalty": float(request.presence_penalty or 0),
        "frequency_penalty": float(request.frequency_penalty or 0),
        "reasoning": {
            "effort": request.effort if request.effort in EFFORTS else None,
            "summary": request.summary,
        },
        "service_tier": _reported_tier(request.service_tier or "auto"),
        "temperature": 1.0 if request.temperature is None else float(request.temperature),
        "text": {"format": request.text_format, "verbosity": request.verbosity or "medium"},
        "tool_choice": _repeat_tool_choice(request.tool_choice),
        "tools": _repeat_tools(request.tools),
        "top_logprobs": request.top_logprobs or 0,
        "top_p": 1.0 if request.top_p is None else float(request.top_p),
        "truncation": request.truncation or "disabled",
    }


def _reported_tier(tier: str) -> str:
    return _REPORTED_TIERS.get(tier, tier)


def _repeat_tools(tools: Iterable[Document], unused: Collection[bytes] = ()) -> list[Document]:
    """The tools of a request as its response lists them, without those that are not used."""
    return [
        _repeat_tool(tool, unused)
        for tool in tools
        if tool["type"] in TOOLS and (not unused or _encode(tool) not in unused)
    ]


def _encode(tool: Mapping[str, Any]) -> bytes:
    """Encode a tool so that it is found among many."""
    return msgspec.json.encode(tool, order="sorted")


def _repeat_tool(tool: Document, unused: Collection[bytes]) -> Document:
    if tool["type"] == "function":
        return {"type": "function", "name": tool["name"], **_FUNCTION_DEFAULTS, **tool}
    if tool["type"] == "namespace":
        inner = [each for each in tool["tools"] if each["type"] in NAMESPACE_TOOLS]
        described = {**tool, "description": tool.get("description") or ""}
        return {**described, "tools": _repeat_tools(inner, unused)}
    if tool["type"] == "custom":
        return tool
    of_a_format = {name: tool[name] for name in ("extra", TOOLSET) if name in tool}
    return {**_without_secrets(tool), **of_a_format}  # its schemas may have such names


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: hide_query(each) if name == "server_url" and each else _without_secrets(each)
            for name, each in value.items()
            if name not in _SECRET_FIELDS
        }
    if isinstance(value, list):
        return [_without_secrets(each) for each in value]
    return value


def _repeat_tool_choice(choice: str | Mapping[str, Any]) -> str | Mapping[str, Any]:
    """The API reports some choices in an equivalent form that its response types allow."""
    if isinstance(choice, str):
        return choice
    if choice["type"] in ("web_search", "web_search_2025_08_26"):
        return {**choice, "type": "web_search_preview"}
    if choice["type"] == "allowed_tools" and choice["mode"] == "none":
        return "none"
    return choice


# --- settings that are used -----------------------------------------------------------------------

_DEFAULTS: Mapping[str, Any] = {
    "max_output_tokens": None,
    "max_tool_calls": None,
    "temperature": 1.0,
    "top_p": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "top_logprobs": 0,
    "truncation": "disabled",
    "service_tier": "default",
}
"""Parameters of providers that a response reports, with the API's defaults."""


_MAX_KEPT = 256
_MAX_CHARS = 64
_kept: dict[tuple[int, str | None], tuple[UsedSettings, Response]] = {}
"""Responses that have nothing but settings. The settings are kept as well, so that no others get
their identity."""


def _find_settings(request: Request, used: UsedSettings) -> Response:
    """Return a response that has nothing but its settings. Plans of requests without tools share
    their settings, if these are the same: so do their responses."""
    if request.tools or request.tool_choice != "auto":
        return _make_response(report_settings(request, used))
    key = (id(used), request.summary)
    kept = _kept.get(key)
    if kept is not None:
        return kept[1]
    response = _make_response(report_settings(request, used))
    if _is_small(used):
        if len(_kept) >= _MAX_KEPT:
            _kept.clear()  # settings come from clients: bounded, and cheap to make again
        _kept[key] = (used, response)
    return response


def _is_small(used: UsedSettings) -> bool:
    """Whether settings take little memory: a client may send a schema, or lists, of any size."""
    is_plain_text = used.text_format == {"type": "text"}
    return is_plain_text and all(map(_is_short, used.parameters.values()))


def _is_short(value: Any) -> bool:
    return (
        len(value) <= _MAX_CHARS if isinstance(value, str) else not isinstance(value, list | dict)
    )


def report_settings(request: Request, used: UsedSettings) -> dict[str, Any]:
    """The fields of a response that tell which settings are used, not which were requested. What is
    not used has the API's default."""
    parameters = used.parameters
    sent = {name: value for name, value in parameters.items() if name in _DEFAULTS}
    reported = {**_DEFAULTS, **sent}
    summary = parameters.get("summary") or parameters.get("generate_summary")
    return reported | {
        "service_tier": _reported_tier(reported["service_tier"]),
        "reasoning": {
            "effort": used.effort,
            "summary": summary or ("auto" if request.summary else None),
        },
        "text": {"format": used.text_format, "verbosity": parameters.get("verbosity", "medium")},
        "tool_choice": _report_tool_choice(request.tool_choice, forces_call=used.forces_call),
        "tools": _repeat_tools(request.tools, frozenset(map(_encode, used.unused))),
    }


def _report_tool_choice(choice: str | Document, *, forces_call: bool) -> str | Mapping[str, Any]:
    """The choice, without its obligation to call a tool if that is not sent."""
    nested = {} if isinstance(choice, str) else choice
    is_list = nested.get("type") == "allowed_tools"
    mode = nested.get("mode") if is_list else choice
    if mode in ("auto", "none") or forces_call:
        return _repeat_tool_choice(choice)
    if isinstance(choice, str):
        return "auto"
    tools = choice["tools"] if is_list else [choice]
    return {"type": "allowed_tools", "mode": "auto", "tools": tools}
