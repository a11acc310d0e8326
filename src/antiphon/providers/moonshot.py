"""Moonshot (Kimi): fixed sampling parameters; tool calls without their reasoning are refused."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from antiphon.core.capabilities import Capabilities
from antiphon.core.plan.plan import Plan
from antiphon.dialects.chat.quirks import ChatQuirks
from antiphon.providers.spec import Model, Spec, parse_efforts


def _patch(body: dict[str, Any], plan: Plan) -> dict[str, Any]:
    if plan.effort is None:
        return body
    switch = "disabled" if plan.effort == "disabled" else "enabled"
    body["thinking"] = {"type": switch}
    if plan.effort not in ("disabled", "enabled"):
        body["reasoning_effort"] = plan.effort
    return body


_TEXT = Capabilities(
    parameters=frozenset(
        """
        temperature top_p presence_penalty frequency_penalty max_output_tokens prompt_cache_key
        stop
        """.split()
    ),
    ranges={"temperature": (0, 1)},
    tool_choice=frozenset({"auto", "none"}),  # `required` is refused
    formats=frozenset({"text", "json_object"}),
    inputs=frozenset({"text"}),
    strict_tools=False,
    context_window=131_072,
)
_K3 = replace(
    _TEXT,
    # Temperature and the like are fixed, whether it thinks or not (2026-04).
    parameters=frozenset({"max_output_tokens", "prompt_cache_key", "stop"}),
    ranges={},
    efforts=parse_efforts("disabled low low high high max max"),
    inputs=frozenset({"text", "image"}),
    replay_reasoning="tool_turns",
    context_window=1_048_576,
    max_output_tokens=262_144,
)
_K2 = replace(
    _K3,
    efforts=parse_efforts("disabled enabled enabled enabled enabled enabled enabled"),
    context_window=262_144,
)
_CODE = replace(  # thinking cannot be disabled, `tool_choice` not set (2026-06)
    _K2,
    efforts=parse_efforts("- enabled enabled enabled enabled enabled enabled"),
    tool_choice=frozenset({"auto"}),
)
_QUIRKS = ChatQuirks(content_beside_calls=True, effort_field=None, user_field=None)

SPEC = Spec(
    name="moonshot",
    title="Moonshot / Kimi",
    as_of="2026-10",
    base_url="https://api.moonshot.ai/v1",  # China: api.moonshot.cn; plans: api.kimi.com/coding/v1
    api_key_env=("MOONSHOT_API_KEY",),
    capabilities=_K3,
    models=(
        Model(id="kimi-k3"),
        Model(id="kimi-k2.7-code", capabilities=_CODE),
        Model(id="kimi-k2.6", capabilities=_K2),
        Model(id="kimi-k2.5", capabilities=_K2),
        Model(id="moonshot-v1", capabilities=_TEXT, family=True),
    ),
    quirks=replace(
        _QUIRKS,
        reasoning_required=True,
        lost_reasoning=" ",  # an empty string counts as missing
        patch=_patch,
    ),
)
