"""Xiaomi MiMo: refuses unknown parameters, and tool calls without their reasoning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from antiphon.core.capabilities import Capabilities
from antiphon.core.plan.plan import Plan
from antiphon.dialects.chat.quirks import ChatQuirks
from antiphon.providers.spec import Model, Spec, parse_efforts


def _patch(body: dict[str, Any], plan: Plan) -> dict[str, Any]:
    if "tools" in body:
        body["tools"] = [_tool(tool) for tool in body["tools"]]
    for message in body["messages"]:
        message["content"] = message.get("content") or ""  # null is a 400, also beside tool calls
    return body


def _tool(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    if tool["type"] == "function":
        return tool
    limit = 5 if tool.get("search_context_size") == "high" else 3
    return {"type": "web_search", "max_keyword": 3, "limit": limit}


_TEXT = Capabilities(
    parameters=frozenset({"temperature", "top_p", "max_output_tokens", "stop"}),
    tool_choice=frozenset({"auto"}),
    formats=frozenset({"text", "json_object"}),
    efforts=parse_efforts("none low low medium high high high"),  # values above high are a 400
    fixed_by_thinking=frozenset({"temperature", "top_p"}),
    inputs=frozenset({"text"}),
    replay_reasoning="tool_turns",
    strict_tools=False,
    closed_objects=False,
    guards=("qwen_xml",),
    web_search_limits=frozenset({"search_context_size.high"}),
    web_search="none",  # `native` is a 400 unless enabled for the account
    context_window=1_048_576,
    max_output_tokens=131_072,
)
_SEES = replace(_TEXT, inputs=frozenset({"text", "image"}))

SPEC = Spec(
    name="xiaomi",
    title="Xiaomi MiMo",
    as_of="2026-10",
    base_url="https://api.xiaomimimo.com/v1",  # token plans: https://token-plan-cn.xiaomimimo.com/v1
    api_key_env=("MIMO_API_KEY",),
    capabilities=_TEXT,
    models=(
        Model(id="mimo-v2.6-pro", capabilities=_SEES),
        Model(id="mimo-v2.5-pro"),
        Model(id="mimo-v2.5", capabilities=_SEES),
    ),
    quirks=ChatQuirks(
        content_beside_calls=True,
        max_tokens_field="max_completion_tokens",
        thinking_on={"thinking": {"type": "enabled"}},
        thinking_off={"thinking": {"type": "disabled"}},
        user_field=None,
        reasoning_required=True,
        stream_usage=False,
        patch=_patch,
    ),
)
