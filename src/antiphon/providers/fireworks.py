"""Fireworks: open models with a reasoning effort and replayed reasoning."""

from __future__ import annotations

from msgspec.structs import replace

from antiphon.core.capabilities import Capabilities
from antiphon.dialects.chat.quirks import ChatQuirks
from antiphon.providers.spec import Model, Spec, parse_efforts

_ANY = Capabilities(
    parameters=frozenset(
        """
        temperature top_p max_output_tokens presence_penalty frequency_penalty
        logit_bias safety_identifier seed stop top_k user
        """.split()
    ),
    ranges={"stop": (0, 4)},
    formats_beside_tools=False,
    strict_tools=False,
    system_messages="first",  # the chat templates of some models reject any other (2026-09)
)
_REASONS = replace(
    _ANY,
    efforts=parse_efforts("none low low medium high high max"),
    replay_reasoning="tool_turns",
)
_OSS = replace(_REASONS, efforts=parse_efforts("- low low medium high high high"))

SPEC = Spec(
    name="fireworks",
    title="Fireworks",
    as_of="2026-09",
    base_url="https://api.fireworks.ai/inference/v1",
    api_key_env=("FIREWORKS_API_KEY",),
    capabilities=_ANY,
    models=(
        *(
            Model(id=name, capabilities=_REASONS, family=True)
            for name in ("deepseek-v", "glm-", "kimi-k", "minimax-m", "qwen3-")
        ),
        Model(id="gpt-oss-", capabilities=_OSS, family=True),
        Model(id="deepseek-r1", capabilities=replace(_ANY, guards=("think",)), family=True),
    ),
    quirks=ChatQuirks(
        content_beside_calls=True,
        only_streams=True,  # without streaming, a long response is refused
    ),
)
