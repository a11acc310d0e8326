"""Groq: open models; the values of the reasoning effort depend on the model."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from antiphon.core.capabilities import Capabilities
from antiphon.core.plan.plan import Plan
from antiphon.dialects.chat.quirks import ChatQuirks
from antiphon.providers.spec import Model, Spec, parse_efforts


def _patch(body: dict[str, Any], plan: Plan) -> dict[str, Any]:
    if plan.model.startswith("qwen/"):
        body["reasoning_format"] = "parsed"  # otherwise reasoning is part of the text
    return body


_TEXT = Capabilities(
    # Penalties and logprobs are refused; a schema is accepted only without tools and streaming.
    parameters=frozenset(
        """
        temperature top_p max_output_tokens parallel_tool_calls safety_identifier seed stop user
        """.split()
    ),
    ranges={"stop": (0, 4)},
    formats=frozenset({"text", "json_object"}),
    formats_beside_tools=False,
    inputs=frozenset({"text"}),
    strict_tools=False,
    context_window=131_072,
    max_output_tokens=32_768,
)
_OSS = replace(
    _TEXT, efforts=parse_efforts("- low low medium high high high"), max_output_tokens=65_536
)
_QWEN = replace(
    _TEXT,
    efforts=parse_efforts("none default default default default default default"),
    inputs=frozenset({"text", "image"}),
    max_output_tokens=16_384,
)

SPEC = Spec(
    name="groq",
    title="Groq",
    as_of="2026-09",
    base_url="https://api.groq.com/openai/v1",
    api_key_env=("GROQ_API_KEY",),
    capabilities=_TEXT,
    models=(
        Model(id="openai/gpt-oss-120b", capabilities=_OSS),
        Model(id="openai/gpt-oss-20b", capabilities=_OSS),
        Model(id="qwen/qwen3.8-27b", capabilities=_QWEN),
        Model(id="qwen/qwen3", capabilities=_QWEN, family=True),
        Model(id="llama-3.3-70b-versatile"),
        Model(id="deepseek-r1", capabilities=replace(_TEXT, guards=("think",)), family=True),
    ),
    quirks=ChatQuirks(max_tokens_field="max_completion_tokens", patch=_patch),
)
