"""Chat Completions: as the plainest server speaks it, and as one that wants its thoughts back."""

from __future__ import annotations

from collections.abc import Iterator

from antiphon.core.plan import Capabilities, ReplayReasoning
from antiphon.dialects.chat_request import ChatQuirks
from antiphon.dialects.dialect import ChatDialect
from tests import chat_request_validator
from tests.speakers.session import INSTRUCTIONS, Turn
from tests.speakers.speaker import Body, halves, numbered, sse
from tests.upstream import DONE


class ChatSpeaker:
    content_type = "text/event-stream"
    history_key = "messages"

    def __init__(self, name: str = "chat", replay: ReplayReasoning = "never") -> None:
        self.name = name
        self.dialect = ChatDialect(ChatQuirks(reasoning_required=replay != "never"))
        self.capabilities = Capabilities(efforts={"high": "high"}, replay_reasoning=replay)
        self._replay = replay

    def streamed(self, turn: Turn) -> bytes:
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
        for piece in halves(turn.thought):
            yield {"reasoning_content": piece}
        for piece in halves(turn.text):
            yield {"content": piece}
        for index, (call_id, call) in enumerate(numbered(turn, "call_")):
            function = {"name": call.name, "arguments": ""}
            yield {"tool_calls": [{"index": index, "id": call_id, "function": function}]}
            for piece in halves(call.arguments):
                yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}

    def words(self, turn: Turn) -> str:
        return turn.text

    def states(self, turn: Turn) -> list[str]:
        kept = self._replay == "always" or (self._replay == "tool_turns" and turn.calls)
        return [turn.thought] if kept and turn.thought else []

    def problems(self, body: bytes) -> list[str]:
        return chat_request_validator.problems(body)

    def leading(self) -> list[Body]:
        return [{"role": "system", "content": INSTRUCTIONS}]

    def asked(self, text: str) -> list[Body]:
        return [{"role": "user", "content": text}]

    def answered(self, turn: Turn) -> list[Body]:
        message: Body = {"role": "assistant", "content": turn.text or None}
        if self.states(turn):
            message["reasoning_content"] = turn.thought
        calls = [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call_id, call in numbered(turn, "call_")
        ]
        return [{**message, "tool_calls": calls} if calls else message]

    def results(self, turn: Turn) -> list[Body]:
        return [
            {"role": "tool", "tool_call_id": call_id, "content": call.result}
            for call_id, call in numbered(turn, "call_")
        ]
