"""A scripted Gemini API: each signature is expected back on the part that it came with.

Of parallel calls, only the first is signed; of text, the last part. Gemini 3 requires the
signatures of calls; older models sign nothing, and their calls have no ids.
"""

from __future__ import annotations

import base64

from antiphon.core.capabilities import Capabilities
from antiphon.dialects.gemini.dialect import GeminiDialect
from antiphon.dialects.gemini.quirks import GeminiQuirks
from tests.support.request_validators import gemini as gemini_request_validator
from tests.support.scripted_providers.scripted_provider import (
    Body,
    calls_with_ids,
    parse_arguments,
    split_in_half,
    sse,
)
from tests.support.scripted_providers.session import Call, Turn


class ScriptedGemini:
    content_type = "text/event-stream"
    history_key = "contents"

    def __init__(self, name: str = "gemini", *, signed: bool = True) -> None:
        self.name = name
        self._signed = signed
        self.dialect = GeminiDialect(quirks=GeminiQuirks(effort="level", sentinel=signed))
        self.capabilities = Capabilities(efforts={"high": "high"}, replay_reasoning="always")

    def stream_bytes(self, turn: Turn) -> bytes:
        parts: list[Body] = [{"text": p, "thought": True} for p in split_in_half(turn.thought)]
        *earlier, last = split_in_half(turn.text) or [""]
        parts += [{"text": piece} for piece in earlier]
        parts += [{"text": last}] if turn.calls and last else []
        parts += self._calls(turn)
        if not turn.calls:
            parts += [{"text": last, **self._signature(turn)}]
        chunks = [self._chunk([part]) for part in parts]
        counts = {"promptTokenCount": 9, "candidatesTokenCount": 5, "totalTokenCount": 14}
        ending = {"candidates": [{"index": 0, "finishReason": "STOP"}], "usageMetadata": counts}
        return sse(*chunks, ending)

    def _chunk(self, parts: list[Body]) -> Body:
        content = {"role": "model", "parts": parts}
        return {"candidates": [{"index": 0, "content": content}], "modelVersion": "m"}

    def _calls(self, turn: Turn) -> list[Body]:
        parts = [self._call(call_id, call) for call_id, call in calls_with_ids(turn, "fn-")]
        if parts:
            parts[0] |= self._signature(turn)
        return parts

    def _call(self, call_id: str, call: Call) -> Body:
        arguments = parse_arguments(call)
        return {"functionCall": {"name": call.name, **self._id(call_id), "args": arguments}}

    def _id(self, call_id: str) -> Body:
        return {"id": call_id} if self._signed else {}

    def _signature(self, turn: Turn) -> Body:
        return {"thoughtSignature": self.states(turn)[0]} if self._signed else {}

    def output_text(self, turn: Turn) -> str:
        return turn.text

    def states(self, turn: Turn) -> list[str]:
        signature = base64.b64encode(b"signed by gemini %d" % turn.number).decode()
        return [signature] if self._signed else []

    def problems(self, body: bytes) -> list[str]:
        newer = self._signed  # such a model also writes JSON beside tools
        return gemini_request_validator.problems(body, signed=newer, json_beside_tools=newer)

    def system_items(self) -> list[Body]:
        return []  # instructions are another field

    def user_items(self, text: str) -> list[Body]:
        return [{"role": "user", "parts": [{"text": text}]}]

    def assistant_items(self, turn: Turn) -> list[Body]:
        """Summaries of reasoning are not sent back; unsigned pieces of text are one part."""
        if turn.calls:
            text: list[Body] = [{"text": turn.text}] if turn.text else []
            return [{"role": "model", "parts": [*text, *self._calls(turn)]}]
        *earlier, last = split_in_half(turn.text) if self._signed else [turn.text]
        parts: list[Body] = [{"text": piece} for piece in earlier]
        return [{"role": "model", "parts": [*parts, {"text": last, **self._signature(turn)}]}]

    def result_items(self, turn: Turn) -> list[Body]:
        parts = [
            {
                "functionResponse": {
                    "name": call.name,
                    **self._id(call_id),
                    "response": {"output": call.result},
                }
            }
            for call_id, call in calls_with_ids(turn, "fn-")
        ]
        return [{"role": "user", "parts": parts}]
