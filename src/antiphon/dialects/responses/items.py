"""The items of a Responses answer, and how much of each has been told.

1. A server may tell an item four times: in deltas, when a part is done, when the item is done, and
   in the terminal event. Whatever comes first is told; the later ones add only what was missing.
2. Items are known by their id, else by their place, else by their kind and order. Real servers
   change the one or get the other wrong; none was seen to do both.
3. Messages, reasoning and calls become deltas. Any other item is passed on as it is, when done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from antiphon.core.stream.deltas import (
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
from antiphon.dialects.json_input import string
from antiphon.dialects.usage import count, read_logprobs
from antiphon.wire.items import Document

SCHEME = "openai.encrypted_content"

Channel: TypeAlias = Literal["text", "refusal", "raw", "summary", "written"]

_CALLS: Mapping[str, Literal["function", "custom"]] = {
    "function_call": "function",
    "custom_tool_call": "custom",
}
_MESSAGE_PARTS = frozenset({"output_text", "text", "refusal"})
# What an item of reasoning does not take back: its plain text, and what is said about the telling.
_NOT_STATE = frozenset({"type", "status", "content"})


class Telling:
    """One item, and how much of it has been told."""

    def __init__(self, kind: str, number: int, place: int | None) -> None:
        self.kind = kind
        self.number = number
        self.place = place
        self.phase: str | None = None
        self.done = False
        self.hidden = False
        self.named = False
        self.identified = False
        self.annotations = 0
        self._told: dict[tuple[Channel, int], list[str]] = {}

    def tell(self, channel: Channel, part: int, text: str) -> None:
        self._told.setdefault((channel, part), []).append(text)

    def missing(self, channel: Channel, part: int, whole: str) -> str:
        """What a part says beyond its deltas; nothing if it says something else."""
        told = "".join(self._told.get((channel, part), ()))
        return whole[len(told) :] if whole.startswith(told) else ""

    def missing_of(self, channel: Channel, wholes: Sequence[str]) -> Iterator[str]:
        """The same for all parts of a channel at once, since not every server counts them right."""
        told = "".join(
            piece for (each, _), pieces in self._told.items() if each == channel for piece in pieces
        )
        whole = "".join(wholes)
        skipped = len(told) if whole.startswith(told) else len(whole)
        for text in wholes:
            yield text[skipped:]
            skipped = max(0, skipped - len(text))


class Answer:
    """All items of one answer: who is being told, and what is still missing."""

    def __init__(self, server_tools: frozenset[str] = frozenset()) -> None:
        """`server_tools` are those that the provider calls and answers itself."""
        self._server_tools = server_tools
        self._tellings: list[Telling] = []
        self._by_id: dict[str, Telling] = {}
        self._by_place: dict[int, Telling] = {}
        self._places_repeat = False
        self._raw_ids: set[str] = set()
        self._speaker: Telling | None = None

    @property
    def all_done(self) -> bool:
        """There was something to tell, and every item was said to be finished."""
        return bool(self._tellings) and all(telling.done for telling in self._tellings)

    # Finding

    def find(self, kind: str, item_id: Any, place: Any) -> Telling:
        """The item that an event of a stream is about."""
        known = self._named(kind, item_id)
        known = known or self._placed(kind, place, open_only=bool(item_id))
        if known is None and not item_id and not isinstance(place, int):
            known = next((each for each in reversed(self._tellings) if each.kind == kind), None)
        return known or self._new(kind, item_id, place)

    def _named(self, kind: str, item_id: Any) -> Telling | None:
        known = self._by_id.get(item_id) if isinstance(item_id, str) else None
        return known if known is not None and known.kind == kind else None

    def _placed(self, kind: str, place: Any, *, open_only: bool) -> Telling | None:
        known = self._by_place.get(place) if isinstance(place, int) else None
        if known is None or known.kind != kind or (open_only and known.done):
            return None
        return known

    def _new(self, kind: str, item_id: Any, place: Any) -> Telling:
        telling = Telling(kind, len(self._tellings), place if isinstance(place, int) else None)
        self._tellings.append(telling)
        if isinstance(item_id, str) and item_id:
            self._by_id[item_id] = telling
        if telling.place is not None:
            self._places_repeat = self._places_repeat or telling.place in self._by_place
            self._by_place[telling.place] = telling
        return telling

    # Streaming

    def add(self, item: Any, place: Any) -> Iterator[Delta]:
        """An item has begun. What it already holds is told when it is done."""
        kind, item_id = _kind(item), _id(item)
        known = self._named(kind, item_id)
        telling = self._new(kind, item_id, place) if known is None or known.done else known
        telling.phase = _phase(item)
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
            follows = self._speaker is not None and telling.kind in ("message", "reasoning")
            if follows or telling.phase is not None:
                yield ItemEnd(telling.phase)
            self._speaker = telling

    # Finishing

    def finish(self, item: Any, place: Any) -> Iterator[Delta]:
        """An item is done: whatever of it has not been told."""
        kind, item_id = _kind(item), _id(item)
        known = self._named(kind, item_id) or self._placed(kind, place, open_only=True)
        yield from self._finish(known or self._new(kind, item_id, place), item)

    def settle(self, output: Any) -> Iterator[Delta]:
        """The answer is over: what the stream left unfinished, and then what it forgot."""
        items = [item for item in _list(output) if isinstance(item, dict)]
        known = [self._named(_kind(item), _id(item)) for item in items]
        unclaimed = [telling for telling in self._tellings if telling not in known]
        forgotten = []
        for place, item in enumerate(items):
            telling = known[place] or self._claim(unclaimed, _kind(item), place)
            if telling is None:
                forgotten.append(item)
            else:
                yield from self._finish(telling, item)
        for item in forgotten:
            yield from self._finish(self._new(_kind(item), _id(item), None), item)

    def _claim(self, unclaimed: list[Telling], kind: str, place: int) -> Telling | None:
        """The item that was told at this place, or else, if places say nothing, in this order."""
        for exact in (True, False):
            for each in unclaimed:
                fits = each.place == place if exact else each.place is None or self._places_repeat
                if each.kind == kind and fits:
                    unclaimed.remove(each)
                    return each
        return None

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
        if item.get("role") not in (None, "assistant"):
            yield Extra("message", item)
            return
        telling.phase = telling.phase or _phase(item)
        parts = []
        for part in _parts(item.get("content"), "output_text"):
            if part.get("type") in _MESSAGE_PARTS:
                parts.append(part)
            else:
                yield Extra("content_part", part)
        texts = telling.missing_of("text", [_said(part, "text") for part in parts])
        refusals = telling.missing_of("refusal", [_said(part, "refusal") for part in parts])
        cited = telling.annotations
        for part, text, refusal in zip(parts, texts, refusals, strict=True):
            logprobs = part.get("logprobs") if text == part.get("text") else None
            yield from self.tell(telling, "text", text, 0, logprobs)
            yield from self.tell(telling, "refusal", refusal)
            notes = _list(part.get("annotations"))
            for annotation in notes[cited:]:
                yield from self.annotate(telling, annotation)
            cited = max(0, cited - len(notes))

    def _finish_reasoning(self, telling: Telling, item: Document) -> Iterator[Delta]:
        channels: tuple[tuple[Channel, str], ...] = (("summary", "summary"), ("raw", "content"))
        for channel, field in channels:
            wholes = [_said(part, "text") for part in _parts(item.get(field), "text")]
            for number, text in enumerate(telling.missing_of(channel, wholes)):
                yield from self.tell(telling, channel, text, number)
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
        yield from self.tell_rest(telling, "written", written)
        yield ToolEnd(telling.number, item.get("status") != "incomplete")

    def _call(self, telling: Telling, item: Document) -> Iterator[Delta]:
        """Who is called, each thing once: some servers give an item other ids when it is done."""
        telling.hidden = item.get("name") in self._server_tools
        if telling.hidden:
            return
        call_id = None if telling.identified else string(item.get("call_id"))
        name = None if telling.named else string(item.get("name"))
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
    return (string(item.get("type")) or "") if isinstance(item, dict) else ""


def _id(item: Any) -> str | None:
    return string(item.get("id")) if isinstance(item, dict) else None


def _phase(item: Any) -> str | None:
    """How a message is labelled."""
    return string(item.get("phase")) if _kind(item) == "message" else None


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _parts(content: Any, kind: str) -> Iterator[dict[str, Any]]:
    """The parts of a content, which some servers send as mere text."""
    for part in [content] if isinstance(content, str) else _list(content):
        if isinstance(part, str):
            yield {"type": kind, "text": part}
        elif isinstance(part, dict):
            yield part


def _said(part: Document, field: str) -> str:
    return string(part.get(field)) or ""


def _citation(annotation: Document) -> Document:
    """A citation with every member that clients insist on."""
    if annotation.get("type") != "url_citation":
        return annotation
    return {
        **annotation,
        "title": string(annotation.get("title")) or "",
        "start_index": count(annotation.get("start_index")),
        "end_index": count(annotation.get("end_index")),
    }
