"""Items while they grow: messages and reasoning. Calls have a page of their own (`core.calls`).

1. A block is born off the air: it only collects. `go_live` announces it and tells the client, in
   one piece, what was collected; from then on every `grow` is an event.
2. `close` ends it with a status and gives the finished item.
3. Text is kept in pieces and joined once: the cost of a delta never depends on what came before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, TypeAlias

from msgspec import UNSET, UnsetType

from antiphon.core.stream.deltas import ReasoningKind, ReasoningState
from antiphon.wire.events import (
    AnnotationAdded,
    Event,
    ItemAdded,
    ItemDone,
    MCPArgumentsDelta,
    MCPArgumentsDone,
    PartAdded,
    PartDone,
    ReasoningDelta,
    ReasoningDone,
    RefusalDelta,
    RefusalDone,
    SearchCompleted,
    Searching,
    SearchInProgress,
    SummaryDelta,
    SummaryDone,
    SummaryPartAdded,
    SummaryPartDone,
    TextDelta,
    TextDone,
)
from antiphon.wire.items import (
    Document,
    Item,
    Message,
    OutputText,
    ReasoningItem,
    ReasoningText,
    RefusalText,
    Status,
    SummaryText,
)

Seal: TypeAlias = Callable[[Sequence[ReasoningState], str], str]
"""Provider state and the raw reasoning beside it → `encrypted_content`."""


class TextBlock:
    """A message with one `output_text` part."""

    prefix: ClassVar[str] = "msg"

    def __init__(self, item_id: str, phase: str | None = None) -> None:
        self.id = item_id
        self.output_index = -1
        self.announced = False
        self._phase = phase or UNSET
        self._pieces: list[str] = []
        self._logprobs: list[Document] = []
        self._annotations: list[Document] = []

    def grow(self, text: str, logprobs: Sequence[Document] = ()) -> list[Event]:
        self._pieces.append(text)
        self._logprobs += logprobs
        if not self.announced:
            return []
        return [TextDelta(self.id, self.output_index, 0, text, logprobs)]

    def annotate(self, annotation: Document) -> list[Event]:
        self._annotations.append(annotation)
        if not self.announced:
            return []
        return [self._annotation_added(len(self._annotations) - 1)]

    def _annotation_added(self, number: int) -> Event:
        annotation = self._annotations[number]
        return AnnotationAdded(self.id, self.output_index, 0, number, annotation)

    def go_live(self, output_index: int) -> list[Event]:
        self.announced = True
        self.output_index = output_index
        events: list[Event] = [
            ItemAdded(output_index, self._message("in_progress")),
            PartAdded(self.id, output_index, 0, OutputText()),
        ]
        if self._pieces:
            text = "".join(self._pieces)
            events.append(TextDelta(self.id, output_index, 0, text, tuple(self._logprobs)))
        return events + [self._annotation_added(n) for n in range(len(self._annotations))]

    def _part(self) -> OutputText:
        return OutputText("".join(self._pieces), tuple(self._annotations), tuple(self._logprobs))

    def _message(self, status: Status, *content: OutputText) -> Message:
        return Message(id=self.id, status=status, content=content, phase=self._phase)

    def item(self, status: Status = "in_progress") -> Item:
        return self._message(status, self._part())

    def close(self, status: Status) -> tuple[list[Event], Item]:
        part = self._part()
        item = self._message(status, part)
        return [
            TextDone(self.id, self.output_index, 0, part.text, part.logprobs),
            PartDone(self.id, self.output_index, 0, part),
            ItemDone(self.output_index, item),
        ], item


class RefusalBlock:
    """A message with one `refusal` part."""

    prefix: ClassVar[str] = "msg"

    def __init__(self, item_id: str) -> None:
        self.id = item_id
        self.output_index = -1
        self.announced = False
        self._pieces: list[str] = []

    def grow(self, text: str) -> list[Event]:
        self._pieces.append(text)
        if not self.announced:
            return []
        return [RefusalDelta(self.id, self.output_index, 0, text)]

    def go_live(self, output_index: int) -> list[Event]:
        self.announced = True
        self.output_index = output_index
        return [
            ItemAdded(output_index, Message(id=self.id, status="in_progress")),
            PartAdded(self.id, output_index, 0, RefusalText()),
            RefusalDelta(self.id, output_index, 0, "".join(self._pieces)),
        ]

    def item(self, status: Status = "in_progress") -> Item:
        part = RefusalText("".join(self._pieces))
        return Message(id=self.id, status=status, content=(part,))

    def close(self, status: Status) -> tuple[list[Event], Item]:
        part = RefusalText("".join(self._pieces))
        item = Message(id=self.id, status=status, content=(part,))
        return [
            RefusalDone(self.id, self.output_index, 0, part.refusal),
            PartDone(self.id, self.output_index, 0, part),
            ItemDone(self.output_index, item),
        ], item


class _Thought:
    """One part of a reasoning item: raw text or a summary."""

    def __init__(self, kind: ReasoningKind, number: int, index: int) -> None:
        self.kind = kind
        self.number = number
        self.index = index
        self.pieces: list[str] = []

    def added(self, item_id: str, output_index: int) -> Event:
        if self.kind == "raw":
            return PartAdded(item_id, output_index, self.index, ReasoningText())
        return SummaryPartAdded(item_id, output_index, self.index, SummaryText())

    def delta(self, item_id: str, output_index: int, text: str) -> Event:
        if self.kind == "raw":
            return ReasoningDelta(item_id, output_index, self.index, text)
        return SummaryDelta(item_id, output_index, self.index, text)

    def done(self, item_id: str, output_index: int) -> list[Event]:
        text = "".join(self.pieces)
        if self.kind == "raw":
            return [
                ReasoningDone(item_id, output_index, self.index, text),
                PartDone(item_id, output_index, self.index, ReasoningText(text)),
            ]
        return [
            SummaryDone(item_id, output_index, self.index, text),
            SummaryPartDone(item_id, output_index, self.index, SummaryText(text)),
        ]


class ReasoningBlock:
    """A reasoning item: raw and summary parts, and the state its provider wants back."""

    prefix: ClassVar[str] = "rs"

    def __init__(self, item_id: str, seal: Seal | None) -> None:
        self.id = item_id
        self.output_index = -1
        self.announced = False
        self._seal = seal
        self._thoughts: list[_Thought] = []
        self._states: list[ReasoningState] = []

    def grow(self, text: str, kind: ReasoningKind, number: int) -> list[Event]:
        events: list[Event] = []
        thought = self._thoughts[-1] if self._thoughts else None
        if thought is None or thought.kind != kind or thought.number != number:
            thought, events = self._turn_to(kind, number)
        thought.pieces.append(text)
        if self.announced:
            events.append(thought.delta(self.id, self.output_index, text))
        return events

    def _turn_to(self, kind: ReasoningKind, number: int) -> tuple[_Thought, list[Event]]:
        events: list[Event] = []
        index = sum((thought.kind == "raw") == (kind == "raw") for thought in self._thoughts)
        thought = _Thought(kind, number, index)
        if self.announced:
            events += self._close_thought()
            events.append(thought.added(self.id, self.output_index))
        self._thoughts.append(thought)
        return thought, events

    def keep(self, state: ReasoningState) -> None:
        """Remember state to be sealed into the item when it closes."""
        self._states.append(state)

    def _close_thought(self) -> list[Event]:
        return self._thoughts[-1].done(self.id, self.output_index) if self._thoughts else []

    def go_live(self, output_index: int) -> list[Event]:
        self.announced = True
        self.output_index = output_index
        blank = ReasoningItem(
            id=self.id, status="in_progress", content=() if self._raw() else UNSET
        )
        events: list[Event] = [ItemAdded(output_index, blank)]
        for position, thought in enumerate(self._thoughts):
            events.append(thought.added(self.id, output_index))
            events.append(thought.delta(self.id, output_index, "".join(thought.pieces)))
            if position < len(self._thoughts) - 1:
                events += thought.done(self.id, output_index)
        return events

    def _raw(self) -> list[_Thought]:
        return [thought for thought in self._thoughts if thought.kind == "raw"]

    def item(self, status: Status = "in_progress") -> Item:
        raw = tuple(ReasoningText("".join(thought.pieces)) for thought in self._raw())
        return ReasoningItem(
            id=self.id,
            status=status,
            summary=tuple(
                SummaryText("".join(thought.pieces))
                for thought in self._thoughts
                if thought.kind != "raw"
            ),
            content=raw or UNSET,
            encrypted_content=UNSET if status == "in_progress" else self._sealed(),
        )

    def _sealed(self) -> str | UnsetType:
        thoughts = [thought for thought in self._thoughts if thought.kind != "summary"]
        raw = "".join(piece for thought in thoughts for piece in thought.pieces)
        if self._seal is None or not (raw or self._states):
            return UNSET
        return self._seal(self._states, raw)

    def close(self, status: Status) -> tuple[list[Event], Item]:
        item = self.item(status)
        return [*self._close_thought(), ItemDone(self.output_index, item)], item


class RawBlock:
    """An item that came whole: it is told as it came, but for an id or a status that cannot be."""

    def __init__(self, document: Document, new_id: Callable[[str], str]) -> None:
        self.output_index = -1
        self.announced = False
        self._document = _mended(document, new_id)
        self.id: str = self._document["id"]

    def go_live(self, output_index: int) -> list[Event]:
        self.announced = True
        self.output_index = output_index
        events: list[Event] = [ItemAdded(output_index, _begun(self._document))]
        match self._document:
            case {"type": "mcp_call", "arguments": str(text)}:
                events.append(MCPArgumentsDelta(self.id, output_index, text))
                events.append(MCPArgumentsDone(self.id, output_index, text))
        return events

    def item(self) -> Item:
        return self._document

    def close(self, status: Status) -> tuple[list[Event], Item]:
        """Its own status stands, whatever becomes of the response."""
        item = self.item()
        return [ItemDone(self.output_index, item)], item


class SearchBlock:
    """A search of the web that is under way: it stays on the air until it is over."""

    prefix: ClassVar[str] = "ws"

    def __init__(self, item_id: str, action: Document) -> None:
        self.id = item_id
        self.output_index = -1
        self.announced = False
        self._document: Document = {
            "type": "web_search_call",
            "id": item_id,
            "status": "in_progress",
            "action": action,
        }

    def go_live(self, output_index: int) -> list[Event]:
        self.announced = True
        self.output_index = output_index
        return [
            ItemAdded(output_index, {**self._document, "status": "in_progress"}),
            SearchInProgress(self.id, output_index),
            Searching(self.id, output_index),
        ]

    def end(self, action: Document, status: str) -> None:
        self._document = {**self._document, "action": action, "status": status}

    def item(self) -> Item:
        return self._document

    def close(self, status: Status) -> tuple[list[Event], Item]:
        """Over, one way or the other: the API has one event for both. A search that nobody ended
        has failed, whatever becomes of the response."""
        if self._document["status"] == "in_progress":
            self.end(self._document["action"], "failed")
        completed = SearchCompleted(self.id, self.output_index)
        return [completed, ItemDone(self.output_index, self._document)], self._document


_ID = re.compile(r"[a-z]+_\S+")
_PREFIXES: Mapping[str, str] = {
    "web_search_call": "ws",
    "file_search_call": "fs",
    "code_interpreter_call": "ci",
    "image_generation_call": "ig",
    "computer_call": "cu",
    "shell_call": "sh",
    "local_shell_call": "lsh",
    "apply_patch_call": "apc",
    "mcp_call": "mcp",
    "mcp_list_tools": "mcpl",
    "mcp_approval_request": "mcpr",
    "tool_search_call": "tsc",
    "compaction": "cmp",
}
_UNDER_WAY = frozenset("in_progress searching interpreting generating calling queued".split())


def _mended(document: Document, new_id: Callable[[str], str]) -> Document:
    """The same item with an id that clients accept, and with a status that can be final."""
    item_id = document.get("id")
    if not isinstance(item_id, str) or not _ID.fullmatch(item_id):
        document = {**document, "id": new_id(_PREFIXES.get(str(document.get("type")), "item"))}
    if document.get("status") in _UNDER_WAY:  # it came as finished, whatever it says
        document = {**document, "status": "completed"}
    return document


def _begun(document: Document) -> Document:
    """The item as it is announced. Results that a server made itself have no beginning."""
    kind = str(document.get("type"))
    begun = dict(document)
    if "status" in begun and not kind.endswith("_output"):
        begun["status"] = "in_progress"
    if kind == "image_generation_call":  # an image need not be sent twice
        begun["result"] = None
    if kind == "mcp_call":
        begun["arguments"] = ""
    return begun
