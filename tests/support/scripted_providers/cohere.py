"""A scripted Cohere chat API (v2): thinking blocks, and no text beside calls."""

from __future__ import annotations

from collections.abc import Iterator

from antiphon.core.capabilities import Capabilities, ReplayReasoning
from antiphon.dialects.cohere.dialect import CohereDialect
from tests.support.request_validators import cohere as cohere_request_validator
from tests.support.scripted_providers.scripted_provider import (
    Body,
    calls_with_ids,
    split_in_half,
    sse,
)
from tests.support.scripted_providers.session import INSTRUCTIONS, Turn


class ScriptedCohere:
    name = "cohere"
    content_type = "text/event-stream"
    history_key = "messages"

    def __init__(self, replay: ReplayReasoning = "always") -> None:
        self.dialect = CohereDialect()
        self.capabilities = Capabilities(efforts={"high": "high"}, replay_reasoning=replay)
        self._replay = replay

    def stream_bytes(self, turn: Turn) -> bytes:
        tokens = {"tokens": {"input_tokens": 9, "output_tokens": 5}}
        reason = "TOOL_CALL" if turn.calls else "COMPLETE"
        return sse(
            {"type": "message-start", "id": "c", "delta": {"message": {"role": "assistant"}}},
            *self._content(0, "thinking", turn.thought),
            *self._content(1, "text", self.output_text(turn)),
            *self._calls(turn),
            {"type": "message-end", "delta": {"finish_reason": reason, "usage": tokens}},
            named=True,
        )

    def _content(self, index: int, kind: str, text: str) -> Iterator[Body]:
        def event(verb: str, content: Body) -> Body:
            delta = {"message": {"content": content}}
            return {"type": f"content-{verb}", "index": index, "delta": delta}

        if text:
            yield event("start", {"type": kind, kind: ""})
            yield from (event("delta", {kind: piece}) for piece in split_in_half(text))
            yield {"type": "content-end", "index": index}

    def _calls(self, turn: Turn) -> Iterator[Body]:
        def event(verb: str, index: int, call: Body) -> Body:
            delta = {"message": {"tool_calls": call}}
            return {"type": f"tool-call-{verb}", "index": index, "delta": delta}

        for index, (call_id, call) in enumerate(calls_with_ids(turn, "note_call_")):
            opening = {"name": call.name, "arguments": ""}
            yield event("start", index, {"id": call_id, "type": "function", "function": opening})
            for piece in split_in_half(call.arguments):
                yield event("delta", index, {"function": {"arguments": piece}})
            yield {"type": "tool-call-end", "index": index}

    def output_text(self, turn: Turn) -> str:
        return "" if turn.calls else turn.text

    def states(self, turn: Turn) -> list[str]:
        kept = turn.calls or self._replay == "always"
        return [turn.thought] if kept and turn.thought else []

    def problems(self, body: bytes) -> list[str]:
        return cohere_request_validator.problems(body)

    def system_items(self) -> list[Body]:
        return [{"role": "system", "content": INSTRUCTIONS}]

    def user_items(self, text: str) -> list[Body]:
        return [{"role": "user", "content": text}]

    def assistant_items(self, turn: Turn) -> list[Body]:
        thinking: list[Body] = [{"type": "thinking", "thinking": turn.thought}]
        if not turn.calls:
            text: list[Body] = [{"type": "text", "text": turn.text}]
            content = [*thinking, *text] if self.states(turn) else turn.text
            return [{"role": "assistant", "content": content}]
        calls = [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call_id, call in calls_with_ids(turn, "note_call_")
        ]
        return [{"role": "assistant", "content": thinking, "tool_calls": calls}]

    def result_items(self, turn: Turn) -> list[Body]:
        return [
            {"role": "tool", "tool_call_id": call_id, "content": call.result}
            for call_id, call in calls_with_ids(turn, "note_call_")
        ]
