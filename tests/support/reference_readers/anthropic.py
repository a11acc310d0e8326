"""Reference reader of Anthropic recordings: assembles the native blocks."""

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
    """The native blocks of a recording in order, its usage and stop reason."""

    blocks: list[Document] = field(default_factory=list)
    usage: Document = field(default_factory=dict)
    stop: str | None = None
    error: bool = False

    def of(self, *kinds: str) -> list[Document]:
        return [block for block in self.blocks if block["type"] in kinds]

    def citations(self) -> list[Document]:
        return [each for block in self.of("text") for each in block.get("citations") or []]

    @property
    def output(self) -> list[Block]:
        return merge_adjacent(map(_output_block, self.of("text", "thinking", "tool_use")))

    @property
    def status(self) -> str:
        if self.error:
            return "failed"
        if self.stop in ("max_tokens", "pause_turn"):
            return "incomplete"
        assert self.stop in ("end_turn", "tool_use")
        return "completed"

    @property
    def counts(self) -> dict[str, int]:
        cache = ("cache_read_input_tokens", "cache_creation_input_tokens")
        input_tokens, output_tokens = (
            self._count("input_tokens", *cache),
            self._count("output_tokens"),
        )
        inside = self.usage.get("output_tokens_details") or {}
        reasoning = inside.get("thinking_tokens") or 0
        cached = self._count(cache[0])
        return count_tokens(
            input_tokens, output_tokens, cached_tokens=cached, reasoning_tokens=reasoning
        )

    def _count(self, *names: str) -> int:
        return sum(self.usage.get(name) or 0 for name in names)


def _output_block(block: Document) -> Block:
    if block["type"] == "tool_use":
        return Block("call", "", block["id"], block["name"], block["input"])
    is_text = block["type"] == "text"
    return Block("text", block["text"]) if is_text else Block("reasoning", block["thinking"])


def read(data: bytes) -> RecordedResponse:
    """Read a stream or a whole body."""
    if data.lstrip()[:1] == b"{":
        body = json.loads(data)
        if body["type"] == "error":
            return RecordedResponse(error=True)
        return RecordedResponse(body["content"], body["usage"], body["stop_reason"])
    recorded = RecordedResponse()
    for event in sse_payloads(data):
        _add_event(recorded, event)
    for block in recorded.blocks:
        if "partial" in block:
            block["input"] = json.loads(block.pop("partial"))
    return recorded


def _add_event(recorded: RecordedResponse, event: Document) -> None:
    match event:
        case {"type": "message_start", "message": {"usage": usage}}:
            recorded.usage = dict(usage)
        case {"type": "content_block_start", "index": index, "content_block": block}:
            assert index == len(recorded.blocks)
            recorded.blocks.append(block)
        case {"type": "content_block_delta", "index": index, "delta": delta}:
            _apply_delta(recorded.blocks[index], delta)
        case {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage}:
            recorded.stop = stop
            recorded.usage |= {name: value for name, value in usage.items() if value is not None}
        case {"type": "error"}:
            recorded.error = True
        case {"type": "content_block_stop" | "message_stop" | "ping"}:
            pass
        case _:
            raise AssertionError(f"an event of an unknown type: {event}")


def _apply_delta(block: Document, delta: Document) -> None:
    match delta:
        case {"type": "text_delta", "text": text}:
            block["text"] += text
        case {"type": "thinking_delta", "thinking": text}:
            block["thinking"] += text
        case {"type": "signature_delta", "signature": signature}:
            block["signature"] = signature
        case {"type": "citations_delta", "citation": citation}:
            block["citations"].append(citation)
        case {"type": "compaction_delta", "content": content}:
            block["content"] = content
        case {"type": "input_json_delta", "partial_json": ""}:
            pass
        case {"type": "input_json_delta", "partial_json": fragment}:
            block["partial"] = block.get("partial", "") + fragment
        case _:
            raise AssertionError(f"a delta of an unknown type: {delta}")
