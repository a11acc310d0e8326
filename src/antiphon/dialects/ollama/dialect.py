"""The Ollama dialect: Ollama's own chat API."""

from __future__ import annotations

from antiphon.core.deltas import Delta
from antiphon.core.plan.plan import Outbound, Plan
from antiphon.dialects.defaults import DialectDefaults
from antiphon.dialects.ollama.decode import OllamaDecoder, decode
from antiphon.dialects.ollama.encode import encode
from antiphon.dialects.ollama.quirks import PLAIN, OllamaQuirks
from antiphon.dialects.parameters import ParameterFields
from antiphon.framing.limits import DEFAULT_LIMITS
from antiphon.framing.ndjson import NDJSONDecoder


class OllamaDialect(DialectDefaults):
    """`/api/chat`: lines of JSON, each with a piece of a message."""

    parameter_fields = ParameterFields(
        essential=frozenset({"model", "messages", "stream", "tools"}),
        groups=("options",),
    )

    def __init__(self, *, quirks: OllamaQuirks = PLAIN) -> None:
        self._quirks = quirks

    def encode(self, plan: Plan, *, stream: bool) -> Outbound:
        return encode(plan, stream=stream, quirks=self._quirks)

    def framer(self, max_bytes: int = DEFAULT_LIMITS.frame_bytes) -> NDJSONDecoder:
        return NDJSONDecoder(max_bytes)

    def decoder(self) -> OllamaDecoder:
        return OllamaDecoder()

    def decode(self, body: bytes) -> list[Delta]:
        return decode(body)
