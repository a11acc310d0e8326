"""xAI (Grok): reasons always or never, depending on the model; replay helps its prompt cache."""

from __future__ import annotations

from msgspec.structs import replace

from antiphon.core.capabilities import Capabilities
from antiphon.dialects.chat.quirks import ChatQuirks
from antiphon.providers.spec import Model, Spec, parse_efforts

_PLAIN = Capabilities(
    # Penalties are a 400 for reasoning models.
    parameters=frozenset(
        """
        temperature top_p max_output_tokens parallel_tool_calls top_logprobs
        safety_identifier seed user
        """.split()
    ),
    inputs=frozenset({"text", "image"}),
    replay_reasoning="always",
    context_window=256_000,
)
_REASONS = replace(
    _PLAIN, efforts=parse_efforts("- low low medium high high high"), context_window=500_000
)

SPEC = Spec(
    name="xai",
    title="xAI",
    as_of="2026-10",
    base_url="https://api.x.ai/v1",
    api_key_env=("XAI_API_KEY",),
    capabilities=_PLAIN,
    models=(
        Model(
            id="grok-4.7",
            capabilities=replace(
                _REASONS, efforts=parse_efforts("- low low medium high xhigh xhigh")
            ),
        ),
        Model(id="grok-4.6", capabilities=_REASONS),
        Model(id="grok-4.5", capabilities=_REASONS),
        Model(id="grok-4.3", capabilities=replace(_PLAIN, context_window=1_000_000)),
    ),
    quirks=ChatQuirks(max_tokens_field="max_completion_tokens"),
)
