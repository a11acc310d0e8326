"""A scripted Responses API that stores nothing: encrypted reasoning is expected back."""

from __future__ import annotations

from collections.abc import Iterator

from antiphon.core.capabilities import Capabilities
from antiphon.dialects.responses.dialect import ResponsesDialect
from tests.support.request_validators import responses as responses_request_validator
from tests.support.scripted_providers.scripted_provider import (
    Body,
    calls_with_ids,
    split_in_half,
    sse,
)
from tests.support.scripted_providers.session import Turn


class ScriptedResponses:
    name = "responses"
    content_type = "text/event-stream"
    history_key = "input"

    def __init__(self) -> None:
        self.dialect = ResponsesDialect()
        self.capabilities = Capabilities(
            efforts={"high": "high"}, replay_reasoning="always", developer_role=True
        )

    def stream_bytes(self, turn: Turn) -> bytes:
        response = {"id": "resp_up", "object": "response", "model": "m", "output": []}
        usage = {"input_tokens": 9, "output_tokens": 5, "total_tokens": 14}
        ended = {**response, "status": "completed", "usage": usage}
        return sse(
            {"type": "response.created", "response": {**response, "status": "in_progress"}},
            *self._events(turn),
            {"type": "response.completed", "response": ended},
            named=True,
        )

    def _events(self, turn: Turn) -> Iterator[Body]:
        for place, (opening, kind, field, text, done) in enumerate(self._items(turn)):
            at = {"output_index": place}
            inside = {**at, "item_id": done["id"], field: 0} if field else at
            yield {"type": "response.output_item.added", **at, "item": opening}
            for piece in split_in_half(text):
                yield {"type": f"response.{kind}.delta", **inside, "delta": piece}
            yield {"type": "response.output_item.done", **at, "item": done}

    def _items(self, turn: Turn) -> Iterator[tuple[Body, str, str, str, Body]]:
        if turn.thought:
            done = self._reasoning(turn)
            opening = {**done, "summary": [], "encrypted_content": None}
            yield opening, "reasoning_summary_text", "summary_index", turn.thought, done
        if turn.text:
            item: Body = {"id": f"msg_{turn.number}", "type": "message", "role": "assistant"}
            part = {"type": "output_text", "text": turn.text, "annotations": []}
            yield (
                {**item, "content": []},
                "output_text",
                "content_index",
                turn.text,
                {**item, "content": [part], "status": "completed"},
            )
        for call_id, call in calls_with_ids(turn, "call_"):
            item = {"id": f"fc_{call_id}", "type": "function_call", "call_id": call_id}
            item["name"] = call.name
            done = {**item, "arguments": call.arguments, "status": "completed"}
            yield {**item, "arguments": ""}, "function_call_arguments", "", call.arguments, done

    def _reasoning(self, turn: Turn) -> Body:
        return {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": turn.thought}],
            "id": f"rs_{turn.number}",
            "encrypted_content": self._seal(turn),
        }

    def _seal(self, turn: Turn) -> str:
        return f"responses/sealed+{turn.number}=="

    def output_text(self, turn: Turn) -> str:
        return turn.text

    def states(self, turn: Turn) -> list[str]:
        return [self._seal(turn)] if turn.thought else []

    def problems(self, body: bytes) -> list[str]:
        return responses_request_validator.problems(body)

    def system_items(self) -> list[Body]:
        return []  # instructions are another field

    def user_items(self, text: str) -> list[Body]:
        part = {"type": "input_text", "text": text}
        return [{"type": "message", "role": "user", "content": [part]}]

    def assistant_items(self, turn: Turn) -> list[Body]:
        """Items without ids: a server that stores nothing does not know them."""
        items = [self._reasoning(turn)] if turn.thought else []
        if turn.text:
            items.append({"type": "message", "role": "assistant", "content": turn.text})
        items += [
            {
                "type": "function_call",
                "call_id": call_id,
                "name": call.name,
                "arguments": call.arguments,
            }
            for call_id, call in calls_with_ids(turn, "call_")
        ]
        return items

    def result_items(self, turn: Turn) -> list[Body]:
        return [
            {"type": "function_call_output", "call_id": call_id, "output": call.result}
            for call_id, call in calls_with_ids(turn, "call_")
        ]
