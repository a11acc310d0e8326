"""Reference reader of Cohere recordings: assembles the message block by block."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from tests.support.reference_readers.recorded_response import (
    Block,
    Document,
    count_tokens,
    merge_adjacent,
    sse_payloads,
)


@dataclass
class RecordedResponse:
    """The message of a recording, as a client assembles it."""

    blocks: dict[int, Document] = field(default_factory=dict)
    plan: str = ""
    calls: dict[int, Document] = field(default_factory=dict)
    citations: int = 0
    finish: str | None = None
    usage: Document = field(default_factory=dict)

    def text(self, kind: str) -> str:
        return "".join(block.get(kind, "") for block in self.blocks.values())

    @property
    def output(self) -> list[Block]:
        kinds = {"text": "text", "thinking": "reasoning"}
        blocks = [Block(kinds[b["type"]], b[b["type"]]) for b in self.blocks.values()]
        functions = [(call["id"], call["function"]) for call in self.calls.values()]
        calls = [Block("call", f["arguments"], call_id, f["name"]) for call_id, f in functions]
        return merge_adjacent([*blocks, Block("reasoning", self.plan), *calls])

    @property
    def status(self) -> str:
        if self.finish is None:
            return "failed"
        return "incomplete" if self.finish == "MAX_TOKENS" else "completed"

    @property
    def counts(self) -> dict[str, int]:
        tokens = self.usage.get("tokens", {})
        return count_tokens(
            tokens.get("input_tokens", 0),
            tokens.get("output_tokens", 0),
            cached_tokens=self.usage.get("cached_tokens", 0),
            reasoning_tokens=tokens.get("reasoning_tokens", 0),
        )


def read(data: bytes) -> RecordedResponse:
    """Read a stream or a whole body."""
    if data.lstrip()[:1] == b"{":
        return _read_whole(json.loads(data))
    found = RecordedResponse()
    for event in sse_payloads(data):
        _apply_event(found, event)
    return found


def _read_whole(document: Document) -> RecordedResponse:
    message = document["message"]
    if "finish_reason" not in document:
        return RecordedResponse()
    return RecordedResponse(
        dict(enumerate(message.get("content") or [])),
        message.get("tool_plan") or "",
        dict(enumerate(message.get("tool_calls") or [])),
        len(message.get("citations") or []),
        document["finish_reason"],
        document["usage"],
    )


def _apply_event(found: RecordedResponse, event: Document) -> None:
    delta = event.get("delta") or {}
    message = delta.get("message") or {}
    match event["type"]:
        case "content-start":
            found.blocks[event["index"]] = message["content"]
        case "content-delta":
            for kind, piece in message["content"].items():
                found.blocks[event["index"]][kind] += piece
        case "tool-plan-delta":
            found.plan += message["tool_plan"]
        case "tool-call-start":
            found.calls[event["index"]] = message["tool_calls"]
        case "tool-call-delta":
            piece = message["tool_calls"]["function"]["arguments"]
            found.calls[event["index"]]["function"]["arguments"] += piece
        case "citation-start":
            found.citations += 1
        case "message-end":
            found.finish, found.usage = delta["finish_reason"], delta["usage"]
