"""Open models that many hosts serve under the same names."""

from __future__ import annotations

from msgspec.structs import replace

from antiphon.core.capabilities import Capabilities
from antiphon.providers.spec import Model, parse_efforts

HOSTED = Capabilities(
    parameters=frozenset(
        """
        temperature top_p top_k max_output_tokens presence_penalty frequency_penalty seed stop
        """.split()
    ),
    strict_tools=False,
    system_messages="first",  # the chat templates of some models reject any other (2026-09)
)
"""Capabilities common to all models of a typical host."""


def gpt_oss(host: Capabilities) -> tuple[Model, ...]:
    """Return OpenAI's open models with the capabilities of a host."""
    can = replace(
        host,
        efforts=parse_efforts("- low low medium high high high"),
        inputs=frozenset({"text"}),
        context_window=131_072,
    )
    return tuple(Model(id=f"openai/gpt-oss-{size}", capabilities=can) for size in ("120b", "20b"))
