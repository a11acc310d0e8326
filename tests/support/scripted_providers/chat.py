"""A scripted Chat Completions API: the plain one, and variants that expect reasoning back.

Some expect `reasoning_content`, some `reasoning_details` with signatures and encrypted blocks; and
some restart the numbers in their call ids in every turn.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from antiphon.core.capabilities import Capabilities, ReplayReasoning
from antiphon.dialects.chat.dialect import ChatDialect
from antiphon.dialects.chat.quirks import ChatQuirks
from tests.support.request_validators import chat as chat_request_validator
from tests.support.scripted_providers.scripted_provider import (
    Body,
    calls_with_ids,
    split_in_half,
    sse,
)
from tests.support.scripted_providers.session import INSTRUCTIONS, Call, Turn
from tests.support.upstream import DONE


class ScriptedChat:
    content_type = "text/event-stream"
    history_key = "messages"

    def __init__(
        self,
        name: str = "chat",
        replay: ReplayReasoning = "never",
        *,
        silence: str | None = None,
        details: bool = False,
        counting: bool = False,
    ) -> None:
        """`silence` is the `content` of a turn without text."""
        quirks = ChatQuirks(
            content_beside_calls=True,
            reasoning_required=replay != "never",
            replay_details=details,
        )
        self.name = name
        self.dialect = ChatDialect(quirks)
        self.capabilities = Capabilities(efforts={"high": "high"}, replay_reasoning=replay)
        self._replay = replay
        self._silence = silence
        self._has_details = details
        self._counting = counting

    def stream_bytes(self, turn: Turn) -> bytes:
        finish = "tool_calls" if turn.calls else "stop"
        deltas = [{"role": "assistant", "content": None}, *self._deltas(turn)]
        chunks = [self._chunk(delta) for delta in deltas]
        usage = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}
        last = {"id": "c", "model": "m", "choices": [], "usage": usage}
        return sse(*chunks, self._chunk({}, finish), last) + DONE

    def _chunk(self, delta: Body, finish: str | None = None) -> Body:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {"id": "c", "model": "m", "choices": [choice]}

    def _deltas(self, turn: Turn) -> Iterator[Body]:
        if self._has_details:
            yield from self._detail_deltas(turn)
        else:
            yield from ({"reasoning_content": piece} for piece in split_in_half(turn.thought))
        for piece in split_in_half(turn.text):
            yield {"content": piece}
        for index, (call_id, call) in enumerate(self._calls(turn)):
            function = {"name": call.name, "arguments": ""}
            yield {"tool_calls": [{"index": index, "id": call_id, "function": function}]}
            for piece in split_in_half(call.arguments):
                yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}

    def _calls(self, turn: Turn) -> list[tuple[str, Call]]:
        return calls_with_ids(replace(turn, number=0) if self._counting else turn, "call_")

    def _detail_deltas(self, turn: Turn) -> Iterator[Body]:
        if turn.thought:
            text, sealed = self._details(turn)
            pieces = [
                {**text, "text": piece, "signature": None} for piece in split_in_half(turn.thought)
            ]
            for each in (*pieces, {**text, "text": ""}, sealed):
                yield {"reasoning": each.get("text"), "reasoning_details": [each]}

    def _details(self, turn: Turn) -> list[Body]:
        signature, data = self.states(turn)
        return [
            {"type": "reasoning.text", "text": turn.thought, "signature": signature, "index": 0},
            {"type": "reasoning.encrypted", "data": data, "index": 1},
        ]

    def output_text(self, turn: Turn) -> str:
        return turn.text

    def states(self, turn: Turn) -> list[str]:
        if self._has_details:
            number = turn.number if turn.thought else 0
            return [f"router/signed+{number}==", f"router/sealed+{number}=="] if number else []
        kept = self._replay == "always" or (self._replay == "tool_turns" and turn.calls)
        return [turn.thought] if kept and turn.thought else []

    def problems(self, body: bytes) -> list[str]:
        if self._has_details:
            document = json.loads(body)
            for message in document["messages"]:
                message.pop("reasoning_details", None)
            body = json.dumps(document).encode()
        return chat_request_validator.problems(body)

    def system_items(self) -> list[Body]:
        return [{"role": "system", "content": INSTRUCTIONS}]

    def user_items(self, text: str) -> list[Body]:
        return [{"role": "user", "content": text}]

    def assistant_items(self, turn: Turn) -> list[Body]:
        message: Body = {"role": "assistant", "content": turn.text or self._silence}
        if self._has_details and turn.thought:
            message["reasoning_details"] = self._details(turn)
        elif self.states(turn):
            message["reasoning_content"] = turn.thought
        calls = [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call_id, call in self._calls(turn)
        ]
        return [{**message, "tool_calls": calls} if calls else message]

    def result_items(self, turn: Turn) -> list[Body]:
        return [
            {"role": "tool", "tool_call_id": call_id, "content": call.result}
            for call_id, call in self._calls(turn)
        ]
