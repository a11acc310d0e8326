"""Capabilities of Claude models by version, whichever provider hosts them."""

from __future__ import annotations

from msgspec.structs import replace

from antiphon.core.capabilities import Capabilities, StrictLimits
from antiphon.providers.spec import parse_efforts

_SAMPLING = frozenset({"temperature", "top_k", "top_p"})

OLD = Capabilities(
    parameters=_SAMPLING | {"max_output_tokens", "parallel_tool_calls", "prefill", "stop"},
    ranges={"temperature": (0, 1)},
    blank_stops=False,
    formats=frozenset({"text"}),
    inputs=frozenset({"text", "image", "file"}),
    tool_output_images=True,
    thinks_by_default=False,
    forced_choice_stops_thinking=True,
    strict_tools=False,
    context_window=200_000,
    max_output_tokens=8_192,
)
BUDGET = replace(  # 3.7 and 4
    OLD,
    efforts=parse_efforts("none 1024 2048 8192 16384 20480 23552"),  # of 32,000 tokens
    resume_requires_reasoning=True,
    min_thinking_budget=1_024,
    fixed_by_thinking=_SAMPLING,
    max_output_tokens=32_000,
)
RECENT = replace(  # 4.1 and 4.5
    BUDGET,
    conflicting_parameters={"top_p": "temperature"},
    formats=frozenset({"text", "json_schema"}),
    strict_tools=True,
    strict_limits=StrictLimits(tools=20, optional=24, unions=16),
    max_output_tokens=64_000,
)
ADAPTIVE = replace(  # 4.6: a prefill is refused
    RECENT,
    parameters=RECENT.parameters - {"prefill"},
    efforts=parse_efforts("none low low medium high high max"),
    resume_requires_reasoning=False,
    min_thinking_budget=0,
    context_window=1_000_000,
)
LATEST = replace(  # 4.7 to 5: sampling parameters are refused
    ADAPTIVE,
    parameters=ADAPTIVE.parameters - _SAMPLING,
    ranges={},
    conflicting_parameters={},
    fixed_by_thinking=frozenset(),
    efforts=parse_efforts("none low low medium high xhigh max"),
    max_output_tokens=128_000,
)
ALWAYS = replace(  # 5.5: thinking cannot be disabled, so a forced tool call is refused (2026-09)
    LATEST,
    efforts=parse_efforts("- low low medium high xhigh max"),
    tool_choice=frozenset({"auto", "none"}),
    thinks_by_default=True,
)
