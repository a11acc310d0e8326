"""How models behind one Converse API differ: data, and a function at most."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from msgspec import Struct, structs

from antiphon.core.plan.plan import Plan

Body: TypeAlias = dict[str, Any]


class BedrockQuirks(Struct, frozen=True, kw_only=True):
    """How the requests of one family of models differ from the common form."""

    thinking: Literal["budget", "adaptive", "config", "effort", "none"] = "none"
    """What an effort is, in the fields that Converse hands on to the model: a number of tokens,
    Anthropic's or Amazon's word, a plain `reasoning_effort`, or nothing at all."""
    answer_tokens: int = 8_192
    """What is left for the answer beside a budget, where the client does not say how much in all:
    Converse's own limit may be lower than the budget, and then it refuses."""
    display: Literal["summarized", "omitted"] | None = None
    """Whether adaptive thought is shown; None leaves it to the model."""
    sampling: Literal["both", "one", "none"] = "both"
    """Which of temperature and top_p may be set: one of them means the temperature."""
    parallel_switch: bool = False
    """The model takes Anthropic's `disable_parallel_tool_use`."""
    native_format: bool = False
    """The shape of an answer is asked for by `outputConfig`; otherwise the model is told."""
    tools_apart: bool = False
    """Calls, and results of calls, may not stand in one message with words."""
    caching: bool = False
    """The model remembers a prompt as far as it is marked; others remember by themselves or not."""
    web_search: str | None = None
    """The name of the service's own search tool for this model."""
    models: Mapping[str, BedrockQuirks] = {}
    """Quirks of single models in place of all of these, by what stands in the model's id; the
    longest wins."""
    patch: Callable[[Body, Plan], Body] | None = None
    """The last word: a body in, a body out."""

    def of(self, model: str) -> BedrockQuirks:
        name = model.casefold()
        known = [each for each in self.models if each in name]
        return self.models[max(known, key=len)] if known else self


PLAIN = BedrockQuirks()

_CLAUDE = BedrockQuirks(thinking="budget", parallel_switch=True, caching=True)
_ONE = structs.replace(_CLAUDE, sampling="one")
_SHAPED = structs.replace(_ONE, native_format=True)
_ADAPTIVE = structs.replace(_SHAPED, thinking="adaptive")
_LATEST = structs.replace(_CLAUDE, thinking="adaptive", display="summarized", sampling="none")

# As of 2026-11, from the vendors' pages and from what users were refused.
FAMILIES: Mapping[str, BedrockQuirks] = MappingProxyType(
    {
        "anthropic.claude-3-7": _CLAUDE,
        "anthropic.claude-sonnet-4-": _CLAUDE,
        "anthropic.claude-opus-4-": _CLAUDE,
        "anthropic.claude-opus-4-1": _ONE,
        "anthropic.claude-haiku-4-5": _ONE,
        "anthropic.claude-sonnet-4-5": _SHAPED,
        "anthropic.claude-opus-4-5": _SHAPED,
        "anthropic.claude-sonnet-4-6": _ADAPTIVE,
        "anthropic.claude-opus-4-6": _ADAPTIVE,
        "anthropic.claude-opus-4-7": _LATEST,
        "anthropic.claude-opus-4-8": _LATEST,
        "anthropic.claude-haiku-5": _LATEST,
        "anthropic.claude-sonnet-5": _LATEST,
        "anthropic.claude-opus-5": _LATEST,
        "amazon.nova-2": BedrockQuirks(thinking="config", web_search="nova_grounding"),
        "openai.gpt-oss": BedrockQuirks(thinking="effort"),
        "cohere.command": BedrockQuirks(tools_apart=True),
        "meta.llama": BedrockQuirks(tools_apart=True),
        "mistral.": BedrockQuirks(tools_apart=True),
    }
)
"""What is known of the models that Converse serves, by what stands in their ids."""
