"""Amazon Bedrock Converse as a dialect."""

from __future__ import annotations

import msgspec

from antiphon.core.deltas import Delta
from antiphon.core.plan.plan import Outbound, Plan
from antiphon.dialects.bedrock.decode import BedrockDecoder, decode
from antiphon.dialects.bedrock.encode import encode
from antiphon.dialects.bedrock.quirks import PLAIN, BedrockQuirks
from antiphon.dialects.defaults import DialectDefaults
from antiphon.dialects.parameters import ParameterFields
from antiphon.dialects.token_count import read_count_field, select_fields
from antiphon.framing.eventstream import EventStreamDecoder
from antiphon.framing.limits import DEFAULT_LIMITS

_COUNTED = frozenset({"messages", "system", "toolConfig", "additionalModelRequestFields"})


class BedrockDialect(DialectDefaults):
    """Converse: Amazon's binary event stream, a response of content blocks."""

    parameter_fields = ParameterFields(
        essential=frozenset({"messages", "system", "toolConfig"}), groups=("inferenceConfig",)
    )

    def __init__(self, quirks: BedrockQuirks = PLAIN) -> None:
        self._quirks = quirks

    def encode(self, plan: Plan, *, stream: bool) -> Outbound:
        return encode(plan, stream=stream, quirks=self._quirks)

    def framer(self, max_bytes: int = DEFAULT_LIMITS.frame_bytes) -> EventStreamDecoder:
        return EventStreamDecoder(max_bytes)

    def count_request(self, plan: Plan) -> Outbound | None:
        outbound = self.encode(plan, stream=False)
        path = outbound.path.removesuffix("converse") + "count-tokens"
        counted = {"input": {"converse": select_fields(outbound, _COUNTED)}}
        return msgspec.structs.replace(outbound, path=path, body=msgspec.json.encode(counted))

    def read_count(self, body: bytes) -> int | None:
        return read_count_field(body, "inputTokens")

    def decoder(self) -> BedrockDecoder:
        return BedrockDecoder()

    def decode(self, body: bytes) -> list[Delta]:
        return decode(body)
