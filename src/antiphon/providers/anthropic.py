"""Anthropic (Claude): thinks by a budget, or as it sees fit, by the age of the model."""

from __future__ import annotations

from msgspec.structs import replace

from antiphon.core.plan import Capabilities
from antiphon.dialects.anthropic_request import AnthropicQuirks
from antiphon.providers.spec import Auth, Model, Spec, ladder

_SAMPLING = frozenset({"temperature", "top_p"})

OLD = Capabilities(
    parameters=_SAMPLING
    | {"max_output_tokens", "parallel_tool_calls", "safety_identifier", "service_tier", "user"},
    ranges={"temperature": (0, 1)},
    formats=frozenset({"text"}),
    inputs=frozenset({"text", "image", "file"}),
    tool_output_images=True,
    thinks_unasked=False,
    forced_choice_stops_thinking=True,
    strict_tools=False,
    web_search="native",
    web_search_limits=frozenset({"filters"}),
    context_window=200_000,
    max_output_tokens=8_192,
)
BUDGET = replace(  # 3.7 and 4
    OLD,
    efforts=ladder("none minimal low medium high xhigh max"),
    fixed_by_thinking=_SAMPLING,
    max_output_tokens=32_000,
)
RECENT = replace(  # 4.1 and 4.5
    BUDGET,
    gives_way={"top_p": "temperature"},
    formats=frozenset({"text", "json_schema"}),
    strict_tools=True,
    max_output_tokens=64_000,
)
ADAPTIVE = replace(  # 4.6
    RECENT, efforts=ladder("none low low medium high high max"), context_window=1_000_000
)
LATEST = replace(  # 4.7 to 5: sampling is refused
    ADAPTIVE,
    parameters=ADAPTIVE.parameters - _SAMPLING,
    efforts=ladder("none low low medium high xhigh max"),
    max_output_tokens=128_000,
)
ALWAYS = replace(  # 5.5 cannot be told not to think, and so neither to call a tool (2026-09)
    LATEST,
    efforts=ladder("- low low medium high xhigh max"),
    tool_choice=frozenset({"auto", "none"}),
    thinks_unasked=True,
)

_NEW = AnthropicQuirks(
    thinking="adaptive", display="summarized", sampling="none", native_format=True
)
_4_6 = replace(_NEW, display=None, sampling="one")
_4_5 = replace(_4_6, thinking="budget")
_4_1 = replace(_4_5, native_format=False)
_4 = replace(_4_1, sampling="both")
_3 = replace(_4, thinking="none", max_tokens=4_096)
_FAMILIES: tuple[tuple[str, Capabilities, AnthropicQuirks], ...] = (
    *((f"claude-{name}", ALWAYS, _NEW) for name in ("opus-5-5", "sonnet-5-5")),
    *((f"claude-{name}", LATEST, _NEW) for name in ("opus-5", "opus-4-8", "opus-4-7", "fable-5")),
    ("claude-sonnet-5", replace(LATEST, efforts=ADAPTIVE.efforts), _NEW),
    *((f"claude-{name}", ADAPTIVE, _4_6) for name in ("opus-4-6", "sonnet-4-6")),
    *((f"claude-{name}-4-5", RECENT, _4_5) for name in ("opus", "sonnet", "haiku")),
    ("claude-opus-4-1", replace(BUDGET, gives_way=RECENT.gives_way), _4_1),
    *((f"claude-{name}", BUDGET, _4) for name in ("opus-4-", "sonnet-4-", "3-7-")),
    ("claude-3-", OLD, _3),
)

SPEC = Spec(
    name="anthropic",
    title="Anthropic",
    as_of="2026-10",
    base_url="https://api.anthropic.com",
    api_key_env=("ANTHROPIC_API_KEY",),
    auth=Auth(header="x-api-key", scheme="plain"),
    dialect="anthropic",
    capabilities=LATEST,
    models=tuple(
        Model(id=name, capabilities=can, family=name.endswith("-")) for name, can, _ in _FAMILIES
    ),
    quirks=replace(_NEW, models={name: quirks for name, _, quirks in _FAMILIES}),
)
