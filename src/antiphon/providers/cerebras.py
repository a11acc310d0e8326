"""Cerebras: open models; penalty parameters are not supported."""

from __future__ import annotations

from msgspec.structs import replace

from antiphon.core.capabilities import Capabilities
from antiphon.dialects.chat.quirks import ChatQuirks
from antiphon.providers.spec import Model, Spec, parse_efforts

_TEXT = Capabilities(
    parameters=frozenset(
        """
        temperature top_p max_output_tokens parallel_tool_calls top_logprobs
        safety_identifier seed stop user
        """.split()
    ),
    ranges={"stop": (0, 4)},
    inputs=frozenset({"text"}),
    strict_tools=False,  # accepted only if all tools are strict, or none is
    context_window=131_072,
    max_output_tokens=40_000,
)
_OSS = replace(_TEXT, efforts=parse_efforts("- low low medium high high high"))
_QWEN = replace(
    _TEXT,
    efforts=parse_efforts("none low low medium high high high"),
    inputs=frozenset({"text", "image"}),
    context_window=65_536,
    max_output_tokens=32_768,
)

SPEC = Spec(
    name="cerebras",
    title="Cerebras",
    as_of="2026-09",
    base_url="https://api.cerebras.ai/v1",
    api_key_env=("CEREBRAS_API_KEY",),
    capabilities=_TEXT,
    models=(
        Model(id="gpt-oss-120b", capabilities=_OSS),
        Model(id="qwen-3.8-27b", capabilities=_QWEN),
        Model(id="zai-glm-4.7"),
    ),
    quirks=ChatQuirks(max_tokens_field="max_completion_tokens"),
)
