"""GitHub Models: models of many vendors, billed to a GitHub account."""

from __future__ import annotations

from msgspec.structs import replace

from antiphon.core.capabilities import Capabilities
from antiphon.dialects.call_ids import CallIdFormat
from antiphon.dialects.chat.quirks import ChatQuirks
from antiphon.providers.spec import Model, Spec, parse_efforts

_ANY = Capabilities(
    parameters=frozenset(
        """
        temperature top_p max_output_tokens presence_penalty frequency_penalty seed stop
        """.split()
    ),
)
_REASONS = replace(  # sampling parameters are refused
    _ANY,
    parameters=frozenset({"max_output_tokens"}),
    efforts=parse_efforts("- low low medium high high high"),
)

SPEC = Spec(
    name="github",
    title="GitHub Models",
    as_of="2026-09",
    base_url="https://models.github.ai/inference",
    api_key_env=("GITHUB_TOKEN",),
    ambient_key=True,
    capabilities=_ANY,
    models=(
        Model(id="openai/gpt-4.1"),
        Model(id="openai/gpt-5", capabilities=_REASONS),
        Model(id="openai/o", capabilities=_REASONS, family=True),
    ),
    quirks=ChatQuirks(
        max_tokens_field="max_completion_tokens", call_ids=CallIdFormat("[!-~]{1,40}", 40)
    ),
)
