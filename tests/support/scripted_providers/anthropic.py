"""A scripted Anthropic Messages API: signed and redacted thinking, all of it expected back."""

from __future__ import annotations

from collections.abc import Iterator

from antiphon.core.capabilities import Capabilities
from antiphon.dialects.anthropic.dialect import AnthropicDialect
from tests.support.request_validators import anthropic as anthropic_request_validator
from tests.support.scripted_providers.scripted_provider import (
    Body,
    calls_with_ids,
    parse_arguments,
    split_in_half,
    sse,
)
from tests.support.scripted_providers.session import Turn


class ScriptedAnthropic:
    name = "anthropic"
    content_type = "text/event-stream"
    history_key = "messages"

    def __init__(self) -> None:
        self.dialect = AnthropicDialect()
        self.capabilities = Capabilities(efforts={"high": "high"}, replay_reasoning="always")

    def stream_bytes(self, turn: Turn) -> bytes:
        usage = {"input_tokens": 9, "output_tokens": 1}
        message = {"type": "message", "id": "msg", "role": "assistant", "model": "m", "content": []}
        stop = {"stop_reason": "tool_use" if turn.calls else "end_turn", "stop_sequence": None}
        events: list[Body] = [{"type": "message_start", "message": {**message, "usage": usage}}]
        for index, (block, deltas) in enumerate(self._blocks(turn)):
            events.append({"type": "content_block_start", "index": index, "content_block": block})
            events += [
                {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
            ]
            events.append({"type": "content_block_stop", "index": index})
        ending = {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 5}}
        return sse(*events, ending, {"type": "message_stop"}, named=True)

    def _blocks(self, turn: Turn) -> Iterator[tuple[Body, list[Body]]]:
        if turn.thought:
            thinking = [
                {"type": "thinking_delta", "thinking": p} for p in split_in_half(turn.thought)
            ]
            signature = {"type": "signature_delta", "signature": self._signature(turn)}
            begun = {"type": "thinking", "thinking": "", "signature": ""}
            yield begun, [*thinking, signature]
        if turn.number == 1:
            yield {"type": "redacted_thinking", "data": "hidden+1=="}, []
        if turn.text:
            texts = [{"type": "text_delta", "text": piece} for piece in split_in_half(turn.text)]
            yield {"type": "text", "text": ""}, texts
        for call_id, call in calls_with_ids(turn, "toolu_"):
            opening = {"type": "tool_use", "id": call_id, "name": call.name, "input": {}}
            pieces = ["", *split_in_half(call.arguments)]
            yield opening, [{"type": "input_json_delta", "partial_json": p} for p in pieces]

    def _signature(self, turn: Turn) -> str:
        return f"anthropic/signed+{turn.number}=="

    def output_text(self, turn: Turn) -> str:
        return turn.text

    def states(self, turn: Turn) -> list[str]:
        hidden = ["hidden+1=="] if turn.number == 1 else []
        return [self._signature(turn), *hidden] if turn.thought else []

    def problems(self, body: bytes) -> list[str]:
        return anthropic_request_validator.problems(body)

    def system_items(self) -> list[Body]:
        return []  # the system prompt is another field

    def user_items(self, text: str) -> list[Body]:
        return [{"role": "user", "content": [{"type": "text", "text": text}]}]

    def assistant_items(self, turn: Turn) -> list[Body]:
        content: list[Body] = []
        if turn.thought:
            signature = self._signature(turn)
            content += [{"type": "thinking", "thinking": turn.thought, "signature": signature}]
        if turn.number == 1:
            content += [{"type": "redacted_thinking", "data": "hidden+1=="}]
        if turn.text:
            content += [{"type": "text", "text": turn.text}]
        content += [
            {"type": "tool_use", "id": call_id, "name": call.name, "input": parse_arguments(call)}
            for call_id, call in calls_with_ids(turn, "toolu_")
        ]
        return [{"role": "assistant", "content": content}]

    def result_items(self, turn: Turn) -> list[Body]:
        content = [
            {
                "type": "tool_result",
                "tool_use_id": call_id,
                "content": [{"type": "text", "text": call.result}],
            }
            for call_id, call in calls_with_ids(turn, "toolu_")
        ]
        return [{"role": "user", "content": content}]
