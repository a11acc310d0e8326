"""Anthropic Messages as a dialect."""

from __future__ import annotations

from antiphon.core.plan.plan import Outbound, Plan
from antiphon.core.stream.deltas import Delta
from antiphon.dialects.anthropic.decode import AnthropicDecoder, decode
from antiphon.dialects.anthropic.encode import encode
from antiphon.dialects.anthropic.quirks import PLAIN, AnthropicQuirks
from antiphon.dialects.defaults import DialectDefaults
from antiphon.dialects.parameters import ParameterFields


class AnthropicDialect(DialectDefaults):
    """Anthropic Messages: SSE frames with a `type`, an answer of content blocks."""

    parameter_fields = ParameterFields(
        essential=frozenset("model messages system stream tools tool_choice".split())
    )

    def __init__(self, quirks: AnthropicQuirks = PLAIN) -> None:
        self._quirks = quirks

    def encode(self, plan: Plan, *, stream: bool) -> Outbound:
        return encode(plan, stream=stream, quirks=self._quirks)

    def decoder(self) -> AnthropicDecoder:
        return AnthropicDecoder()

    def decode(self, body: bytes) -> list[Delta]:
        return decode(body)
