"""What a response repeats of its request.

Clients validate what they read, so a response carries only what the API's own types allow: tools of
unknown types and efforts of somebody's own are not repeated (the plan's diagnostics tell of them),
and neither are secrets, which a stored response would keep.
"""

from __future__ import annotations

from typing import Any

from antiphon.wire.items import Document
from antiphon.wire.request import Request
from antiphon.wire.request_tools import EFFORTS, NAMESPACED, TOOLS
from antiphon.wire.response import Response

_SECRET = frozenset({"authorization", "headers", "domain_secrets"})
_TIERS = {"auto": "default", "fast": "priority"}
_FUNCTION = {"description": None, "parameters": None, "strict": None}


def opened(request: Request, *, response_id: str, created_at: int) -> Response:
    """The response as far as its request decides it."""
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
        service_tier=_TIERS.get(request.service_tier, request.service_tier),
        store=request.store,
        temperature=1.0 if request.temperature is None else request.temperature,
        text={"format": request.text_format, "verbosity": request.verbosity or "medium"},
        tool_choice=_choice(request.tool_choice),
        tools=[_tool(tool) for tool in request.tools if tool["type"] in TOOLS],
        top_logprobs=request.top_logprobs or 0,
        top_p=1.0 if request.top_p is None else request.top_p,
        truncation=request.truncation,
        user=request.user,
        metadata=request.metadata,
    )


def _tool(tool: Document) -> Document:
    if tool["type"] == "function":
        return {"type": "function", "name": tool["name"], **_FUNCTION, **tool}
    if tool["type"] == "namespace":
        inner = [_tool(each) for each in tool["tools"] if each["type"] in NAMESPACED]
        return {**tool, "description": tool.get("description") or "", "tools": inner}
    if tool["type"] == "custom":
        return tool
    return _public(tool)  # type: ignore[no-any-return]


def _public(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _public(each) for name, each in value.items() if name not in _SECRET}
    if isinstance(value, list):
        return [_public(each) for each in value]
    return value


def _choice(choice: str | Document) -> str | Document:
    """The API reports two spellings of a choice under another one that means the same."""
    if isinstance(choice, str):
        return choice
    if choice["type"] in ("web_search", "web_search_2025_08_26"):
        return {**choice, "type": "web_search_preview"}
    if choice["type"] == "allowed_tools" and choice["mode"] == "none":
        return "none"
    return choice
