"""The Gemini dialect: `generateContent` and `streamGenerateContent`."""

from __future__ import annotations

from antiphon.core.plan.plan import Outbound, Plan
from antiphon.core.stream.deltas import Delta
from antiphon.dialects.defaults import DialectDefaults
from antiphon.dialects.gemini.decode import GeminiDecoder, decode
from antiphon.dialects.gemini.encode import encode
from antiphon.dialects.gemini.quirks import PLAIN, GeminiQuirks
from antiphon.dialects.parameters import ParameterFields


class GeminiDialect(DialectDefaults):
    """`generateContent` and `streamGenerateContent?alt=sse`, at AI Studio or at Vertex."""

    parameter_fields = ParameterFields(
        essential=frozenset({"contents", "systemInstruction", "tools", "toolConfig"}),
        groups=("generationConfig",),
        last="contents",
    )

    def __init__(self, *, quirks: GeminiQuirks = PLAIN) -> None:
        self._quirks = quirks

    def encode(self, plan: Plan, *, stream: bool) -> Outbound:
        return encode(plan, stream=stream, quirks=self._quirks)

    def decoder(self) -> GeminiDecoder:
        return GeminiDecoder()

    def decode(self, body: bytes) -> list[Delta]:
        return decode(body)
