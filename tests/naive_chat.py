"""A second reader of recorded Chat Completions answers: slow, simple, and nobody's relative.

It has the whole recording at hand and no notion of events: it only says what a recording carries,
so that a test can ask whether all of it arrived.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Document = dict[str, Any]


@dataclass
class Block:
    """One thing a model said: text, refusal, reasoning, or a call."""

    kind: str
    text: str = ""
    call_id: str | None = None
    name: str = ""
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

    def of(self, kind: str) -> list[Block]:
        return [block for block in self.blocks if block.kind == kind]


def read(data: bytes) -> Carried:
    """What a stream or a whole body carries."""
    if data.lstrip()[:1] in (b"{", b"["):
        body = json.loads(data)
        return _whole(body) if isinstance(body, dict) else Carried(error=True)
    return _streamed(list(_payloads(data)))


def _payloads(data: bytes) -> Iterator[Any]:
    for line in data.decode().replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if line.startswith("data:"):
            text = line.removeprefix("data:").strip()
            if text == "[DONE]":
                return
            if text:
                yield json.loads(text)


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
    if isinstance(plain, str) and plain:
        carried.say("reasoning", plain)
        return
    for detail in message.get("reasoning_details") or []:
        carried.say("reasoning", detail.get("summary") or detail.get("text"))


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
