"""What every dialect can do: one small protocol, and the names it is found by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from antiphon.core.faults.fault import ProviderFault
from antiphon.core.plan.plan import Outbound, Plan
from antiphon.core.stream.deltas import Delta
from antiphon.dialects.anthropic.decode import AnthropicDialect
from antiphon.dialects.anthropic.encode import AnthropicQuirks
from antiphon.dialects.bedrock.decode import BedrockDialect
from antiphon.dialects.bedrock.quirks import BedrockQuirks
from antiphon.dialects.chat import decode as chat
from antiphon.dialects.chat import encode as chat_request
from antiphon.dialects.chat.encode import ChatQuirks
from antiphon.dialects.cohere.dialect import CohereDialect
from antiphon.dialects.cohere.quirks import CohereQuirks
from antiphon.dialects.defaults import Framer, Speech, StreamDecoder
from antiphon.dialects.gemini.dialect import GeminiDialect
from antiphon.dialects.gemini.quirks import GeminiQuirks
from antiphon.dialects.ollama.dialect import OllamaDialect
from antiphon.dialects.ollama.quirks import OllamaQuirks
from antiphon.dialects.responses.dialect import ResponsesDialect
from antiphon.dialects.responses.quirks import ResponsesQuirks
from antiphon.errors import UnknownDialect

__all__ = [
    "DIALECTS",
    "ChatDialect",
    "Dialect",
    "Framer",
    "StreamDecoder",
    "build",
    "resolve",
]


class Dialect(Protocol):
    """A provider's wire format, both ways. Everything here is pure, and reading is total."""

    def encode(self, plan: Plan, *, stream: bool) -> Outbound: ...
    def framer(self) -> Framer: ...
    def decoder(self) -> StreamDecoder: ...
    def decode(self, body: bytes) -> list[Delta]: ...
    def classify(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderFault: ...
    def describe(self, fault: ProviderFault, locale: str) -> str: ...


class ChatDialect(Speech):
    """Chat Completions: SSE frames, `choices[].delta`."""

    def __init__(
        self, quirks: ChatQuirks = chat_request.PLAIN, *, implied_finish: str | None = None
    ) -> None:
        """`implied_finish` is for providers that never say why they stopped, only that they did."""
        self._quirks = quirks
        self._implied_finish = implied_finish

    def encode(self, plan: Plan, *, stream: bool) -> Outbound:
        return chat_request.encode(plan, stream=stream, quirks=self._quirks)

    def decoder(self) -> StreamDecoder:
        return chat.ChatDecoder(implied_finish=self._implied_finish)

    def decode(self, body: bytes) -> list[Delta]:
        return chat.decode(body)


_TABLE: Mapping[str, tuple[Callable[..., Dialect], type]] = {
    "anthropic": (AnthropicDialect, AnthropicQuirks),
    "bedrock": (BedrockDialect, BedrockQuirks),
    "chat": (ChatDialect, ChatQuirks),
    "cohere": (CohereDialect, CohereQuirks),
    "gemini": (GeminiDialect, GeminiQuirks),
    "ollama": (OllamaDialect, OllamaQuirks),
    "responses": (ResponsesDialect, ResponsesQuirks),
}
"""Every dialect, and how it says what is special about a provider."""
DIALECTS: Mapping[str, Dialect] = {name: kind() for name, (kind, _) in _TABLE.items()}
"""Each dialect without any provider's quirks: enough to read what was recorded."""


def resolve(name: str) -> Dialect:
    dialect = DIALECTS.get(name)
    if dialect is None:
        raise UnknownDialect(f"There is no dialect {name!r}; known: {', '.join(sorted(DIALECTS))}.")
    return dialect


def build(name: str, *, quirks: object | None = None, implied_finish: str | None = None) -> Dialect:
    """A dialect as one provider speaks it; without quirks, as everybody does."""
    plain = resolve(name)
    kind, known = _TABLE[name]
    if quirks is not None and not isinstance(quirks, known):
        problem = f"the quirks of {name!r} are {known.__name__}, not {type(quirks).__name__}"
        raise TypeError(problem)
    finish = {"implied_finish": implied_finish} if implied_finish else {}
    if quirks is None:
        return kind(**finish) if finish else plain
    return kind(quirks=quirks, **finish)
