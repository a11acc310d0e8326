"""Qwen on DashScope: thinking by token budget, and only when streaming."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from antiphon.core.capabilities import Capabilities
from antiphon.core.plan.plan import Plan
from antiphon.dialects.chat.quirks import ChatQuirks
from antiphon.providers.spec import Model, Spec, parse_efforts


def _patch(body: dict[str, Any], plan: Plan) -> dict[str, Any]:
    if plan.effort is not None:
        body["enable_thinking"] = plan.effort != "none"
        if plan.effort.isdecimal():
            body["thinking_budget"] = int(plan.effort)
        elif plan.effort != "none":
            body["reasoning_effort"] = plan.effort
    if plan.replay_reasoning != "never":
        body["preserve_thinking"] = True  # otherwise replayed reasoning is ignored (2026-05)
    return body


_TEXT = Capabilities(
    parameters=frozenset(
        """
        temperature top_p top_k presence_penalty max_output_tokens parallel_tool_calls seed stop
        """.split()
    ),
    tool_choice=frozenset({"auto", "none", "function"}),
    formats=frozenset({"text", "json_object"}),
    inputs=frozenset({"text"}),
    system_messages="first",  # the templates of Qwen 3.5 and later reject any other (2026-09)
    strict_tools=False,
    context_window=1_000_000,
    max_output_tokens=65_536,
)
_HYBRID = replace(
    _TEXT,
    formats=frozenset({"text"}),  # `json_object` is refused while thinking
    efforts=parse_efforts("none 1024 2048 8192 16384 32768 38912"),
    forced_choice_stops_thinking=True,
)
_KEEPS = replace(_HYBRID, replay_reasoning="always")
_MAX = replace(_KEEPS, efforts=parse_efforts("none low low medium high xhigh max"))
_SEES = frozenset({"text", "image"})

SPEC = Spec(
    name="qwen",
    title="Qwen / DashScope",
    as_of="2026-10",
    base_url="https://dashscope.aliyuncs.com/compatible-mode/v1",  # outside China: dashscope-intl
    api_key_env=("DASHSCOPE_API_KEY",),
    capabilities=_HYBRID,
    models=(
        Model(id="qwen3.8-max", capabilities=replace(_MAX, inputs=_SEES)),
        Model(id="qwen3.7-max", capabilities=replace(_KEEPS, max_output_tokens=131_072)),
        Model(id="qwen3.7", capabilities=replace(_KEEPS, inputs=_SEES), family=True),
        Model(id="qwen3.6-plus", capabilities=replace(_KEEPS, inputs=_SEES)),
        Model(id="qwen3.6", capabilities=replace(_KEEPS, inputs=_SEES), family=True),
        Model(id="qwen3-coder-plus", capabilities=_TEXT),
        Model(id="qwen3-coder", capabilities=_TEXT, family=True),
        Model(id="qwen-plus", capabilities=replace(_HYBRID, max_output_tokens=32_768)),
    ),
    quirks=ChatQuirks(
        content_beside_calls=True,
        effort_field=None,
        user_field=None,
        only_streams=True,
        patch=_patch,
    ),
)
