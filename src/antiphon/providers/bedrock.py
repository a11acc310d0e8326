"""Amazon Bedrock: models of many vendors behind the Converse API.

The region is part of the base URL. A key is a Bedrock API key, or a key pair for SigV4 signatures:
`ACCESS:SECRET`, with `:TOKEN` for temporary credentials.
"""

from __future__ import annotations

from msgspec.structs import replace

from antiphon.core.capabilities import Capabilities
from antiphon.dialects.bedrock.media import ACCEPTED_MEDIA
from antiphon.dialects.bedrock.quirks import FAMILIES, BedrockQuirks
from antiphon.providers import claude
from antiphon.providers.spec import Auth, Model, Spec, parse_efforts

_TEXT = Capabilities(
    parameters=frozenset({"temperature", "top_p", "max_output_tokens", "stop"}),
    ranges={"temperature": (0, 1)},
    tool_choice=frozenset({"auto"}),
    formats=frozenset({"text"}),
    inputs=frozenset({"text"}),
    media=ACCEPTED_MEDIA,
    strict_tools=False,
)
_SEES = replace(_TEXT, inputs=frozenset({"text", "image", "file"}))
_NOVA = replace(
    _SEES,
    tool_choice=frozenset({"auto", "required", "function"}),
    tool_output_images=True,
    tool_errors=True,
    context_window=300_000,
)
_NOVA_2 = replace(
    _NOVA,
    efforts=parse_efforts("none low low medium high high high"),
    thinks_by_default=False,
    fixed_by_thinking=frozenset({"temperature", "top_p"}),
    fixed_by_effort={"high": frozenset({"max_output_tokens"})},  # set by the model
    context_window=1_000_000,
)


_CLAUDE = {
    "3-": replace(claude.OLD, parameters=_TEXT.parameters),
    **dict.fromkeys(("3-7", "opus-4-", "sonnet-4-", "opus-4-1"), claude.BUDGET),
    **dict.fromkeys(("haiku-4-5", "sonnet-4-5", "opus-4-5"), claude.RECENT),
    **dict.fromkeys(("sonnet-4-6", "opus-4-6"), claude.ADAPTIVE),
    **dict.fromkeys(("opus-4-7", "opus-4-8", "sonnet-5", "opus-5", "haiku-5"), claude.LATEST),
    **dict.fromkeys(("sonnet-5-5", "opus-5-5"), claude.ALWAYS),
}

SPEC = Spec(
    name="bedrock",
    title="Amazon Bedrock",
    as_of="2026-10",
    base_url="https://bedrock-runtime.us-east-1.amazonaws.com",
    api_key_env=("AWS_BEARER_TOKEN_BEDROCK",),
    auth=Auth(scheme="sigv4", service="bedrock"),
    dialect="bedrock",
    capabilities=_TEXT,
    models=(
        *(
            Model(
                id=f"anthropic.claude-{name}",
                capabilities=replace(can, media=ACCEPTED_MEDIA, tool_errors=True),
                family=True,
            )
            for name, can in _CLAUDE.items()
        ),
        Model(id="amazon.nova-2", capabilities=_NOVA_2, family=True),
        Model(id="amazon.nova", capabilities=_NOVA, family=True),
        Model(
            id="openai.gpt-oss",
            capabilities=replace(_TEXT, efforts=parse_efforts("- low low medium high high high")),
            family=True,
        ),
        Model(id="meta.llama4", capabilities=_SEES, family=True),
    ),
    quirks=BedrockQuirks(models=FAMILIES),
)
