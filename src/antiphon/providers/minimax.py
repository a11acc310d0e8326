"""MiniMax: adaptive thinking; all reasoning must be replayed, with or without tool calls.

Errors sent with HTTP 200 (`base_resp`) are read by the dialect, whichever provider sends them.
"""

from __future__ import annotations

from msgspec.structs import replace

from antiphon.core.capabilities import Capabilities
from antiphon.dialects.chat.quirks import ChatQuirks
from antiphon.providers.spec import Model, Spec, parse_efforts

_M3 = Capabilities(
    parameters=frozenset({"temperature", "top_p", "max_output_tokens"}),
    ranges={"temperature": (0.01, 1)},  # 0 is refused
    # Neither a forced choice nor a format is documented (2026-10): a prompt is used instead.
    tool_choice=frozenset({"auto"}),
    formats=frozenset({"text"}),
    efforts=parse_efforts("disabled adaptive adaptive adaptive adaptive adaptive adaptive"),
    inputs=frozenset({"text", "image"}),
    replay_reasoning="always",
    strict_tools=False,
    context_window=512_000,  # guaranteed; the maximum is one million (2026-06)
    max_output_tokens=131_072,
)
_M2 = replace(  # always thinks
    _M3,
    efforts={},
    inputs=frozenset({"text"}),
    context_window=204_800,
    guards=("minimax",),  # MiniMax-AI/MiniMax-M2.5 issue 10 (2026-03)
)

SPEC = Spec(
    name="minimax",
    title="MiniMax",
    as_of="2026-10",
    base_url="https://api.minimax.io/v1",  # keys from China: https://api.minimaxi.com/v1
    api_key_env=("MINIMAX_API_KEY",),
    capabilities=_M3,
    models=(
        Model(id="MiniMax-M3"),
        Model(id="MiniMax-M2.7", capabilities=_M2),
        Model(id="MiniMax-M2.5", capabilities=_M2),
        Model(id="MiniMax-M2", capabilities=_M2),
    ),
    quirks=ChatQuirks(
        content_beside_calls=True,
        # Otherwise reasoning is part of the text, between <think> tags.
        fields={"reasoning_split": True},
        max_tokens_field="max_completion_tokens",
        effort_field="thinking.type",
        user_field=None,
    ),
)
