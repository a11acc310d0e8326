"""Chat Completions as a dialect."""

from __future__ import annotations

from antiphon.core.deltas import Delta
from antiphon.core.plan.plan import Outbound, Plan
from antiphon.core.stream.source import StreamDecoder
from antiphon.dialects.chat.decode import ChatDecoder, decode
from antiphon.dialects.chat.encode import encode
from antiphon.dialects.chat.quirks import PLAIN, ChatQuirks
from antiphon.dialects.defaults import DialectDefaults
from antiphon.dialects.parameters import ParameterFields


class ChatDialect(DialectDefaults):
    """Chat Completions: SSE frames with `choices[].delta`."""

    parameter_fields = ParameterFields(
        essential=frozenset("model messages stream tools tool_choice response_format".split()),
        groups=("stream_options", "reasoning"),
        renamed={"max_tokens": "max_completion_tokens"},
    )

    def __init__(self, quirks: ChatQuirks = PLAIN, *, implied_finish: str | None = None) -> None:
        """`implied_finish`: the finish reason of providers that send `[DONE]` without one."""
        self._quirks = quirks
        self._implied_finish = implied_finish

    def encode(self, plan: Plan, *, stream: bool) -> Outbound:
        return encode(plan, stream=stream, quirks=self._quirks)

    def decoder(self) -> StreamDecoder:
        return ChatDecoder(implied_finish=self._implied_finish)

    def decode(self, body: bytes) -> list[Delta]:
        return decode(body)
