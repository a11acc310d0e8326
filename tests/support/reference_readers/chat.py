"""Reference reader of Chat Completions recordings: reads the first choice."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from tests.support.reference_readers import recorded_response
from tests.support.reference_readers.recorded_response import Document, count_tokens, sse_payloads


@dataclass
class Block(recorded_response.Block):
    """A block with the index that its deltas name."""

    index: int | None = None


@dataclass
class RecordedResponse:
    """The first choice of a recording."""

    blocks: list[Block] = field(default_factory=list)
    usage: Document = field(default_factory=dict)
    finish: str | None = None
    error: bool = False

    def add_text(self, kind: str, text: Any) -> None:
        if not isinstance(text, str) or not text:
            return
        if not self.blocks or self.blocks[-1].kind != kind:
            self.blocks.append(Block(kind))
        self.blocks[-1].text += text

    @property
    def output(self) -> list[recorded_response.Block]:
        return [*self.blocks]

    @property
    def status(self) -> str:
        if self.error or self.finish is None:
            return "failed"
        if self.finish in ("length", "content_filter"):
            return "incomplete"
        assert self.finish in ("stop", "tool_calls", "eos", "eos_token")
        return "completed"

    @property
    def counts(self) -> dict[str, int]:
        used = self.usage
        input_tokens, output_tokens = used.get("prompt_tokens", 0), used.get("completion_tokens", 0)
        inside = used.get("completion_tokens_details") or {}
        reasoning = inside.get("reasoning_tokens") or used.get("reasoning_tokens") or 0
        total = used.get("total_tokens") or input_tokens + output_tokens
        # Some count thinking beside the completion, and say so by their total.
        output_tokens = total - input_tokens if reasoning else output_tokens
        cached = (used.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        cached = cached or used.get("num_cached_tokens") or 0  # Mistral
        return count_tokens(
            input_tokens,
            output_tokens,
            total_tokens=total,
            cached_tokens=cached,
            reasoning_tokens=reasoning,
        )

    def of(self, kind: str) -> list[Block]:
        return [block for block in self.blocks if block.kind == kind]


def read(data: bytes) -> RecordedResponse:
    """Read a stream or a whole body."""
    if data.lstrip()[:1] in (b"{", b"["):
        body = json.loads(data)
        return _read_whole(body) if isinstance(body, dict) else RecordedResponse(error=True)
    return _read_stream([*sse_payloads(data)])


def _first_choices(chunk: Document) -> list[Document]:
    return [choice for choice in chunk.get("choices") or [] if not choice.get("index")]


def _read_stream(chunks: list[Document]) -> RecordedResponse:
    recorded = RecordedResponse()
    has_deltas = any(choice.get("delta") for chunk in chunks for choice in _first_choices(chunk))
    for chunk in chunks:
        for choice in _first_choices(chunk):
            message = choice.get("delta") if has_deltas else choice.get("message")
            _read_reasoning(recorded, message or {})
            _read_content(recorded, message or {})
            for call in (message or {}).get("tool_calls") or []:
                _read_call(recorded, call)
            _read_rest(recorded, choice)
        _read_rest(recorded, chunk)
        _read_rest(recorded, chunk.get("x_groq") or {})
        if recorded.error:
            break
    return recorded


def _read_whole(body: Document) -> RecordedResponse:
    """A whole response: reasoning first, then calls, then text."""
    recorded = RecordedResponse()
    for choice in _first_choices(body):
        message = choice.get("message") or {}
        _read_reasoning(recorded, message)
        content_only = RecordedResponse()
        _read_content(content_only, message)
        recorded.blocks += content_only.of("reasoning")
        for call in message.get("tool_calls") or []:
            _read_call(recorded, {**call, "index": None}, always_new=True)
        recorded.blocks += content_only.of("text") + content_only.of("refusal")
        if not recorded.of("call") + recorded.of("text") + recorded.of("refusal"):
            recorded.blocks.append(Block("text"))
        _read_rest(recorded, choice)
    _read_rest(recorded, body)
    if recorded.status != "completed":  # only a complete answer without text has a message
        recorded.blocks = [each for each in recorded.blocks if each.kind != "text" or each.text]
    recorded.error = recorded.error or not body.get("choices")
    return recorded


def _read_reasoning(recorded: RecordedResponse, message: Document) -> None:
    plain = message.get("reasoning_content") or message.get("reasoning")
    details = message.get("reasoning_details") or []
    if isinstance(plain, str) and plain:
        is_summary = details and all(each["type"] == "reasoning.summary" for each in details)
        recorded.add_text("summary" if is_summary else "reasoning", plain)
        return
    for detail in details:
        recorded.add_text("summary", detail.get("summary"))
        recorded.add_text("reasoning", detail.get("text"))


def _read_content(recorded: RecordedResponse, message: Document) -> None:
    content: Any = message.get("content")
    if not isinstance(content, list):
        content = [{"type": "text", "text": content}]
    for part in content:
        if part["type"] == "thinking":
            for reasoning in part["thinking"]:
                recorded.add_text("reasoning", reasoning["text"])
        elif part["type"] == "text":
            recorded.add_text("text", part["text"])
    recorded.add_text("refusal", message.get("refusal"))


def _read_call(recorded: RecordedResponse, call: Document, *, always_new: bool = False) -> None:
    """The same call has the same index, or else the same id; two ids are never one call."""
    function = call.get("function") or call.get("custom") or {}
    arguments = function.get("arguments", function.get("input"))
    if arguments is None:
        arguments = ""
    elif not isinstance(arguments, str):
        arguments = json.dumps(arguments, separators=(",", ":"), ensure_ascii=False)
    name, call_id = function.get("name") or "", call.get("id") or None
    block = (
        None if always_new else _same_call(recorded, call.get("index"), call_id, name, arguments)
    )
    if block is None:
        block = Block("call", index=call.get("index"))
        recorded.blocks.append(block)
    block.call_id = block.call_id or call_id
    block.name = block.name or name
    block.text += arguments


def _same_call(
    recorded: RecordedResponse, index: int | None, call_id: str | None, name: str, arguments: str
) -> Block | None:
    calls = recorded.of("call")
    if index is None:
        found = [call for call in calls if call_id and call.call_id == call_id]
        return found[0] if found else (calls[-1] if calls and not name else None)
    there = [call for call in calls if call.index == index]
    if not there or (call_id and there[-1].call_id not in (None, call_id)):
        return None
    restarted = name and arguments and not call_id and _is_json(there[-1].text)
    return None if restarted else there[-1]


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _read_rest(recorded: RecordedResponse, where: Document) -> None:
    recorded.usage = where.get("usage") or recorded.usage
    recorded.finish = where.get("finish_reason") or recorded.finish
    recorded.error = recorded.error or bool(where.get("error"))
