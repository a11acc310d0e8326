"""DeepSeek: thinking is on by default, and its reasoning before a tool call must be replayed."""

from __future__ import annotations

from msgspec.structs import replace

from antiphon.core.capabilities import Capabilities
from antiphon.dialects.chat.quirks import ChatQuirks
from antiphon.providers.spec import Model, Spec, parse_efforts

_SAMPLING = frozenset({"frequency_penalty", "presence_penalty", "temperature", "top_p"})

_TEXT = Capabilities(
    parameters=_SAMPLING | {"max_output_tokens", "safety_identifier", "stop", "user"},
    formats=frozenset({"text", "json_object"}),
    efforts=parse_efforts("none low low high high high max"),  # 2026-08-13
    fixed_by_thinking=_SAMPLING,
    ranges={"stop": (0, 16)},
    forced_choice_stops_thinking=True,  # otherwise a 400 (2026-08)
    inputs=frozenset({"text"}),
    replay_reasoning="tool_turns",
    strict_tools=False,  # supported only under /beta
    max_tools=128,
    context_window=1_000_000,
    max_output_tokens=384_000,
    guards=("dsml",),  # xorbitsai/xagent pull request 790 (2026-07)
)
_VISION = replace(_TEXT, inputs=frozenset({"text", "image"}))  # 2026-08-21

SPEC = Spec(
    name="deepseek",
    title="DeepSeek",
    as_of="2026-10",
    base_url="https://api.deepseek.com",
    api_key_env=("DEEPSEEK_API_KEY",),
    capabilities=_TEXT,
    models=(
        Model(id="deepseek-v4-pro"),
        Model(id="deepseek-flash", capabilities=_VISION),
        Model(id="deepseek-v4-flash", capabilities=_VISION),  # the older name of deepseek-flash
    ),
    quirks=ChatQuirks(
        content_beside_calls=True,
        thinking_on={"thinking": {"type": "enabled"}},
        thinking_off={"thinking": {"type": "disabled"}},
        free_choice=None,  # auto is the default; thinking may refuse the field itself
        user_field="user_id",
        reasoning_required=True,  # an empty string is accepted, a missing field is a 400
    ),
)
