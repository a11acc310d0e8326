"""OpenAI: the Responses API itself, forwarded without translation to another dialect."""

from __future__ import annotations

from msgspec.structs import replace

from antiphon.core.capabilities import Capabilities
from antiphon.providers.spec import HOSTED_OUTPUT, Model, Spec, parse_efforts

_SAMPLING = frozenset({"temperature", "top_p", "top_logprobs"})
_PLAIN = Capabilities(
    parameters=_SAMPLING
    | set(
        """
        max_output_tokens parallel_tool_calls max_tool_calls truncation service_tier metadata user
        safety_identifier prompt_cache_key
        """.split()
    ),
    inputs=frozenset({"text", "image", "file", "file_url"}),
    tool_output_images=True,
    developer_role=True,
    web_search="native",
    web_search_limits=frozenset(
        "external_web_access filters user_location search_context_size search_content_types".split()
    ),
    hosted_tools=frozenset("code_interpreter file_search image_generation mcp".split()),
    include=HOSTED_OUTPUT,
    context_window=128_000,
    max_output_tokens=16_384,
)
_REASONS = replace(
    _PLAIN,
    parameters=_PLAIN.parameters | {"verbosity", "summary"},
    efforts=parse_efforts("none - low medium high xhigh -"),
    fixed_by_thinking=_SAMPLING,
    replay_reasoning="always",
    context_window=1_050_000,
    max_output_tokens=128_000,
)
_GPT_5_6 = replace(_REASONS, efforts=parse_efforts("none - low medium high xhigh max"))
_GPT_5_2 = replace(_REASONS, context_window=400_000)
_GPT_5_1 = replace(_GPT_5_2, efforts=parse_efforts("none - low medium high - -"))
_ALWAYS = replace(  # sampling parameters are refused at every effort
    _REASONS,
    parameters=_REASONS.parameters - _SAMPLING,
    fixed_by_thinking=frozenset(),
    efforts=parse_efforts("- - low medium high xhigh max"),
)
_GPT_5 = replace(
    _ALWAYS, efforts=parse_efforts("- minimal low medium high - -"), context_window=400_000
)
_O = replace(
    _ALWAYS,
    parameters=_ALWAYS.parameters - {"verbosity"},
    efforts=parse_efforts("- - low medium high - -"),
    context_window=200_000,
    max_output_tokens=100_000,
)

SPEC = Spec(
    name="openai",
    title="OpenAI",
    as_of="2026-10",
    base_url="https://api.openai.com/v1",
    api_key_env=("OPENAI_API_KEY",),
    dialect="responses",
    capabilities=_PLAIN,
    models=(
        Model(id="gpt-6-astra", capabilities=_ALWAYS),
        Model(id="gpt-5.6", capabilities=_GPT_5_6),
        *(Model(id=name, capabilities=_REASONS) for name in ("gpt-5.5", "gpt-5.4")),
        *(Model(id=name, capabilities=_GPT_5_2) for name in ("gpt-5.3-codex", "gpt-5.2")),
        Model(id="gpt-5.1", capabilities=_GPT_5_1),
        Model(id="gpt-5", capabilities=_GPT_5),
        Model(id="gpt-6", capabilities=_ALWAYS, family=True),
        *(Model(id=name, capabilities=_O) for name in ("o3", "o4-mini")),
        Model(id="gpt-4.1", capabilities=replace(_PLAIN, context_window=1_047_576)),
        Model(id="gpt-4o"),
    ),
)
