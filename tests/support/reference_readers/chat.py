"""A second reader of recorded Chat Completions answers: it follows the first choice."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from tests.support.reference_readers import answer as naive
from tests.support.reference_readers.answer import Document, counted, payloads


@dataclass
class Block(naive.Block):
    """With the place that its pieces name."""

    index: int | None = None


@dataclass
class Carried:
    """What a recording carries for its first choice."""

    blocks: list[Block] = field(default_factory=list)
    usage: Document = field(default_factory=dict)
    finish: str | None = None
    error: bool = False

    def say(self, kind: str, text: Any) -> None:
        if not isinstance(text, str) or not text:
            return
        if not self.blocks or self.blocks[-1].kind != kind:
            self.blocks.append(Block(kind))
        self.blocks[-1].text += text

    @property
    def said(self) -> list[naive.Block]:
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
        asked, answered = used.get("prompt_tokens", 0), used.get("completion_tokens", 0)
        inside = used.get("completion_tokens_details") or {}
        thought = inside.get("reasoning_tokens") or used.get("reasoning_tokens") or 0
        total = used.get("total_tokens") or asked + answered
        # Some count thinking beside the completion, and say so by their total.
        answered = total - asked if thought else answered
        cached = (used.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        return counted(
            asked,
            answered,
            total_tokens=total,
            cached_tokens=cached,
            reasoning_tokens=thought,
        )

    def of(self, kind: str) -> list[Block]:
        return [block for block in self.blocks if block.kind == kind]


def read(data: bytes) -> Carried:
    """What a stream or a whole body carries."""
    if data.lstrip()[:1] in (b"{", b"["):
        body = json.loads(data)
        return _whole(body) if isinstance(body, dict) else Carried(error=True)
    return _streamed([*payloads(data)])


def _first_choices(chunk: Document) -> list[Document]:
    return [choice for choice in chunk.get("choices") or [] if not choice.get("index")]


def _streamed(chunks: list[Document]) -> Carried:
    carried = Carried()
    has_deltas = any(choice.get("delta") for chunk in chunks for choice in _first_choices(chunk))
    for chunk in chunks:
        for choice in _first_choices(chunk):
            message = choice.get("delta") if has_deltas else choice.get("message")
            _read_reasoning(carried, message or {})
            _read_content(carried, message or {})
            for call in (message or {}).get("tool_calls") or []:
                _read_call(carried, call)
            _read_rest(carried, choice)
        _read_rest(carried, chunk)
        _read_rest(carried, chunk.get("x_groq") or {})
        if carried.error:
            break
    return carried


def _whole(body: Document) -> Carried:
    """A whole answer: reasoning first, then calls, then what was said."""
    carried = Carried()
    for choice in _first_choices(body):
        message = choice.get("message") or {}
        _read_reasoning(carried, message)
        spoken = Carried()
        _read_content(spoken, message)
        carried.blocks += spoken.of("reasoning")
        for call in message.get("tool_calls") or []:
            _read_call(carried, {**call, "index": None}, always_new=True)
        carried.blocks += spoken.of("text") + spoken.of("refusal")
        if not carried.of("call") + carried.of("text") + carried.of("refusal"):
            carried.blocks.append(Block("text"))
        _read_rest(carried, choice)
    _read_rest(carried, body)
    carried.error = carried.error or not body.get("choices")
    return carried


def _read_reasoning(carried: Carried, message: Document) -> None:
    plain = message.get("reasoning_content") or message.get("reasoning")
    details = message.get("reasoning_details") or []
    if isinstance(plain, str) and plain:
        summed_up = details and all(each["type"] == "reasoning.summary" for each in details)
        carried.say("summary" if summed_up else "reasoning", plain)
        return
    for detail in details:
        carried.say("summary", detail.get("summary"))
        carried.say("reasoning", detail.get("text"))


def _read_content(carried: Carried, message: Document) -> None:
    content: Any = message.get("content")
    if not isinstance(content, list):
        content = [{"type": "text", "text": content}]
    for part in content:
        if part["type"] == "thinking":
            for thought in part["thinking"]:
                carried.say("reasoning", thought["text"])
        elif part["type"] == "text":
            carried.say("text", part["text"])
    carried.say("refusal", message.get("refusal"))


def _read_call(carried: Carried, call: Document, *, always_new: bool = False) -> None:
    """The same call has the same index, or else the same id; two ids are never one call."""
    function = call.get("function") or call.get("custom") or {}
    arguments = function.get("arguments", function.get("input"))
    if arguments is None:
        arguments = ""
    elif not isinstance(arguments, str):
        arguments = json.dumps(arguments, separators=(",", ":"), ensure_ascii=False)
    name, call_id = function.get("name") or "", call.get("id") or None
    block = None if always_new else _same_call(carried, call.get("index"), call_id, name, arguments)
    if block is None:
        block = Block("call", index=call.get("index"))
        carried.blocks.append(block)
    block.call_id = block.call_id or call_id
    block.name = block.name or name
    block.text += arguments


def _same_call(
    carried: Carried, index: int | None, call_id: str | None, name: str, arguments: str
) -> Block | None:
    calls = carried.of("call")
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


def _read_rest(carried: Carried, where: Document) -> None:
    carried.usage = where.get("usage") or carried.usage
    carried.finish = where.get("finish_reason") or carried.finish
    carried.error = carried.error or bool(where.get("error"))
