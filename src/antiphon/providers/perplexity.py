"""Perplexity (Sonar): built-in web search, no tool calls, strictly alternating roles."""

from __future__ import annotations

from msgspec.structs import replace

from antiphon.core.capabilities import Capabilities
from antiphon.dialects.chat.quirks import ChatQuirks
from antiphon.providers.spec import Model, Spec, parse_efforts

_SONAR = Capabilities(
    parameters=frozenset(
        "temperature top_p top_k max_output_tokens presence_penalty frequency_penalty".split()
    ),
    formats=frozenset({"text", "json_schema"}),
    tools=False,
    context_window=128_000,
    max_output_tokens=8_192,
)
_REASONS = replace(
    _SONAR, efforts=parse_efforts("- minimal low medium high high high"), guards=("think",)
)

SPEC = Spec(
    name="perplexity",
    title="Perplexity",
    as_of="2026-09",
    base_url="https://api.perplexity.ai",
    api_key_env=("PERPLEXITY_API_KEY",),
    capabilities=_SONAR,
    models=(
        Model(id="sonar-pro", capabilities=replace(_SONAR, context_window=200_000)),
        Model(id="sonar-reasoning-pro", capabilities=_REASONS),
        Model(id="sonar-deep-research", capabilities=_REASONS),
        Model(id="sonar"),
    ),
    quirks=ChatQuirks(plain_dialogue=True, stream_usage=False, user_field=None),
)
