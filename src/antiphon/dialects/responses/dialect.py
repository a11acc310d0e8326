"""The Responses dialect: a provider that offers the OpenAI Responses API itself."""

from __future__ import annotations

import msgspec

from antiphon.core.deltas import Delta
from antiphon.core.plan.plan import Outbound, Plan
from antiphon.dialects.defaults import DialectDefaults
from antiphon.dialects.parameters import ParameterFields
from antiphon.dialects.responses.decode import ResponsesDecoder, decode
from antiphon.dialects.responses.encode import PATH, encode
from antiphon.dialects.responses.quirks import PLAIN, ResponsesQuirks
from antiphon.dialects.token_count import read_count_field, select_fields

_COUNTED = frozenset(
    """
    model input instructions tools tool_choice text reasoning truncation parallel_tool_calls
    """.split()
)


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

    def count_request(self, plan: Plan) -> Outbound | None:
        outbound = self.encode(plan, stream=False)
        body = msgspec.json.encode(select_fields(outbound, _COUNTED))
        return msgspec.structs.replace(outbound, path=f"{PATH}/input_tokens", body=body)

    def read_count(self, body: bytes) -> int | None:
        return read_count_field(body, "input_tokens")

    def decoder(self) -> ResponsesDecoder:
        return ResponsesDecoder(server_tools=self._quirks.server_tools)

    def decode(self, body: bytes) -> list[Delta]:
        return decode(body, server_tools=self._quirks.server_tools)
