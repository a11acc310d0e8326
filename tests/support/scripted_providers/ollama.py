"""A scripted Ollama API: lines of JSON, arguments as objects, plain reasoning."""

from __future__ import annotations

import msgspec

from antiphon.core.capabilities import Capabilities
from antiphon.dialects.ollama.dialect import OllamaDialect
from tests.support.request_validators import ollama as ollama_request_validator
from tests.support.scripted_providers.scripted_provider import (
    Body,
    calls_with_ids,
    parse_arguments,
    split_in_half,
)
from tests.support.scripted_providers.session import INSTRUCTIONS, Turn


class ScriptedOllama:
    name = "ollama"
    content_type = "application/x-ndjson"
    history_key = "messages"

    def __init__(self) -> None:
        self.dialect = OllamaDialect()
        self.capabilities = Capabilities(efforts={"high": "high"}, replay_reasoning="tool_turns")

    def stream_bytes(self, turn: Turn) -> bytes:
        messages: list[Body] = [{"content": "", "thinking": p} for p in split_in_half(turn.thought)]
        messages += [{"content": piece} for piece in split_in_half(turn.text)]
        messages += [{"content": "", "tool_calls": [call]} for call in self._calls(turn)]
        lines: list[Body] = [
            {"model": "m", "message": {"role": "assistant", **each}, "done": False}
            for each in messages
        ]
        counts = {"prompt_eval_count": 9, "eval_count": 5}
        last = {"model": "m", "message": {"role": "assistant", "content": ""}, "done": True}
        lines.append({**last, "done_reason": "stop", **counts})
        return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)

    def _calls(self, turn: Turn) -> list[Body]:
        return [
            {"id": call_id, "function": {"name": call.name, "arguments": parse_arguments(call)}}
            for call_id, call in calls_with_ids(turn, "call_")
        ]

    def output_text(self, turn: Turn) -> str:
        return turn.text

    def states(self, turn: Turn) -> list[str]:
        return [turn.thought] if turn.calls else []

    def problems(self, body: bytes) -> list[str]:
        return ollama_request_validator.problems(body)

    def system_items(self) -> list[Body]:
        return [{"role": "system", "content": INSTRUCTIONS}]

    def user_items(self, text: str) -> list[Body]:
        return [{"role": "user", "content": text}]

    def assistant_items(self, turn: Turn) -> list[Body]:
        message: Body = {"role": "assistant", "content": turn.text}
        if turn.calls:
            message |= {"thinking": turn.thought, "tool_calls": self._calls(turn)}
        return [message]

    def result_items(self, turn: Turn) -> list[Body]:
        return [
            {
                "role": "tool",
                "content": call.result,
                "tool_name": call.name,
                "tool_call_id": call_id,
            }
            for call_id, call in calls_with_ids(turn, "call_")
        ]
