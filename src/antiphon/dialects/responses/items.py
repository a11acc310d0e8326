"""Output items of a Responses API stream, and how much of each was emitted.

1. A server may send the content of an item four times: in deltas, when a part is done, when the
   item is done, and in the terminal event. The first copy is emitted; later ones add only what was
   missing.
2. An item is identified by its id (a call also by its call id), else by its output index, else by
   its kind and order; in the terminal event also by what it says. Real servers change the id, get
   the index wrong, or make all items of the terminal event anew.
3. Messages, reasoning and calls become deltas. Any other item is passed on unchanged, and so are
   the events of its progress.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Literal, TypeAlias

import msgspec

from antiphon.core.deltas import (
    Annotation,
    Delta,
    EmptyReasoning,
    Extra,
    ItemEnd,
    RawItem,
    RawItemEvent,
    RawItemStarted,
    Reasoning,
    ReasoningState,
    Refusal,
    Text,
    ToolCall,
    ToolEnd,
)
from antiphon.core.items import Document
from antiphon.dialects.json_input import nonempty_string
from antiphon.dialects.usage import count, read_logprobs

SCHEME = "openai.encrypted_content"

Channel: TypeAlias = Literal["text", "refusal", "raw", "summary", "arguments"]

_CALLS: Mapping[str, Literal["function", "custom"]] = {
    "function_call": "function",
    "custom_tool_call": "custom",
}
_CONTENT = frozenset({"message", "reasoning", *_CALLS})
_MESSAGE_PARTS = frozenset({"output_text", "text", "refusal"})
# Fields of an event that the gateway sets itself, and padding.
_NOT_PASSED_ON = frozenset({"type", "sequence_number", "obfuscation"})
# Fields of a reasoning item that are not sent back: its plain text, and its status in the stream.
_NOT_STATE = frozenset({"type", "status", "content"})


class ItemTexts:
    """The texts of one item, as far as they were emitted."""

    def __init__(self) -> None:
        self._emitted: dict[tuple[Channel, int], list[str]] = {}
        self._raw_part: int | None = None

    @property
    def is_empty(self) -> bool:
        return not self._emitted

    def open_part(self, channel: Channel, index: int) -> int:
        """The number of the part that an event belongs to. One of raw reasoning ends where the
        server says so: vLLM counts up with every delta (vllm-project/vllm#35184)."""
        if channel != "raw":
            return index
        if self._raw_part is None:
            self._raw_part = index
        return self._raw_part

    def end_part(self) -> None:
        self._raw_part = None

    def record(self, channel: Channel, part: int, text: str) -> None:
        self._emitted.setdefault((channel, part), []).append(text)

    def missing(self, channel: Channel, part: int, whole: str) -> str:
        """The rest of a part after its deltas; empty if the whole is a different text, or that of
        all deltas: not every server numbers its parts correctly."""
        if whole == self.joined(channel):
            return ""
        emitted = "".join(self._emitted.get((channel, part), ()))
        return whole[len(emitted) :] if whole.startswith(emitted) else ""

    def missing_of_parts(self, channel: Channel, wholes: Sequence[str]) -> Iterator[str]:
        """The rest of each part of a channel, compared all at once: not every server numbers its
        parts correctly."""
        emitted = self.joined(channel)
        whole = "".join(wholes)
        skipped = len(emitted) if whole.startswith(emitted) else len(whole)
        for text in wholes:
            yield text[skipped:]
            skipped = max(0, skipped - len(text))

    def joined(self, channel: Channel) -> str:
        """Everything of a channel."""
        return "".join(
            piece
            for (each, _), pieces in self._emitted.items()
            if each == channel
            for piece in pieces
        )


class OutputItem:
    """One output item, and how much of it was emitted."""

    def __init__(self, kind: str, number: int, output_index: int | None) -> None:
        self.kind = kind
        self.number = number
        self.output_index = output_index
        self.phase: str | None = None
        self.done = False
        self.is_server_call = False
        self.name: str | None = None
        """Of a call, once it is known."""
        self.call_id: str | None = None
        """Of a call, once it is known."""
        self.announced: Document | None = None
        """The start of a call that may be the server's own, until it is known whose it is."""
        self.annotations = 0
        self.is_started = False
        """It is a raw item, and its start was emitted."""
        self.texts = ItemTexts()

    def label(self, phase: str | None) -> None:
        """Take the label of a message, as far as the server gives one."""
        self.phase = phase

    def start(self) -> None:
        """Mark a raw item as started."""
        self.is_started = True

    def announce(self, document: Document) -> None:
        self.announced = document

    def finish(self) -> None:
        """Mark the item as done."""
        self.done = True

    def count_annotation(self) -> None:
        self.annotations += 1

    def identify(self, document: Document, server_tools: frozenset[str]) -> ToolCall | None:
        """Take call id and name of a call, each once; return a delta with those that are new.

        Some servers change the ids when an item is done."""
        self.announced = None
        self.is_server_call = nonempty_string(document.get("name")) in server_tools
        if self.is_server_call:
            return None
        call_id = None if self.call_id else nonempty_string(document.get("call_id"))
        name = None if self.name else nonempty_string(document.get("name"))
        self.call_id = self.call_id or call_id
        self.name = self.name or name
        if not call_id and not name:
            return None
        return ToolCall(self.number, call_id, name, kind=_CALLS[self.kind])

    def is_repeated(self, document: Document) -> bool:
        """Whether a document of the same kind says what was emitted of this item."""
        texts = _texts_of(document)
        is_same = all(self.texts.joined(channel) == text for channel, text in texts.items())
        return is_same and any(texts.values()) and self.name == document.get("name")


class ItemIndex:
    """The items of one response by id, by index and in order: finds the item that is meant."""

    def __init__(self) -> None:
        self._items: list[OutputItem] = []
        self._by_id: dict[str, OutputItem] = {}
        self._by_index: dict[int, OutputItem] = {}
        self._indices_repeat = False

    @property
    def all_done(self) -> bool:
        """There was at least one item, and every item was reported as done."""
        return bool(self._items) and all(item.done for item in self._items)

    def find(
        self, kind: str, item_id: Any, output_index: Any, *, is_end: bool = False
    ) -> OutputItem:
        """Find the item of a streamed event, or start a new one. `is_end`: the event ends a part,
        which was begun before."""
        # {"item_id": "msg_1", "output_index": 0}
        item = self.find_by_id(kind, item_id)
        # {"item_id": "x2", "output_index": 0}: the id changes from event to event. An item that is
        # done gets no more deltas: with a new id, its index is that of a new item.
        item = item or self.find_by_index(kind, output_index, open_only=bool(item_id))
        # {"delta": "a"}: neither id nor index
        if item is None and not item_id and not isinstance(output_index, int):
            item = next((each for each in reversed(self._items) if each.kind == kind), None)
        if item is None and is_end:
            item = self.find_open(kind, item_id)
        return item or self.add(kind, item_id, output_index)

    def find_open(self, kind: str, item_id: Any) -> OutputItem | None:
        """Find the item that an event without an id ends: vLLM gives it the index of the next item
        (vllm-project/vllm#23927)."""
        if item_id or kind in _CALLS:
            return None
        return next((each for each in self._items if each.kind == kind and not each.done), None)

    def find_any(self, item_id: Any, output_index: Any) -> OutputItem | None:
        """Find an item of any kind."""
        item = self._by_id.get(item_id) if isinstance(item_id, str) else None
        if item is None:
            item = self._by_index.get(output_index) if isinstance(output_index, int) else None
        return item

    def find_by_id(self, kind: str, item_id: Any) -> OutputItem | None:
        if not isinstance(item_id, str):
            return None
        # {"item_id": "fc_call_1"}, of a call that has no other id than "call_1"
        item = self._by_id.get(item_id) or self._by_id.get(item_id.removeprefix("fc_"))
        return item if item is not None and item.kind == kind else None

    def find_by_index(self, kind: str, output_index: Any, *, open_only: bool) -> OutputItem | None:
        item = self._by_index.get(output_index) if isinstance(output_index, int) else None
        if item is None or item.kind != kind or (open_only and item.done):
            return None
        return item

    def add(self, kind: str, item_id: Any, output_index: Any) -> OutputItem:
        """Start a new item."""
        index = output_index if isinstance(output_index, int) else None
        item = OutputItem(kind, len(self._items), index)
        self._items.append(item)
        if isinstance(item_id, str) and item_id:
            self._by_id[item_id] = item
        if index is not None:
            self._indices_repeat = self._indices_repeat or index in self._by_index
            self._by_index[index] = item
        return item

    def match(self, documents: Sequence[Document]) -> list[OutputItem | None]:
        """Find the streamed item of each item in `output`; None for those not streamed."""
        # By id first: an item known by its id is no candidate for another one.
        matches = [self.find_by_id(kind_of(document), id_of(document)) for document in documents]
        for index, document in enumerate(documents):
            call = self.find_call(document) if matches[index] is None else None
            if call not in matches:
                matches[index] = call
        candidates = [item for item in self._items if item not in matches]
        return [
            item or self._take_match(candidates, documents[index], index)
            for index, item in enumerate(matches)
        ]

    def find_call(self, document: Document) -> OutputItem | None:
        """Find a call by its call id."""
        call_id = nonempty_string(document.get("call_id"))
        kind = kind_of(document)
        same = (item for item in self._items if item.kind == kind and item.call_id == call_id)
        return None if call_id is None else next(same, None)

    def name_call(self, item: OutputItem, call_id: str | None) -> None:
        """Let events find a call by its call id: that of llama.cpp and Ollama may have no other id
        and no index (can1357/oh-my-pi#2016 and #2719)."""
        if call_id is not None and self.find_open_call(item.kind, call_id) is None:
            self._by_id[call_id] = item

    def find_open_call(self, kind: str, call_id: str | None) -> OutputItem | None:
        item = self.find_by_id(kind, call_id)
        return None if item is None or item.done else item

    def _take_match(
        self, candidates: list[OutputItem], document: Document, index: int
    ) -> OutputItem | None:
        same_kind = [item for item in candidates if item.kind == kind_of(document)]
        # output[1] is the item of {"output_index": 1}, though its id has changed.
        by_index = (item for item in same_kind if item.output_index == index)
        # Indices are missing, or the same for every item ({"output_index": 0} always): by order.
        by_order = (item for item in same_kind if item.output_index is None or self._indices_repeat)
        # vLLM makes the output anew, with other ids, and without empty messages
        # (vllm-project/vllm#56285 and #47916): by what it says.
        by_content = (item for item in same_kind if item.is_repeated(document))
        match = next(chain(by_index, by_order, by_content), None)
        if match is not None:
            candidates.remove(match)
        return match


class OutputItems:
    """All output items of one response: emits the deltas of their events."""

    def __init__(self, server_tools: frozenset[str] = frozenset()) -> None:
        """`server_tools` are those that the provider executes itself."""
        self._server_tools = server_tools
        self._index = ItemIndex()
        self._raw_ids: set[str] = set()
        self._current: OutputItem | None = None

    @property
    def all_done(self) -> bool:
        """There was at least one item, and every item was reported as done."""
        return self._index.all_done

    def find(
        self, kind: str, item_id: Any, output_index: Any, *, is_end: bool = False
    ) -> OutputItem:
        """Find the item of a streamed event, or start a new one. `is_end`: the event ends a part,
        which was begun before."""
        return self._index.find(kind, item_id, output_index, is_end=is_end)

    # Streaming

    def add(self, document: Any, output_index: Any) -> Iterator[Delta]:
        """Start an item. Content that it already has is emitted when it is done."""
        kind = kind_of(document)
        item_id = id_of(document)
        item = self._index.find_by_id(kind, item_id)
        if item is None or item.done:  # a done item: its server gives every item the same id
            item = self._index.add(kind, item_id, output_index)
        item.label(phase_of(document))
        if kind in _CALLS:
            self._index.name_call(item, nonempty_string(document.get("call_id")))
            # One that begins as completed may be the server's own (Perplexity's search is): then
            # it has no arguments, and is another item when it is done.
            if document.get("status") == "completed":
                item.announce(document)
            else:
                yield from self._start_call(item, document)
        elif kind and kind not in _CONTENT and not item.is_started:
            item.start()
            yield from self._switch_to(item)
            yield RawItemStarted(item.number, self._with_unique_id(document))

    def pass_on_event(self, kind: str, event: Document) -> Iterator[Delta]:
        """Emit an event of an open raw item; without one, the event only goes to the trace.

        `{"type": "response.web_search_call.searching", "item_id": "ws_1", "output_index": 0}`
        """
        item = self._index.find_any(event.get("item_id"), event.get("output_index"))
        if item is None or not item.is_started or item.done:
            yield Extra(kind)
        else:
            fields = {name: event[name] for name in event if name not in _NOT_PASSED_ON}
            yield RawItemEvent(item.number, kind, fields)

    def emit(
        self, item: OutputItem, channel: Channel, text: Any, part: Any = 0, logprobs: Any = None
    ) -> Iterator[Delta]:
        """Emit a delta of an item."""
        if item.announced is not None:
            yield from self._start_call(item, item.announced)
        if not isinstance(text, str) or not text or item.is_server_call:
            return
        number = item.texts.open_part(channel, part if isinstance(part, int) else 0)
        item.texts.record(channel, number, text)
        yield from self._switch_to(item)
        if channel == "text":
            yield Text(text, read_logprobs({"content": logprobs}) if logprobs else ())
        elif channel == "refusal":
            yield Refusal(text)
        elif channel == "arguments":
            yield ToolCall(item.number, arguments=text, kind=_CALLS[item.kind])
        else:
            yield Reasoning(text, channel, number)

    def emit_rest(
        self, item: OutputItem, channel: Channel, whole: Any, part: Any = 0
    ) -> Iterator[Delta]:
        """Emit what the deltas of a finished part left out."""
        if isinstance(whole, str):
            number = item.texts.open_part(channel, part if isinstance(part, int) else 0)
            yield from self.emit(item, channel, item.texts.missing(channel, number, whole), number)
            item.texts.end_part()

    def annotate(self, item: OutputItem, annotation: Any) -> Iterator[Delta]:
        if isinstance(annotation, dict):
            item.count_annotation()
            yield from self._switch_to(item)
            yield Annotation(complete_citation(annotation))

    def _switch_to(self, item: OutputItem) -> Iterator[Delta]:
        if self._current is not item:
            follows = self._current is not None and item.kind in ("message", "reasoning")
            if follows or item.phase is not None:
                yield ItemEnd(item.phase)
            self._current = item

    # Finishing

    def finish(self, document: Any, output_index: Any) -> Iterator[Delta]:
        """Emit whatever of a finished item was not emitted yet."""
        kind = kind_of(document)
        item_id = id_of(document)
        item = self._index.find_by_id(kind, item_id)
        item = item or self._index.find_by_index(kind, output_index, open_only=True)
        if item is None and kind in _CALLS:
            item = self._index.find_open_call(kind, nonempty_string(document.get("call_id")))
        item = item or self._index.find_open(kind, item_id)
        item = item or self._index.add(kind, item_id, output_index)
        yield from self._finish_item(item, document)

    def reconcile(self, output: Any) -> Iterator[Delta]:
        """Compare the stream with the `output` of the terminal event, and emit the difference.

        Unfinished items come first; items that were not streamed at all come after them.
        """
        documents = [document for document in as_list(output) if isinstance(document, dict)]
        streamed = self._index.match(documents)
        for document, item in zip(documents, streamed, strict=True):
            if item is not None:
                yield from self._finish_item(item, document)
        for document, item in zip(documents, streamed, strict=True):
            if item is None:
                new = self._index.add(kind_of(document), id_of(document), None)
                yield from self._finish_item(new, document)

    def _finish_item(self, item: OutputItem, document: Any) -> Iterator[Delta]:
        if item.done:
            return
        item.finish()
        if item.kind in _CALLS:
            yield from self._finish_call(item, document)
        elif item.kind == "message":
            yield from self._finish_message(item, document)
        elif item.kind == "reasoning":
            yield from self._finish_reasoning(item, document)
        else:
            yield from self._pass_on(item, document)

    def _finish_message(self, item: OutputItem, document: Document) -> Iterator[Delta]:
        if document.get("role") not in (None, "assistant"):
            yield Extra("message", document)
            return
        item.label(item.phase or phase_of(document))
        parts = []
        for part in parts_of(document.get("content"), "output_text"):
            if nonempty_string(part.get("type")) in _MESSAGE_PARTS:
                parts.append(part)
            else:
                yield Extra("content_part", part)
        texts = item.texts.missing_of_parts("text", [string_of(part, "text") for part in parts])
        refusals = item.texts.missing_of_parts(
            "refusal", [string_of(part, "refusal") for part in parts]
        )
        emitted = item.annotations
        for part, text, refusal in zip(parts, texts, refusals, strict=True):
            logprobs = part.get("logprobs") if text == part.get("text") else None
            yield from self.emit(item, "text", text, 0, logprobs)
            yield from self.emit(item, "refusal", refusal)
            annotations = as_list(part.get("annotations"))
            for annotation in annotations[emitted:]:
                yield from self.annotate(item, annotation)
            emitted = max(0, emitted - len(annotations))

    def _finish_reasoning(self, item: OutputItem, document: Document) -> Iterator[Delta]:
        channels: tuple[tuple[Channel, str], ...] = (("summary", "summary"), ("raw", "content"))
        for channel, field in channels:
            wholes = [string_of(part, "text") for part in parts_of(document.get(field), "text")]
            for number, text in enumerate(item.texts.missing_of_parts(channel, wholes)):
                if number:
                    item.texts.end_part()
                yield from self.emit(item, channel, text, number)
        if item.texts.is_empty:
            yield from self._switch_to(item)
            yield EmptyReasoning()
        # {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
        if document.get("encrypted_content"):
            yield from self._switch_to(item)
            state = {name: value for name, value in document.items() if name not in _NOT_STATE}
            yield ReasoningState(SCHEME, state, "block")

    def _start_call(self, item: OutputItem, document: Document) -> Iterator[Delta]:
        """Emit call id and name of a call."""
        call = item.identify(document, self._server_tools)
        if call is not None:
            yield from self._switch_to(item)
            yield call

    def _finish_call(self, item: OutputItem, document: Document) -> Iterator[Delta]:
        # Arguments may have been streamed before any event named the function.
        yield from self._start_call(item, document)
        if item.is_server_call or item.name is None:
            yield Extra("call", document)
            return
        yield from self.emit_rest(item, "arguments", _arguments_of(document))
        yield ToolEnd(item.number, document.get("status") != "incomplete")

    def _pass_on(self, item: OutputItem, document: Any) -> Iterator[Delta]:
        """Emit an item of another kind unchanged: `{"type": "web_search_call", "id": "ws_1"}`."""
        if not item.kind:
            yield Extra("item", document)
            return
        if item.is_started:
            yield RawItem(document, item.number)
            return
        yield from self._switch_to(item)
        yield RawItem(self._with_unique_id(document))

    def _with_unique_id(self, document: Document) -> Document:
        """Drop a repeated id: clients identify items by their ids."""
        item_id = id_of(document)
        if item_id in self._raw_ids:
            return {name: value for name, value in document.items() if name != "id"}
        if item_id is not None:
            self._raw_ids.add(item_id)
        return document


def kind_of(document: Any) -> str:
    return (nonempty_string(document.get("type")) or "") if isinstance(document, dict) else ""


def id_of(document: Any) -> str | None:
    return nonempty_string(document.get("id")) if isinstance(document, dict) else None


def phase_of(document: Any) -> str | None:
    """The label of a message, such as `commentary`."""
    return nonempty_string(document.get("phase")) if kind_of(document) == "message" else None


def _texts_of(document: Document) -> Mapping[Channel, str]:
    """What a whole item says, by channel."""
    kind = kind_of(document)
    if kind in _CALLS:
        return {"arguments": _arguments_of(document)}
    if kind == "message":
        return {"text": _join_parts(document.get("content"))}
    summary = _join_parts(document.get("summary"))
    return {"raw": _join_parts(document.get("content")), "summary": summary}


def _join_parts(content: Any) -> str:
    return "".join(string_of(part, "text") for part in parts_of(content, "text"))


def _arguments_of(document: Document) -> str:
    """The arguments of a call, or its free text: `{"arguments": {"x": 1}}` from some servers."""
    arguments = document.get("input" if kind_of(document) == "custom_tool_call" else "arguments")
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return msgspec.json.encode(arguments).decode()


def as_list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def parts_of(content: Any, kind: str) -> Iterator[Document]:
    """The parts of a content, which some servers send as a string (`"content": "Hello"`)."""
    for part in [content] if isinstance(content, str) else as_list(content):
        if isinstance(part, str):
            yield {"type": kind, "text": part}
        elif isinstance(part, dict):
            yield part


def string_of(part: Document, field: str) -> str:
    return nonempty_string(part.get(field)) or ""


def complete_citation(annotation: Document) -> Document:
    """Add the fields of a citation that clients require."""
    if annotation.get("type") != "url_citation":
        return annotation
    return {
        **annotation,
        "title": nonempty_string(annotation.get("title")) or "",
        "start_index": count(annotation.get("start_index")),
        "end_index": count(annotation.get("end_index")),
    }
