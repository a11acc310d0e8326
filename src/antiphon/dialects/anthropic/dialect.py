"""Anthropic Messages as a dialect."""

from __future__ import annotations

import msgspec

from antiphon.core.deltas import Delta
from antiphon.core.plan.plan import Outbound, Plan
from antiphon.dialects.anthropic.decode import AnthropicDecoder, decode
from antiphon.dialects.anthropic.encode import encode
from antiphon.dialects.anthropic.parse_mcp import FORMAT
from antiphon.dialects.anthropic.quirks import PATH, PLAIN, AnthropicQuirks
from antiphon.dialects.defaults import DialectDefaults
from antiphon.dialects.parameters import ParameterFields
from antiphon.dialects.token_count import read_count_field, select_fields

_COUNTED = frozenset(
    "model messages system tools tool_choice mcp_servers thinking output_config".split()
)


class AnthropicDialect(DialectDefaults):
    """Anthropic Messages: SSE frames with a `type`, a response of content blocks."""

    parameter_fields = ParameterFields(
        essential=frozenset("model messages system stream tools tool_choice mcp_servers".split())
    )

    def __init__(self, quirks: AnthropicQuirks = PLAIN, *, keeps_blocks: bool = False) -> None:
        """`keeps_blocks`: it reads for a client of the same format."""
        self._quirks = quirks
        self._keeps_blocks = keeps_blocks

    def for_client(self, client_format: str) -> AnthropicDialect:
        return AnthropicDialect(self._quirks, keeps_blocks=client_format == FORMAT)

    def encode(self, plan: Plan, *, stream: bool) -> Outbound:
        return encode(plan, stream=stream, quirks=self._quirks)

    def count_request(self, plan: Plan) -> Outbound | None:
        if self._quirks.of(plan.model).path != PATH:
            return None
        outbound = self.encode(plan, stream=False)
        body = msgspec.json.encode(select_fields(outbound, _COUNTED))
        return msgspec.structs.replace(outbound, path=f"{PATH}/count_tokens", body=body)

    def read_count(self, body: bytes) -> int | None:
        return read_count_field(body, "input_tokens")

    def decoder(self) -> AnthropicDecoder:
        return AnthropicDecoder(keeps_blocks=self._keeps_blocks)

    def decode(self, body: bytes) -> list[Delta]:
        return decode(body, keeps_blocks=self._keeps_blocks)
