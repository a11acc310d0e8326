"""The Responses dialect: a provider that offers the OpenAI Responses API itself."""

from __future__ import annotations

from antiphon.core.plan.plan import Outbound, Plan
from antiphon.core.stream.deltas import Delta
from antiphon.dialects.defaults import DialectDefaults
from antiphon.dialects.parameters import ParameterFields
from antiphon.dialects.responses.decode import ResponsesDecoder, decode
from antiphon.dialects.responses.encode import encode
from antiphon.dialects.responses.quirks import PLAIN, ResponsesQuirks


class ResponsesDialect(DialectDefaults):
    """`/responses` of another server: SSE frames, one event each."""

    parameter_fields = ParameterFields(
        essential=frozenset(
            "model input instructions stream tools tool_choice text prompt".split()
        ),
        groups=("stream_options", "reasoning"),
        last="input",
    )

    def __init__(self, quirks: ResponsesQuirks = PLAIN) -> None:
        self._quirks = quirks

    def encode(self, plan: Plan, *, stream: bool) -> Outbound:
        return encode(plan, stream=stream, quirks=self._quirks)

    def decoder(self) -> ResponsesDecoder:
        return ResponsesDecoder(server_tools=self._quirks.server_tools)

    def decode(self, body: bytes) -> list[Delta]:
        return decode(body, server_tools=self._quirks.server_tools)
