"""The items of a Responses answer, and how much of each has been told.

1. A server may tell an item four times: in deltas, when a part is done, when the item is done, and
   in the terminal event. Whatever comes first is told; the later ones add only what was missing.
2. Items are known by their id, else by their place, else by their kind and order. Real servers
   change the one or get the other wrong; none was seen to do both.
3. Messages, reasoning and calls become deltas. Any other item is passed on as it is, when done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from antiphon.core.deltas import (
    Annotation,
    Delta,
    Extra,
    ItemEnd,
    RawItem,
    Reasoning,
    ReasoningState,
    Refusal,
    Text,
    ToolCall,
    ToolEnd,
)
from antiphon.dialects.chat_number import count, read_logprobs
from antiphon.wire.items import Document

SCHEME = "openai.encrypted_content"

Channel: TypeAlias = Literal["text", "refusal", "raw", "summary", "written"]

_CALLS: Mapping[str, Literal["function", "custom"]] = {
    "function_call": "function",
    "custom_tool_call": "custom",
}
# What an item of reasoning does not take back: its plain text, and what is said about the telling.
_NOT_STATE = frozenset({"type", "status", "content"})


class Telling:
    """One item, and how much of it has been told."""

    def __init__(self, kind: str, number: int) -> None:
        self.kind = kind
        self.number = number
        self.done = False
        self.hidden = False
        self.named = False
        self.identified = False
        self.annotations = 0
        self._told: Counter[tuple[Channel, int]] = Counter()

    def tell(self, channel: Channel, part: int, text: str) -> None:
        self._told[channel, part] += len(text)

    def missing(self, channel: Channel, part: int, text: str) -> str:
        """What a whole part says beyond its deltas."""
        return text[self._told[channel, part] :]

    def total(self, channel: Channel) -> int:
        return sum(size for (kind, _), size in self._told.items() if kind == channel)


class Answer:
    """All items of one answer: who is being told, and what is still missing."""

    def __init__(self, server_tools: frozenset[str] = frozenset()) -> None:
        """`server_tools` are those that the provider calls and answers itself."""
        self._server_tools = server_tools
        self._tellings: list[Telling] = []
        self._by_id: dict[str, Telling] = {}
        self._by_place: dict[int, Telling] = {}
        self._raw_ids: set[str] = set()
        self._speaker: Telling | None = None

    @property
    def all_done(self) -> bool:
        """There was something to tell, and every item was said to be finished."""
        return bool(self._tellings) and all(telling.done for telling in self._tellings)

    # Finding

    def find(self, kind: str, item_id: Any, place: Any) -> Telling:
        """The item that an event of a stream is about."""
        known = self._named(item_id)
        if known is None or known.kind != kind:
            known = self._placed(kind, place, open_only=bool(item_id))
        if known is None and not item_id and not isinstance(place, int):
            known = next((each for each in reversed(self._tellings) if each.kind == kind), None)
        return known or self._new(kind, item_id, place)

    def _named(self, item_id: Any) -> Telling | None:
        return self._by_id.get(item_id) if isinstance(item_id, str) else None

    def _placed(self, kind: str, place: Any, *, open_only: bool) -> Telling | None:
        known = self._by_place.get(place) if isinstance(place, int) else None
        if known is None or known.kind != kind or (open_only and known.done):
            return None
        return known

    def _new(self, kind: str, item_id: Any, place: Any) -> Telling:
        telling = Telling(kind, len(self._tellings))
        self._tellings.append(telling)
        if isinstance(item_id, str) and item_id:
            self._by_id[item_id] = telling
        if isinstance(place, int):
            self._by_place[place] = telling
        return telling

    # Streaming

    def add(self, item: Any, place: Any) -> Iterator[Delta]:
        """An item has begun. What it already holds is told when it is done."""
        kind, item_id = _kind(item), _id(item)
        known = self._named(item_id)
        telling = self._new(kind, item_id, place) if known is None else known
        if kind in _CALLS:
            yield from self._call(telling, item)

    def tell(
        self, telling: Telling, channel: Channel, text: Any, part: Any = 0, logprobs: Any = None
    ) -> Iterator[Delta]:
        """A piece of an item."""
        if not isinstance(text, str) or not text or telling.hidden:
            return
        number = part if isinstance(part, int) else 0
        telling.tell(channel, number, text)
        yield from self._turn_to(telling)
        match channel:
            case "text":
                yield Text(text, read_logprobs({"content": logprobs}) if logprobs else ())
            case "refusal":
                yield Refusal(text)
            case "written":
                yield ToolCall(telling.number, arguments=text, kind=_CALLS[telling.kind])
            case _:
                yield Reasoning(text, channel, number)

    def tell_rest(
        self, telling: Telling, channel: Channel, whole: Any, part: Any = 0
    ) -> Iterator[Delta]:
        """A part is done: what its deltas have left out."""
        if isinstance(whole, str):
            number = part if isinstance(part, int) else 0
            yield from self.tell(telling, channel, telling.missing(channel, number, whole), part)

    def annotate(self, telling: Telling, annotation: Any) -> Iterator[Delta]:
        if isinstance(annotation, dict):
            telling.annotations += 1
            yield from self._turn_to(telling)
            yield Annotation(_citation(annotation))

    def _turn_to(self, telling: Telling) -> Iterator[Delta]:
        if self._speaker is not telling:
            if self._speaker is not None and telling.kind in ("message", "reasoning"):
                yield ItemEnd()
            self._speaker = telling

    # Finishing

    def finish(self, item: Any, place: Any) -> Iterator[Delta]:
        """An item is done: whatever of it has not been told."""
        kind, item_id = _kind(item), _id(item)
        known = self._named(item_id) or self._placed(kind, place, open_only=True)
        yield from self._finish(known or self._new(kind, item_id, place), item)

    def settle(self, output: Any) -> Iterator[Delta]:
        """The answer is over: every item in it that the stream forgot, or left unfinished."""
        items = [item for item in _list(output) if isinstance(item, dict)]
        known = [self._named(_id(item)) for item in items]
        unclaimed = [telling for telling in self._tellings if telling not in known]
        for item, telling in zip(items, known, strict=True):
            if telling is None:
                kind = _kind(item)
                telling = next((each for each in unclaimed if each.kind == kind), None)
                if telling is None:
                    telling = self._new(kind, _id(item), None)
                else:
                    unclaimed.remove(telling)
            yield from self._finish(telling, item)

    def _finish(self, telling: Telling, item: Any) -> Iterator[Delta]:
        if telling.done:
            return
        telling.done = True
        if telling.kind in _CALLS:
            yield from self._finish_call(telling, item)
        elif telling.kind == "message":
            yield from self._finish_message(telling, item)
        elif telling.kind == "reasoning":
            yield from self._finish_reasoning(telling, item)
        else:
            yield from self._pass_on(telling, item)

    def _finish_message(self, telling: Telling, item: Document) -> Iterator[Delta]:
        if item.get("role", "assistant") != "assistant":
            yield Extra("message", item)
            return
        told = Counter({channel: telling.total(channel) for channel in ("text", "refusal")})
        cited = telling.annotations
        for part in _parts(item.get("content"), "output_text"):
            match part:
                case {"type": "output_text" | "text", "text": str(text)}:
                    fresh = _beyond(text, told, "text")
                    logprobs = part.get("logprobs") if fresh == text else None
                    yield from self.tell(telling, "text", fresh, 0, logprobs)
                case {"type": "refusal", "refusal": str(text)}:
                    yield from self.tell(telling, "refusal", _beyond(text, told, "refusal"))
                case _:
                    yield Extra("content_part", part)
            for annotation in _list(part.get("annotations")):
                if cited:
                    cited -= 1
                else:
                    yield from self.annotate(telling, annotation)

    def _finish_reasoning(self, telling: Telling, item: Document) -> Iterator[Delta]:
        channels: tuple[tuple[Channel, str], ...] = (("summary", "summary"), ("raw", "content"))
        for channel, field in channels:
            told = Counter({channel: telling.total(channel)})
            for number, part in enumerate(_parts(item.get(field), "text")):
                text = part.get("text")
                if isinstance(text, str):
                    yield from self.tell(telling, channel, _beyond(text, told, channel), number)
        if item.get("encrypted_content"):
            yield from self._turn_to(telling)
            state = {name: value for name, value in item.items() if name not in _NOT_STATE}
            yield ReasoningState(SCHEME, state, "block")

    def _finish_call(self, telling: Telling, item: Document) -> Iterator[Delta]:
        yield from self._call(telling, item)
        if telling.hidden or not telling.named:
            yield Extra("call", item)
            return
        written = item.get("input" if telling.kind == "custom_tool_call" else "arguments")
        if written is not None and not isinstance(written, str):  # the JSON itself
            written = msgspec.json.encode(written).decode()
        told = Counter({"written": telling.total("written")})
        yield from self.tell(telling, "written", _beyond(written or "", told, "written"))
        yield ToolEnd(telling.number, item.get("status") != "incomplete")

    def _call(self, telling: Telling, item: Document) -> Iterator[Delta]:
        """Who is called, each thing once: some servers give an item other ids when it is done."""
        telling.hidden = item.get("name") in self._server_tools
        if telling.hidden:
            return
        call_id = None if telling.identified else _string(item.get("call_id"))
        name = None if telling.named else _string(item.get("name"))
        telling.identified = telling.identified or call_id is not None
        telling.named = telling.named or name is not None
        if call_id or name:
            yield from self._turn_to(telling)
            yield ToolCall(telling.number, call_id, name, kind=_CALLS[telling.kind])

    def _pass_on(self, telling: Telling, item: Any) -> Iterator[Delta]:
        if not telling.kind:
            yield Extra("item", item)
            return
        item_id = _id(item)
        if item_id in self._raw_ids:  # clients tell items apart by their ids
            item = {name: value for name, value in item.items() if name != "id"}
        elif item_id is not None:
            self._raw_ids.add(item_id)
        yield from self._turn_to(telling)
        yield RawItem(item)


def _kind(item: Any) -> str:
    return (_string(item.get("type")) or "") if isinstance(item, dict) else ""


def _id(item: Any) -> str | None:
    return _string(item.get("id")) if isinstance(item, dict) else None


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _parts(content: Any, kind: str) -> Iterator[dict[str, Any]]:
    """The parts of a content, which some servers send as mere text."""
    for part in [content] if isinstance(content, str) else _list(content):
        if isinstance(part, str):
            yield {"type": kind, "text": part}
        elif isinstance(part, dict):
            yield part


def _beyond(text: str, told: Counter[str], channel: str) -> str:
    """A part of a whole item without the characters that have been told already."""
    skipped = min(len(text), told[channel])
    told[channel] -= skipped
    return text[skipped:]


def _citation(annotation: Document) -> Document:
    """A citation with every member that clients insist on."""
    if annotation.get("type") != "url_citation":
        return annotation
    return {
        **annotation,
        "title": _string(annotation.get("title")) or "",
        "start_index": count(annotation.get("start_index")),
        "end_index": count(annotation.get("end_index")),
    }
