"""A second reader of recorded Anthropic answers: it puts the native blocks together."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from tests.support.reference_readers.answer import Block, Document, counted, joined, payloads


@dataclass
class Carried:
    """What a recording carries: its native blocks in order, and what stands around them."""

    blocks: list[Document] = field(default_factory=list)
    usage: Document = field(default_factory=dict)
    stop: str | None = None
    error: bool = False

    def of(self, *kinds: str) -> list[Document]:
        return [block for block in self.blocks if block["type"] in kinds]

    def citations(self) -> list[Document]:
        return [each for block in self.of("text") for each in block.get("citations") or []]

    @property
    def said(self) -> list[Block]:
        return joined(map(_said, self.of("text", "thinking", "tool_use")))

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
        asked, answered = self._count("input_tokens", *cache), self._count("output_tokens")
        inside = self.usage.get("output_tokens_details") or {}
        thought = inside.get("thinking_tokens") or 0
        cached = self._count(cache[0])
        return counted(asked, answered, cached_tokens=cached, reasoning_tokens=thought)

    def _count(self, *names: str) -> int:
        return sum(self.usage.get(name) or 0 for name in names)


def _said(block: Document) -> Block:
    if block["type"] == "tool_use":
        return Block("call", "", block["id"], block["name"], block["input"])
    is_text = block["type"] == "text"
    return Block("text", block["text"]) if is_text else Block("reasoning", block["thinking"])


def read(data: bytes) -> Carried:
    """What a stream or a whole body carries."""
    if data.lstrip()[:1] == b"{":
        body = json.loads(data)
        if body["type"] == "error":
            return Carried(error=True)
        return Carried(body["content"], body["usage"], body["stop_reason"])
    carried = Carried()
    for event in payloads(data):
        _add(carried, event)
    for block in carried.blocks:
        if "partial" in block:
            block["input"] = json.loads(block.pop("partial"))
    return carried


def _add(carried: Carried, event: Document) -> None:
    match event:
        case {"type": "message_start", "message": {"usage": usage}}:
            carried.usage = dict(usage)
        case {"type": "content_block_start", "index": index, "content_block": block}:
            assert index == len(carried.blocks)
            carried.blocks.append(block)
        case {"type": "content_block_delta", "index": index, "delta": delta}:
            _grow(carried.blocks[index], delta)
        case {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage}:
            carried.stop = stop
            carried.usage |= {name: value for name, value in usage.items() if value is not None}
        case {"type": "error"}:
            carried.error = True
        case {"type": "content_block_stop" | "message_stop" | "ping"}:
            pass
        case _:
            raise AssertionError(f"an event of an unknown type: {event}")


def _grow(block: Document, delta: Document) -> None:
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
