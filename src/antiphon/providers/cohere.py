"""Cohere: Command models, with a thinking budget for reasoning models."""

from __future__ import annotations

from msgspec.structs import replace

from antiphon.core.capabilities import Capabilities
from antiphon.dialects.cohere.media import ACCEPTED_MEDIA
from antiphon.providers.spec import Model, Spec, parse_efforts

_TEXT = Capabilities(
    parameters=frozenset(
        """
        temperature top_p top_k max_output_tokens presence_penalty frequency_penalty seed stop
        """.split()
    ),
    ranges={
        "temperature": (0, 1),
        "top_p": (0.01, 0.99),
        "top_k": (0, 500),
        "seed": (0, 2**53),
        "stop": (0, 5),
        "presence_penalty": (0, 1),
        "frequency_penalty": (0, 1),
    },
    formats_beside_tools=False,
    strict_together=True,
    inputs=frozenset({"text"}),
    media=ACCEPTED_MEDIA,
    context_window=256_000,
    max_output_tokens=8_000,
)
_REASONS = replace(
    _TEXT,
    efforts=parse_efforts("none low low medium high high high"),
    thinking_budgets=True,
    replay_reasoning="tool_turns",
    max_output_tokens=32_000,
)
_SEES = frozenset({"text", "image"})

SPEC = Spec(
    name="cohere",
    title="Cohere",
    as_of="2026-10",
    base_url="https://api.cohere.com",
    api_key_env=("COHERE_API_KEY", "CO_API_KEY"),
    dialect="cohere",
    capabilities=_TEXT,
    models=(
        Model(
            id="command-a-plus-05-2026",
            capabilities=replace(
                _REASONS, inputs=_SEES, context_window=128_000, max_output_tokens=64_000
            ),
        ),
        Model(id="command-a-reasoning-08-2025", capabilities=_REASONS),
        Model(
            id="command-a-vision-07-2025",
            capabilities=replace(_TEXT, inputs=_SEES, tools=False, context_window=128_000),
        ),
        Model(id="command-a-03-2025"),
        Model(id="command-r", capabilities=replace(_TEXT, context_window=128_000), family=True),
    ),
)
