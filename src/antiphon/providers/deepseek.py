"""DeepSeek: thinks unless told not to, and wants back what it thought before it called a tool."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from antiphon.core.plan import Capabilities, Plan
from antiphon.dialects.chat_request import ChatQuirks
from antiphon.providers.spec import Model, Spec, ladder

_FIXED_BY_THINKING = ("frequency_penalty", "presence_penalty", "temperature", "top_p")


def _patch(body: dict[str, Any], plan: Plan) -> dict[str, Any]:
    # A forced call is refused while the model thinks, so that one is made without (2026-08).
    if plan.effort == "none" or plan.tool_choice.mode in ("required", "function"):
        return body | {"thinking": {"type": "disabled"}}
    body = {name: body[name] for name in body if name not in _FIXED_BY_THINKING}
    if body.get("tool_choice") == "auto":
        del body["tool_choice"]  # the default; some pages say that thinking refuses even this
    if plan.effort is None:
        return body
    return body | {"thinking": {"type": "enabled"}, "reasoning_effort": plan.effort}


_TEXT = Capabilities(
    parameters=frozenset({*_FIXED_BY_THINKING, "max_output_tokens", "safety_identifier", "user"}),
    formats=frozenset({"text", "json_object"}),
    efforts=ladder("none low low high high high max"),  # 2026-08-13
    inputs=frozenset({"text"}),
    replay_reasoning="tool_turns",
    strict_tools=False,  # only below /beta
    max_tools=128,
    context_window=1_000_000,
    max_output_tokens=384_000,
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
        Model(id="deepseek-v4-flash", capabilities=_VISION),  # the older name of the same
    ),
    quirks=ChatQuirks(
        effort_field=None,  # it stands beside a switch
        user_field="user_id",
        reasoning_required=True,  # an empty text counts, a missing field is a 400
        patch=_patch,
    ),
)
