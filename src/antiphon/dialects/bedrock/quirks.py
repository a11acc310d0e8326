"""Differences between the model families behind the Converse API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal

from msgspec import Struct, structs

from antiphon.core.items import Document
from antiphon.core.plan.plan import Plan


class BedrockQuirks(Struct, frozen=True, kw_only=True):
    """How requests to one family of models differ: data, and a function at most."""

    thinking: Literal["budget", "adaptive", "config", "effort", "none"] = "none"
    """Form of the effort in `additionalModelRequestFields`: a number of tokens, Anthropic's or
    Amazon's level, a plain `reasoning_effort`, or none."""
    output_tokens: int = 8_192
    """Tokens for the output beside a thinking budget, where the client sets no limit: Converse's
    own default limit may be lower than the budget, which it then refuses."""
    display: Literal["summarized", "omitted"] | None = None
    """Whether adaptive reasoning is shown; None leaves it to the model."""
    sampling: Literal["both", "one", "none"] = "both"
    """Which of temperature and top_p may be set; with "one", the temperature wins."""
    parallel_switch: bool = False
    """The model accepts Anthropic's `disable_parallel_tool_use`."""
    native_format: bool = False
    """Request structured output by `outputConfig`; otherwise by an instruction."""
    plain_schemas: bool = False
    """The parameters of a tool may only have `type`, `properties` and `required` at the top."""
    separate_tool_messages: bool = False
    """Calls and results may not share a message with text."""
    caching: bool = False
    """The model caches up to cache points; others cache automatically or not at all."""
    web_search: str | None = None
    """Name of the service's own search tool for this model."""
    models: Mapping[str, BedrockQuirks] = {}
    """Quirks of single models, which replace all of these, by a part of the model's id; the
    longest match wins."""
    patch: Callable[[Document, Plan], Document] | None = None
    """Last change to the request body."""

    def of(self, model: str) -> BedrockQuirks:
        name = model.casefold()
        known = [each for each in self.models if each in name]
        return self.models[max(known, key=len)] if known else self


PLAIN = BedrockQuirks()

_CLAUDE = BedrockQuirks(thinking="budget", parallel_switch=True, caching=True)
_ONE_SAMPLING = structs.replace(_CLAUDE, sampling="one")
_NATIVE_FORMAT = structs.replace(_ONE_SAMPLING, native_format=True)
_ADAPTIVE = structs.replace(_NATIVE_FORMAT, thinking="adaptive")
_LATEST = structs.replace(_CLAUDE, thinking="adaptive", display="summarized", sampling="none")

# As of 2026-11, from the vendors' documentation and from errors that users have reported.
FAMILIES: Mapping[str, BedrockQuirks] = MappingProxyType(
    {
        "anthropic.claude-3-7": _CLAUDE,
        "anthropic.claude-sonnet-4-": _CLAUDE,
        "anthropic.claude-opus-4-": _CLAUDE,
        "anthropic.claude-opus-4-1": _ONE_SAMPLING,
        "anthropic.claude-haiku-4-5": _ONE_SAMPLING,
        "anthropic.claude-sonnet-4-5": _NATIVE_FORMAT,
        "anthropic.claude-opus-4-5": _NATIVE_FORMAT,
        "anthropic.claude-sonnet-4-6": _ADAPTIVE,
        "anthropic.claude-opus-4-6": _ADAPTIVE,
        "anthropic.claude-opus-4-7": _LATEST,
        "anthropic.claude-opus-4-8": _LATEST,
        "anthropic.claude-haiku-5": _LATEST,
        "anthropic.claude-sonnet-5": _LATEST,
        "anthropic.claude-opus-5": _LATEST,
        "amazon.nova": BedrockQuirks(plain_schemas=True),
        "amazon.nova-2": BedrockQuirks(
            thinking="config", web_search="nova_grounding", plain_schemas=True
        ),
        "openai.gpt-oss": BedrockQuirks(thinking="effort"),
        "cohere.command": BedrockQuirks(separate_tool_messages=True),
        "meta.llama": BedrockQuirks(separate_tool_messages=True),
        "mistral.": BedrockQuirks(separate_tool_messages=True),
    }
)
"""Quirks of the models that Converse serves, by a part of their ids."""
