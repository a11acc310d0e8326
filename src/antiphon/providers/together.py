"""Together: open models behind the common form."""

from __future__ import annotations

from msgspec.structs import replace

from antiphon.core.plan import Capabilities
from antiphon.providers.spec import Model, Spec, ladder

_ANY = Capabilities(
    parameters=frozenset(
        "temperature top_p max_output_tokens presence_penalty frequency_penalty".split()
    ),
    strict_tools=False,
)
_OSS = replace(
    _ANY,
    efforts=ladder("- low low medium high high high"),
    inputs=frozenset({"text"}),
    context_window=131_072,
)

SPEC = Spec(
    name="together",
    title="Together",
    as_of="2026-09",
    base_url="https://api.together.xyz/v1",
    api_key_env=("TOGETHER_API_KEY",),
    capabilities=_ANY,
    models=(
        Model(id="openai/gpt-oss-120b", capabilities=_OSS),
        Model(id="openai/gpt-oss-20b", capabilities=_OSS),
        Model(id="deepseek-r1", capabilities=replace(_ANY, guards=("think",)), family=True),
    ),
)
