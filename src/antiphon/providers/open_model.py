"""Open models that many hosts serve, under the same names and in the same way."""

from __future__ import annotations

from msgspec.structs import replace

from antiphon.core.plan.plan import Capabilities
from antiphon.providers.spec import Model, ladder

HOSTED = Capabilities(
    parameters=frozenset(
        "temperature top_p max_output_tokens presence_penalty frequency_penalty".split()
    ),
    strict_tools=False,
)
"""What a host of many models takes for all of them."""


def gpt_oss(host: Capabilities) -> tuple[Model, ...]:
    """OpenAI's open models at a host that takes so much."""
    can = replace(
        host,
        efforts=ladder("- low low medium high high high"),
        inputs=frozenset({"text"}),
        context_window=131_072,
    )
    return tuple(Model(id=f"openai/gpt-oss-{size}", capabilities=can) for size in ("120b", "20b"))
