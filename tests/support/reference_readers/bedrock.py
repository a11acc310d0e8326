"""Reference reader of Bedrock recordings: assembles the native blocks.

Blocks of models behind InvokeModel are converted to the shape of Converse.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import unpack_from

from tests.support.reference_readers.recorded_response import (
    Block,
    Document,
    count_tokens,
    merge_adjacent,
)

METRICS = "amazon-bedrock-invocationMetrics"


@dataclass
class RecordedResponse:
    """The native blocks of a recording in order, its usage and stop reason."""

    blocks: list[Document] = field(default_factory=list)
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    stop: str | None = None
    error: bool = False

    @property
    def output(self) -> list[Block]:
        return merge_adjacent(each for block in self.blocks for each in _output_block(block))

    @property
    def status(self) -> str:
        if self.error:
            return "failed"
        cut = self.stop in ("max_tokens", "guardrail_intervened")
        return "incomplete" if cut else "completed"

    @property
    def counts(self) -> dict[str, int]:
        return count_tokens(self.input_tokens, self.output_tokens, cached_tokens=self.cached_tokens)

    def cited(self) -> list[str]:
        """The cited URLs."""
        found = [each for block in self.blocks for each in block.get("citations", [])]
        return [each["location"]["web"]["url"] for each in found if "web" in each["location"]]


def _output_block(block: Document) -> Iterator[Block]:
    """The output of a block, without calls that the service executed itself: they have a type."""
    yield Block("text", block.get("text", ""))
    yield Block("reasoning", block.get("thought", ""))
    call = block.get("toolUse", {"type": None})
    if "type" not in call:
        given = json.loads(call["input"] or "{}")
        yield Block("call", "", call["toolUseId"], call["name"], given)


def read(data: bytes) -> RecordedResponse:
    """Read a stream or a whole body."""
    recorded = RecordedResponse()
    if data.lstrip()[:1] == b"{":
        _read_body(recorded, json.loads(data))
        return recorded
    for name, document in _messages(data):
        if name == "chunk":
            _read_chunk(recorded, json.loads(base64.b64decode(document["bytes"])))
        else:
            _read_event(recorded, name, document)
    return recorded


def _messages(data: bytes) -> Iterator[tuple[str, Document]]:
    """Event type and payload of every message; checksums are not verified here."""
    at = 0
    while at < len(data):
        total, headers = unpack_from(">II", data, at)
        named = data[at + 12 : at + 12 + headers]
        start = named.index(b":event-type") + len(b":event-type") + 1
        (length,) = unpack_from(">H", named, start)
        name = named[start + 2 : start + 2 + length].decode()
        yield name, json.loads(data[at + 12 + headers : at + total - 4])
        at += total


def _block(recorded: RecordedResponse, index: int) -> Document:
    while len(recorded.blocks) <= index:
        recorded.blocks.append({})
    return recorded.blocks[index]


def _usage(recorded: RecordedResponse, usage: Document, *names: str) -> None:
    input_tokens, output_tokens, read_, written = (usage.get(name) or 0 for name in names)
    recorded.input_tokens = input_tokens + read_ + written or recorded.input_tokens
    recorded.output_tokens = output_tokens or recorded.output_tokens
    recorded.cached_tokens = read_ or recorded.cached_tokens


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


def _read_event(recorded: RecordedResponse, name: str, document: Document) -> None:
    index = document.get("contentBlockIndex", 0)
    match name:
        case "contentBlockStart":
            _block(recorded, index).update(document["start"])
        case "contentBlockDelta":
            _apply_delta(_block(recorded, index), document["delta"])
        case "messageStop":
            recorded.stop = document["stopReason"]
        case "metadata":
            _usage(recorded, document["usage"], *CONVERSE)
        case "messageStart" | "contentBlockStop":
            pass
        case _:
            raise AssertionError(f"an event of an unknown type: {name}")


def _apply_delta(block: Document, delta: Document) -> None:
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


def _read_body(recorded: RecordedResponse, body: Document) -> None:
    match body:
        case {"output": {"message": {"content": content}}}:
            recorded.blocks = [_as_streamed(block) for block in content]
            recorded.stop = body["stopReason"]
            _usage(recorded, body["usage"], *CONVERSE)
        case {"type": "message", "content": content}:
            recorded.blocks = [_as_converse(block) for block in content]
            recorded.stop = body["stop_reason"]
            _usage(recorded, body["usage"], *MESSAGES)
        case {"message": str()}:
            recorded.error = True
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


def _read_chunk(recorded: RecordedResponse, chunk: Document) -> None:
    match chunk:
        case {"type": "message_start", "message": {"usage": usage}}:
            _usage(recorded, usage, *MESSAGES)
        case {"type": "content_block_start", "index": index, "content_block": block}:
            _block(recorded, index).update(_as_converse(block))
        case {"type": "content_block_delta", "index": index, "delta": delta}:
            _grow_message(_block(recorded, index), delta)
        case {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage}:
            recorded.stop = stop
            recorded.output_tokens = usage["output_tokens"]
        case {"type": "content_block_stop" | "message_stop"}:
            pass
        case _:
            _read_plain(recorded, chunk)


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


def _read_plain(recorded: RecordedResponse, chunk: Document) -> None:
    whole = chunk.get("generations", [chunk])[0]
    text = whole.get("completion") or whole.get("outputText") or whole.get("text") or ""
    block = _block(recorded, 0)
    block["text"] = block.get("text", "") + text
    reasons = ("stop_reason", "completionReason", "finish_reason")
    recorded.stop = next((whole[name] for name in reasons if whole.get(name)), recorded.stop)
    _usage(recorded, chunk.get(METRICS, {}), *COUNTS)
