"""A scripted Bedrock Converse API with a Claude model: binary stream, signed thinking."""

from __future__ import annotations

from collections.abc import Iterator

from antiphon.core.capabilities import Capabilities
from antiphon.dialects.bedrock.dialect import BedrockDialect
from tests.support.dialect_samples import aws_event_stream as eventstreams
from tests.support.request_validators import bedrock as bedrock_request_validator
from tests.support.scripted_providers.scripted_provider import (
    Body,
    calls_with_ids,
    parse_arguments,
    split_in_half,
)
from tests.support.scripted_providers.session import Turn


class ScriptedBedrock:
    name = "bedrock"
    content_type = "application/vnd.amazon.eventstream"
    history_key = "messages"

    def __init__(self) -> None:
        self.dialect = BedrockDialect()
        self.capabilities = Capabilities(efforts={"high": "high"}, replay_reasoning="always")

    def stream_bytes(self, turn: Turn) -> bytes:
        usage = {"usage": {"inputTokens": 9, "outputTokens": 5, "totalTokens": 14}}
        reason = "tool_use" if turn.calls else "end_turn"
        events: list[tuple[str, Body]] = [("messageStart", {"role": "assistant"})]
        for index, (start, deltas) in enumerate(self._blocks(turn)):
            at = {"contentBlockIndex": index}
            events += [("contentBlockStart", {**at, "start": start})] if start else []
            events += [("contentBlockDelta", {**at, "delta": delta}) for delta in deltas]
            events.append(("contentBlockStop", at))
        events += [("messageStop", {"stopReason": reason}), ("metadata", usage)]
        return eventstreams.stream(events)

    def _blocks(self, turn: Turn) -> Iterator[tuple[Body | None, list[Body]]]:
        if turn.thought:
            deltas = [{"text": piece} for piece in split_in_half(turn.thought)]
            deltas.append({"signature": self._signature(turn)})
            yield None, [{"reasoningContent": delta} for delta in deltas]
        if turn.number == 1:
            yield None, [{"reasoningContent": {"redactedContent": "aGlkZGVuMQ=="}}]
        if turn.text:
            yield None, [{"text": piece} for piece in split_in_half(turn.text)]
        for call_id, call in calls_with_ids(turn, "tooluse_"):
            start = {"toolUse": {"toolUseId": call_id, "name": call.name}}
            yield start, [{"toolUse": {"input": piece}} for piece in split_in_half(call.arguments)]

    def _signature(self, turn: Turn) -> str:
        return f"bedrock/signed+{turn.number}=="

    def output_text(self, turn: Turn) -> str:
        return turn.text

    def states(self, turn: Turn) -> list[str]:
        hidden = ["aGlkZGVuMQ=="] if turn.number == 1 else []
        return [self._signature(turn), *hidden] if turn.thought else []

    def problems(self, body: bytes) -> list[str]:
        return bedrock_request_validator.problems(body)

    def system_items(self) -> list[Body]:
        return []  # the system prompt is another field

    def user_items(self, text: str) -> list[Body]:
        return [{"role": "user", "content": [{"text": text}]}]

    def assistant_items(self, turn: Turn) -> list[Body]:
        content: list[Body] = []
        if turn.thought:
            thought = {"text": turn.thought, "signature": self._signature(turn)}
            content += [{"reasoningContent": {"reasoningText": thought}}]
        if turn.number == 1:
            content += [{"reasoningContent": {"redactedContent": "aGlkZGVuMQ=="}}]
        content += [{"text": turn.text}] if turn.text else []
        content += [
            {"toolUse": {"toolUseId": call_id, "name": call.name, "input": parse_arguments(call)}}
            for call_id, call in calls_with_ids(turn, "tooluse_")
        ]
        return [{"role": "assistant", "content": content}]

    def result_items(self, turn: Turn) -> list[Body]:
        content = [
            {"toolResult": {"toolUseId": call_id, "content": [{"text": call.result}]}}
            for call_id, call in calls_with_ids(turn, "tooluse_")
        ]
        return [{"role": "user", "content": content}]
