"""A second reader of recorded Bedrock answers: it puts the native blocks together.

Blocks of invoked models are brought into the shape that Converse gives to its own.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import unpack_from

from tests.support.reference_readers.answer import Block, Document, counted, joined

METRICS = "amazon-bedrock-invocationMetrics"


@dataclass
class Carried:
    """What a recording carries: its native blocks in order, and what stands around them."""

    blocks: list[Document] = field(default_factory=list)
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    stop: str | None = None
    error: bool = False

    @property
    def said(self) -> list[Block]:
        return joined(each for block in self.blocks for each in _said(block))

    @property
    def status(self) -> str:
        if self.error:
            return "failed"
        cut = self.stop in ("max_tokens", "guardrail_intervened")
        return "incomplete" if cut else "completed"

    @property
    def counts(self) -> dict[str, int]:
        return counted(self.input_tokens, self.output_tokens, cached_tokens=self.cached_tokens)

    def cited(self) -> list[str]:
        """The addresses on the web that were cited."""
        found = [each for block in self.blocks for each in block.get("citations", [])]
        return [each["location"]["web"]["url"] for each in found if "web" in each["location"]]


def _said(block: Document) -> Iterator[Block]:
    """What a block says; calls that the service made itself have a type, and are not told."""
    yield Block("text", block.get("text", ""))
    yield Block("reasoning", block.get("thought", ""))
    call = block.get("toolUse", {"type": None})
    if "type" not in call:
        given = json.loads(call["input"] or "{}")
        yield Block("call", "", call["toolUseId"], call["name"], given)


def read(data: bytes) -> Carried:
    """What a stream or a whole body carries."""
    carried = Carried()
    if data.lstrip()[:1] == b"{":
        _read_body(carried, json.loads(data))
        return carried
    for name, document in _messages(data):
        if name == "chunk":
            _read_chunk(carried, json.loads(base64.b64decode(document["bytes"])))
        else:
            _read_event(carried, name, document)
    return carried


def _messages(data: bytes) -> Iterator[tuple[str, Document]]:
    """Event type and payload of every message; checksums are somebody else's business."""
    at = 0
    while at < len(data):
        total, headers = unpack_from(">II", data, at)
        named = data[at + 12 : at + 12 + headers]
        start = named.index(b":event-type") + len(b":event-type") + 1
        (length,) = unpack_from(">H", named, start)
        name = named[start + 2 : start + 2 + length].decode()
        yield name, json.loads(data[at + 12 + headers : at + total - 4])
        at += total


def _block(carried: Carried, index: int) -> Document:
    while len(carried.blocks) <= index:
        carried.blocks.append({})
    return carried.blocks[index]


def _usage(carried: Carried, usage: Document, *names: str) -> None:
    asked, answered, read_, written = (usage.get(name) or 0 for name in names)
    carried.input_tokens = asked + read_ + written or carried.input_tokens
    carried.output_tokens = answered or carried.output_tokens
    carried.cached_tokens = read_ or carried.cached_tokens


CONVERSE = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheWriteInputTokens")
COUNTS = (
    "inputTokenCount",
    "outputTokenCount",
    "cacheReadInputTokenCount",
    "cacheWriteInputTokenCount",
)
MESSAGES = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)


def _read_event(carried: Carried, name: str, document: Document) -> None:
    index = document.get("contentBlockIndex", 0)
    match name:
        case "contentBlockStart":
            _block(carried, index).update(document["start"])
        case "contentBlockDelta":
            _grow(_block(carried, index), document["delta"])
        case "messageStop":
            carried.stop = document["stopReason"]
        case "metadata":
            _usage(carried, document["usage"], *CONVERSE)
        case "messageStart" | "contentBlockStop":
            pass
        case _:
            raise AssertionError(f"an event of an unknown type: {name}")


def _grow(block: Document, delta: Document) -> None:
    match delta:
        case {"text": text}:
            block["text"] = block.get("text", "") + text
        case {"citation": citation}:
            block.setdefault("citations", []).append(citation)
        case {"toolUse": {"input": fragment}}:
            block["toolUse"]["input"] = block["toolUse"].get("input", "") + fragment
        case {"toolResult": _}:
            pass
        case _:
            raise AssertionError(f"a delta of an unknown type: {delta}")


# --- whole bodies ---------------------------------------------------------------------------------


def _read_body(carried: Carried, body: Document) -> None:
    match body:
        case {"output": {"message": {"content": content}}}:
            carried.blocks = [_as_streamed(block) for block in content]
            carried.stop = body["stopReason"]
            _usage(carried, body["usage"], *CONVERSE)
        case {"type": "message", "content": content}:
            carried.blocks = [_as_converse(block) for block in content]
            carried.stop = body["stop_reason"]
            _usage(carried, body["usage"], *MESSAGES)
        case {"message": str()}:
            carried.error = True
        case _:
            raise AssertionError(f"a body of an unknown form: {body}")


def _as_streamed(block: Document) -> Document:
    match block:
        case {"toolUse": call}:
            return {"toolUse": call | {"input": json.dumps(call["input"])}}
        case {"citationsContent": cited}:
            texts = [each["text"] for each in cited.get("content", [])]
            return {"text": "".join(texts), "citations": cited["citations"]}
    return block


# --- invoked models -------------------------------------------------------------------------------


def _read_chunk(carried: Carried, chunk: Document) -> None:
    match chunk:
        case {"type": "message_start", "message": {"usage": usage}}:
            _usage(carried, usage, *MESSAGES)
        case {"type": "content_block_start", "index": index, "content_block": block}:
            _block(carried, index).update(_as_converse(block))
        case {"type": "content_block_delta", "index": index, "delta": delta}:
            _grow_message(_block(carried, index), delta)
        case {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage}:
            carried.stop = stop
            carried.output_tokens = usage["output_tokens"]
        case {"type": "content_block_stop" | "message_stop"}:
            pass
        case _:
            _read_plain(carried, chunk)


def _as_converse(block: Document) -> Document:
    match block:
        case {"type": "text", "text": text}:
            return {"text": text}
        case {"type": "thinking", "thinking": text}:
            return {"thought": text}
        case {"type": "tool_use", "id": call_id, "name": name, "input": given}:
            text = json.dumps(given) if given else ""
            return {"toolUse": {"toolUseId": call_id, "name": name, "input": text}}
    raise AssertionError(f"a block of an unknown type: {block}")


def _grow_message(block: Document, delta: Document) -> None:
    match delta:
        case {"type": "text_delta", "text": text}:
            block["text"] += text
        case {"type": "thinking_delta", "thinking": text}:
            block["thought"] += text
        case {"type": "input_json_delta", "partial_json": fragment}:
            block["toolUse"]["input"] += fragment
        case {"type": "signature_delta"}:
            pass
        case _:
            raise AssertionError(f"a delta of an unknown type: {delta}")


def _read_plain(carried: Carried, chunk: Document) -> None:
    whole = chunk.get("generations", [chunk])[0]
    text = whole.get("completion") or whole.get("outputText") or whole.get("text") or ""
    block = _block(carried, 0)
    block["text"] = block.get("text", "") + text
    reasons = ("stop_reason", "completionReason", "finish_reason")
    carried.stop = next((whole[name] for name in reasons if whole.get(name)), carried.stop)
    _usage(carried, chunk.get(METRICS, {}), *COUNTS)
