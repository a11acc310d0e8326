"""The initial `Response` of a request, with the parameters that the API repeats.

Clients validate responses, so only values that the API's own types allow are repeated: tools of
unknown types and efforts outside of the API are left out (the plan's diagnostics report them).
Secrets are left out as well, because responses are stored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from antiphon.wire.items import Document
from antiphon.wire.request import Request
from antiphon.wire.request_tools import EFFORTS, NAMESPACE_TOOLS, TOOLS
from antiphon.wire.response import Response

_SECRET_FIELDS = frozenset({"authorization", "headers", "domain_secrets"})
_REPORTED_TIERS = {"auto": "default", "fast": "priority"}
_FUNCTION_DEFAULTS = {"description": None, "parameters": None, "strict": None}


def create_response(request: Request, *, response_id: str, created_at: int) -> Response:
    """Build the response in progress, with every field that its request determines."""
    return Response(
        id=response_id,
        created_at=created_at,
        model=request.model,
        background=request.background,
        instructions=request.instructions,
        max_output_tokens=request.max_output_tokens,
        max_tool_calls=request.max_tool_calls,
        parallel_tool_calls=request.parallel_tool_calls is not False,
        previous_response_id=request.previous_response_id,
        conversation={"id": request.conversation} if request.conversation else None,
        presence_penalty=request.presence_penalty or 0.0,
        frequency_penalty=request.frequency_penalty or 0.0,
        prompt_cache_key=request.prompt_cache_key,
        reasoning={
            "effort": request.effort if request.effort in EFFORTS else None,
            "summary": request.summary,
        },
        safety_identifier=request.safety_identifier,
        service_tier=report_tier(request.service_tier),
        store=request.store,
        temperature=1.0 if request.temperature is None else request.temperature,
        text={"format": request.text_format, "verbosity": request.verbosity or "medium"},
        tool_choice=repeat_tool_choice(request.tool_choice),
        tools=repeat_tools(request.tools),
        top_logprobs=request.top_logprobs or 0,
        top_p=1.0 if request.top_p is None else request.top_p,
        truncation=request.truncation,
        user=request.user,
        metadata=request.metadata,
    )


def report_tier(tier: str) -> str:
    """The name of a service tier in a response."""
    return _REPORTED_TIERS.get(tier, tier)


def repeat_tools(
    tools: Iterable[Document], unused: Collection[Mapping[str, Any]] = ()
) -> list[Document]:
    """The tools of a request as its response lists them, without those that are not used."""
    return [
        _repeat_tool(tool, unused)
        for tool in tools
        if tool["type"] in TOOLS and (not unused or tool not in unused)
    ]


def _repeat_tool(tool: Document, unused: Collection[Mapping[str, Any]]) -> Document:
    if tool["type"] == "function":
        return {"type": "function", "name": tool["name"], **_FUNCTION_DEFAULTS, **tool}
    if tool["type"] == "namespace":
        inner = [each for each in tool["tools"] if each["type"] in NAMESPACE_TOOLS]
        described = {**tool, "description": tool.get("description") or ""}
        return {**described, "tools": repeat_tools(inner, unused)}
    if tool["type"] == "custom":
        return tool
    return _without_secrets(tool)  # type: ignore[no-any-return]


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _without_secrets(each)
            for name, each in value.items()
            if name not in _SECRET_FIELDS
        }
    if isinstance(value, list):
        return [_without_secrets(each) for each in value]
    return value


def repeat_tool_choice(choice: str | Mapping[str, Any]) -> str | Mapping[str, Any]:
    """The API reports some choices in an equivalent form that its response types allow."""
    if isinstance(choice, str):
        return choice
    if choice["type"] in ("web_search", "web_search_2025_08_26"):
        return {**choice, "type": "web_search_preview"}
    if choice["type"] == "allowed_tools" and choice["mode"] == "none":
        return "none"
    return choice
