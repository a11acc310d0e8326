"""The Cohere dialect: Cohere's chat API, version 2."""

from __future__ import annotations

from antiphon.core.deltas import Delta
from antiphon.core.plan.plan import Outbound, Plan
from antiphon.dialects.cohere.decode import CohereDecoder, decode
from antiphon.dialects.cohere.encode import encode
from antiphon.dialects.cohere.quirks import PLAIN, CohereQuirks
from antiphon.dialects.defaults import DialectDefaults
from antiphon.dialects.parameters import ParameterFields


class CohereDialect(DialectDefaults):
    """`/v2/chat`: SSE frames with a `type`, a message of content blocks."""

    parameter_fields = ParameterFields(
        essential=frozenset("model messages stream tools tool_choice response_format".split())
    )

    def __init__(self, *, quirks: CohereQuirks = PLAIN) -> None:
        self._quirks = quirks

    def encode(self, plan: Plan, *, stream: bool) -> Outbound:
        return encode(plan, stream=stream, quirks=self._quirks)

    def decoder(self) -> CohereDecoder:
        return CohereDecoder()

    def decode(self, body: bytes) -> list[Delta]:
        return decode(body)
