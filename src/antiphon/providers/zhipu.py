"""Zhipu (GLM): thinking is a switch, an effort, or always on, depending on the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from antiphon.core.capabilities import Capabilities
from antiphon.core.plan.plan import Plan
from antiphon.dialects.chat.quirks import ChatQuirks
from antiphon.providers.spec import Model, Spec, parse_efforts


def _patch(body: dict[str, Any], plan: Plan) -> dict[str, Any]:
    switch = "disabled" if plan.effort == "disabled" else "enabled"
    body["model"] = plan.model.partition("[")[0]  # glm-5.3[1m] is valid only at other endpoints
    body["thinking"] = {"type": switch, "clear_thinking": False}  # keeps replayed reasoning
    if plan.effort not in (None, "disabled", "enabled"):
        body["reasoning_effort"] = plan.effort
    if "tools" in body:
        body["tools"] = [_tool(tool) for tool in body["tools"]]
        if body.get("stream") and not body["model"].startswith("glm-4.5"):
            body["tool_stream"] = True  # otherwise arguments arrive in one piece at the end
    return body


def _tool(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    if tool["type"] == "function":
        return tool
    size = "high" if tool.get("search_context_size") == "high" else "medium"
    search = {"enable": True, "search_engine": "search_std", "content_size": size}
    return {"type": "web_search", "web_search": {**search, "search_result": True}}


_SWITCH = parse_efforts("disabled enabled enabled enabled enabled enabled enabled")
_GLM_5_2 = parse_efforts("disabled disabled high high high max max")
_GLM_5_3 = parse_efforts("- low low high high max max")  # thinking cannot be disabled (2026-08)

_TEXT = Capabilities(
    parameters=frozenset("temperature top_p max_output_tokens safety_identifier stop user".split()),
    ranges={
        "temperature": (0, 1),
        "safety_identifier": (6, 128),
        "user": (6, 128),
        "stop": (0, 1),
    },
    tool_choice=frozenset({"auto"}),
    formats=frozenset({"text", "json_object"}),
    efforts=_SWITCH,
    inputs=frozenset({"text"}),
    replay_reasoning="always",
    strict_tools=False,
    web_search="native",
    web_search_limits=frozenset({"search_context_size.high"}),
    context_window=204_800,
    max_output_tokens=131_072,
)
_LONG = replace(_TEXT, context_window=1_048_576)
_SMALL = replace(_TEXT, context_window=131_072, max_output_tokens=98_304)
_SEES = replace(_SMALL, inputs=frozenset({"text", "image"}), max_output_tokens=32_768)
_QUIRKS = ChatQuirks(content_beside_calls=True, effort_field=None, user_field="user_id")

SPEC = Spec(
    name="zhipu",
    title="Zhipu / Z.AI",
    as_of="2026-10",
    # Coding plan: /api/coding/paas/v4. Outside China: the same paths under https://api.z.ai/api.
    base_url="https://open.bigmodel.cn/api/paas/v4",
    api_key_env=("ZHIPU_API_KEY",),
    capabilities=_TEXT,
    models=(
        Model(id="glm-5.3", capabilities=replace(_LONG, efforts=_GLM_5_3)),
        Model(id="glm-5.2", capabilities=replace(_LONG, efforts=_GLM_5_2)),
        *(Model(id=name) for name in ("glm-5.1", "glm-5", "glm-4.7", "glm-4.6")),
        Model(id="glm-4.6v", capabilities=_SEES),
        Model(id="glm-4.5", capabilities=_SMALL),
        Model(id="glm-4.5v", capabilities=replace(_SEES, context_window=65_536)),
    ),
    quirks=replace(_QUIRKS, stream_usage=False, patch=_patch),
)
