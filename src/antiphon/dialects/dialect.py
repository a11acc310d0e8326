"""The `Dialect` protocol, and the table of all dialects by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from antiphon.core.faults.fault import ProviderFault
from antiphon.core.plan.plan import Outbound, Plan
from antiphon.core.stream.source import Framer, ReadingDialect, StreamDecoder
from antiphon.dialects.anthropic.dialect import AnthropicDialect
from antiphon.dialects.anthropic.quirks import AnthropicQuirks
from antiphon.dialects.bedrock.dialect import BedrockDialect
from antiphon.dialects.bedrock.quirks import BedrockQuirks
from antiphon.dialects.chat.dialect import ChatDialect
from antiphon.dialects.chat.quirks import ChatQuirks
from antiphon.dialects.cohere.dialect import CohereDialect
from antiphon.dialects.cohere.quirks import CohereQuirks
from antiphon.dialects.gemini.dialect import GeminiDialect
from antiphon.dialects.gemini.quirks import GeminiQuirks
from antiphon.dialects.ollama.dialect import OllamaDialect
from antiphon.dialects.ollama.quirks import OllamaQuirks
from antiphon.dialects.responses.dialect import ResponsesDialect
from antiphon.dialects.responses.quirks import ResponsesQuirks
from antiphon.errors import UnknownDialect

__all__ = ["DIALECTS", "Dialect", "Framer", "StreamDecoder", "build", "resolve"]


class Dialect(ReadingDialect, Protocol):
    """A provider's wire format, both ways. Everything is pure, and decoding never raises."""

    def encode(self, plan: Plan, *, stream: bool) -> Outbound:
        """The request for a plan."""
        ...

    def classify(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderFault:
        """The fault that an error response reports."""
        ...

    def describe(self, fault: ProviderFault, locale: str = "en", provider: str = "") -> str:
        """The text of a fault for clients."""
        ...

    def removable_parameters(self, outbound: Outbound) -> list[str]:
        """Names of the parameters of a request that can be left out."""
        ...

    def without(self, outbound: Outbound, name: str, *, rename: bool = True) -> Outbound | None:
        """The request without a parameter; None if it does not have it.

        With `rename`, a parameter that has a newer name is sent under that name instead.
        """
        ...


_TABLE: Mapping[str, tuple[Callable[..., Dialect], type]] = {
    "anthropic": (AnthropicDialect, AnthropicQuirks),
    "bedrock": (BedrockDialect, BedrockQuirks),
    "chat": (ChatDialect, ChatQuirks),
    "cohere": (CohereDialect, CohereQuirks),
    "gemini": (GeminiDialect, GeminiQuirks),
    "ollama": (OllamaDialect, OllamaQuirks),
    "responses": (ResponsesDialect, ResponsesQuirks),
}
"""Every dialect by name, with the class of its quirks."""
DIALECTS: Mapping[str, Dialect] = {name: kind() for name, (kind, _) in _TABLE.items()}
"""Each dialect without quirks of a provider: enough to decode recordings."""


def resolve(name: str) -> Dialect:
    """The dialect of this name, without quirks."""
    dialect = DIALECTS.get(name)
    if dialect is None:
        known = ", ".join(sorted(DIALECTS))
        raise UnknownDialect(f"Unknown dialect {name!r}; use one of: {known}.")
    return dialect


def build(name: str, *, quirks: object | None = None, implied_finish: str | None = None) -> Dialect:
    """The dialect of this name with one provider's quirks."""
    plain = resolve(name)
    dialect_class, quirks_class = _TABLE[name]
    if quirks is not None and not isinstance(quirks, quirks_class):
        raise TypeError(
            f"quirks of the dialect {name!r} must be {quirks_class.__name__}, "
            f"not {type(quirks).__name__}"
        )
    finish = {"implied_finish": implied_finish} if implied_finish else {}
    if quirks is None:
        return dialect_class(**finish) if finish else plain
    return dialect_class(quirks=quirks, **finish)
