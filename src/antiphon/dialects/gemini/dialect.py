"""The Gemini dialect: `generateContent` and `streamGenerateContent`."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from antiphon.core.deltas import Delta
from antiphon.core.plan.plan import Outbound, Plan
from antiphon.dialects.defaults import DialectDefaults
from antiphon.dialects.gemini.decode import GeminiDecoder, decode
from antiphon.dialects.gemini.encode import encode
from antiphon.dialects.gemini.quirks import PLAIN, GeminiQuirks
from antiphon.dialects.parameters import ParameterFields
from antiphon.dialects.token_count import read_count_field, select_fields

_COUNTED = frozenset({"systemInstruction", "tools", "toolConfig", "generationConfig", "contents"})
_COUNTED_BY_VERTEX = _COUNTED - {"toolConfig"}


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

    def count_request(self, plan: Plan) -> Outbound | None:
        outbound = self.encode(plan, stream=False)
        path = outbound.path.removesuffix("generateContent") + "countTokens"
        if self._quirks.counts_wrapped_request:
            model = outbound.path.removeprefix("/").removesuffix(":generateContent")
            fields = {"model": Raw(msgspec.json.encode(model)), **select_fields(outbound, _COUNTED)}
            body = msgspec.json.encode({"generateContentRequest": fields})
        else:
            body = msgspec.json.encode(select_fields(outbound, _COUNTED_BY_VERTEX))
        return msgspec.structs.replace(outbound, path=path, body=body)

    def read_count(self, body: bytes) -> int | None:
        return read_count_field(body, "totalTokens")

    def decoder(self) -> GeminiDecoder:
        return GeminiDecoder()

    def decode(self, body: bytes) -> list[Delta]:
        return decode(body)
