"""Output blocks: messages, refusals, reasoning and searches while they are generated.

Tool calls are in `core.stream.call_block`, items that are passed on in `core.stream.raw_block`.

1. A new block only collects. `start_streaming` announces its item and sends what was collected in
   one piece; from then on every `append` is an event.
2. `close` ends the item with a status and returns it.
3. Text is kept in pieces: the cost of a delta never depends on earlier ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, TypeAlias

from msgspec import UNSET, UnsetType

from antiphon.core.deltas import BlockStart, ReasoningKind, ReasoningState
from antiphon.core.events import (
    AnnotationAdded,
    Event,
    ItemAdded,
    ItemDone,
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
from antiphon.core.items import (
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
"""Provider state and the raw reasoning of the same item → `encrypted_content`."""


_GROUP = 16
"""How many pieces are kept as they came: each takes some 60 bytes besides its characters."""


class _GrowingText:
    """Text that comes in pieces. They are joined once, in groups."""

    __slots__ = ("_full", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        """Groups, and the pieces after the last of them."""
        self._full = _GROUP
        """The length at which the pieces become a group."""

    def append(self, text: str) -> None:
        pieces = self._pieces
        pieces.append(text)
        if len(pieces) == self._full:
            first = self._full - _GROUP
            pieces[first:] = ["".join(pieces[first:])]
            self._full += 1

    @property
    def has_pieces(self) -> bool:
        return bool(self._pieces)

    @property
    def text(self) -> str:
        return "".join(self._pieces)


class _TextPart(_GrowingText):
    """One `output_text` part of a message."""

    __slots__ = ("annotations", "extra", "index", "logprobs")

    def __init__(self, index: int, opened: BlockStart | None) -> None:
        super().__init__()
        self.index = index
        self.extra = UNSET if opened is None else opened.extra
        self.logprobs: list[Document] = []
        self.annotations: list[Document] = []

    def set_extra(self, extra: Document) -> None:
        self.extra = extra

    def part(self) -> OutputText:
        return OutputText(self.text, tuple(self.annotations), tuple(self.logprobs), self.extra)

    def begin_events(self, item_id: str, output_index: int) -> list[Event]:
        """The part as far as it has come."""
        added = PartAdded(item_id, output_index, self.index, OutputText(extra=self.extra))
        events: list[Event] = [added]
        if self.has_pieces:
            logprobs = tuple(self.logprobs)
            events.append(TextDelta(item_id, output_index, self.index, self.text, logprobs))
        numbers = range(len(self.annotations))
        return events + [self.annotation_event(item_id, output_index, n) for n in numbers]

    def annotation_event(self, item_id: str, output_index: int, number: int) -> Event:
        annotation = self.annotations[number]
        return AnnotationAdded(item_id, output_index, self.index, number, annotation)

    def done_events(self, item_id: str, output_index: int, part: OutputText) -> list[Event]:
        """`part` is this part, complete."""
        return [
            TextDone(item_id, output_index, self.index, part.text, part.logprobs),
            PartDone(item_id, output_index, self.index, part),
        ]


class TextBlock:
    """A message with one `output_text` part; with several if the client has the format of the
    provider, whose content blocks they are."""

    __slots__ = ("_part", "_phase", "_whole", "announced", "id", "output_index")

    prefix: ClassVar[str] = "msg"

    def __init__(
        self, item_id: str, phase: str | None = None, opened: BlockStart | None = None
    ) -> None:
        """`opened`: how the provider has begun it, for a client of the same format."""
        self.id = item_id
        self.output_index = -1
        self.announced = False
        self._phase = phase or UNSET
        self._part = _TextPart(0, opened)
        self._whole: list[_TextPart] = []
        """The parts before the last one."""

    def append(self, text: str, logprobs: Sequence[Document] = ()) -> list[Event]:
        part = self._part
        part.append(text)
        if logprobs:
            part.logprobs.extend(logprobs)
        if not self.announced:
            return []
        return [TextDelta(self.id, self.output_index, part.index, text, logprobs)]

    def begin_part(self, opened: BlockStart) -> list[Event]:
        """End the part, and begin the next one."""
        ended = self._part
        self._whole.append(ended)
        self._part = _TextPart(ended.index + 1, opened)
        if not self.announced:
            return []
        events = ended.done_events(self.id, self.output_index, ended.part())
        return events + self._part.begin_events(self.id, self.output_index)

    def set_extra(self, extra: Document) -> None:
        """Replace the members of the last part that only the provider's own format has."""
        self._part.set_extra(extra)

    def annotate(self, annotation: Document) -> list[Event]:
        part = self._part
        part.annotations.append(annotation)
        if not self.announced:
            return []
        return [part.annotation_event(self.id, self.output_index, len(part.annotations) - 1)]

    def start_streaming(self, output_index: int) -> list[Event]:
        self.announced = True
        self.output_index = output_index
        events: list[Event] = [ItemAdded(output_index, self._message("in_progress"))]
        for part in self._whole:
            events += part.begin_events(self.id, output_index)
            events += part.done_events(self.id, output_index, part.part())
        return events + self._part.begin_events(self.id, output_index)

    def _message(self, status: Status, *content: OutputText) -> Message:
        return Message(self.id, status, "assistant", content, self._phase)

    def item(self, status: Status = "in_progress") -> Item:
        return self._message(status, *[each.part() for each in self._whole], self._part.part())

    def close(self, status: Status) -> tuple[list[Event], Item]:
        last = self._part.part()
        item = self._message(status, *[each.part() for each in self._whole], last)
        done = self._part.done_events(self.id, self.output_index, last)
        return [*done, ItemDone(self.output_index, item)], item


class RefusalBlock:
    """A message with one `refusal` part."""

    prefix: ClassVar[str] = "msg"

    def __init__(self, item_id: str) -> None:
        self.id = item_id
        self.output_index = -1
        self.announced = False
        self._pieces: list[str] = []

    def append(self, text: str) -> list[Event]:
        self._pieces.append(text)
        if not self.announced:
            return []
        return [RefusalDelta(self.id, self.output_index, 0, text)]

    def start_streaming(self, output_index: int) -> list[Event]:
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


class _ReasoningPart(_GrowingText):
    """One part of a reasoning item: raw text or a summary."""

    __slots__ = ("index", "kind", "number")

    def __init__(self, kind: ReasoningKind, number: int, index: int) -> None:
        super().__init__()
        self.kind = kind
        self.number = number
        self.index = index

    def added_event(self, item_id: str, output_index: int) -> Event:
        if self.kind == "raw":
            return PartAdded(item_id, output_index, self.index, ReasoningText())
        return SummaryPartAdded(item_id, output_index, self.index, SummaryText())

    def delta_event(self, item_id: str, output_index: int, text: str) -> Event:
        if self.kind == "raw":
            return ReasoningDelta(item_id, output_index, self.index, text)
        return SummaryDelta(item_id, output_index, self.index, text)

    def done_events(self, item_id: str, output_index: int) -> list[Event]:
        text = self.text
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
    """A reasoning item: raw and summary parts, and provider state for the next turn."""

    prefix: ClassVar[str] = "rs"

    def __init__(self, item_id: str, seal: Seal | None) -> None:
        self.id = item_id
        self.output_index = -1
        self.announced = False
        self._seal = seal
        self._parts: list[_ReasoningPart] = []
        self._raw_count = 0
        self._states: list[ReasoningState] = []

    def append(self, text: str, kind: ReasoningKind, number: int) -> list[Event]:
        events: list[Event] = []
        part = self._parts[-1] if self._parts else None
        if part is None or part.kind != kind or part.number != number:
            part, events = self._start_part(kind, number)
        part.append(text)
        if self.announced:
            events.append(part.delta_event(self.id, self.output_index, text))
        return events

    def _start_part(self, kind: ReasoningKind, number: int) -> tuple[_ReasoningPart, list[Event]]:
        events: list[Event] = []
        index = self._raw_count if kind == "raw" else len(self._parts) - self._raw_count
        self._raw_count += kind == "raw"
        part = _ReasoningPart(kind, number, index)
        if self.announced:
            events += self._close_part()
            events.append(part.added_event(self.id, self.output_index))
        self._parts.append(part)
        return part, events

    def add_state(self, state: ReasoningState) -> None:
        """Collect provider state, to be sealed into the item when it closes."""
        self._states.append(state)

    def _close_part(self) -> list[Event]:
        return self._parts[-1].done_events(self.id, self.output_index) if self._parts else []

    def start_streaming(self, output_index: int) -> list[Event]:
        self.announced = True
        self.output_index = output_index
        empty = ReasoningItem(
            id=self.id, status="in_progress", content=() if self._raw_parts() else UNSET
        )
        events: list[Event] = [ItemAdded(output_index, empty)]
        for position, part in enumerate(self._parts):
            events.append(part.added_event(self.id, output_index))
            events.append(part.delta_event(self.id, output_index, part.text))
            if position < len(self._parts) - 1:
                events += part.done_events(self.id, output_index)
        return events

    def _raw_parts(self) -> list[_ReasoningPart]:
        return [part for part in self._parts if part.kind == "raw"]

    def item(self, status: Status = "in_progress") -> Item:
        raw = tuple(ReasoningText(part.text) for part in self._raw_parts())
        return ReasoningItem(
            id=self.id,
            status=status,
            summary=tuple(SummaryText(part.text) for part in self._parts if part.kind != "raw"),
            content=raw or UNSET,
            encrypted_content=UNSET if status == "in_progress" else self._seal_state(),
        )

    def _seal_state(self) -> str | UnsetType:
        parts = [part for part in self._parts if part.kind != "summary"]
        raw = "".join(part.text for part in parts)
        if self._seal is None or not (raw or self._states):
            return UNSET
        return self._seal(self._states, raw)

    def close(self, status: Status) -> tuple[list[Event], Item]:
        item = self.item(status)
        return [*self._close_part(), ItemDone(self.output_index, item)], item


class SearchBlock:
    """A web search that the gateway runs; its item stays open until the search ends."""

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

    def start_streaming(self, output_index: int) -> list[Event]:
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
        """Close the item. A search that was never ended has failed, whatever the status of the
        response is. The API has no event for a failed search: the status of the item says it."""
        if self._document["status"] == "in_progress":
            self.end(self._document["action"], "failed")
        events: list[Event] = [ItemDone(self.output_index, self._document)]
        if self._document["status"] == "completed":
            events.insert(0, SearchCompleted(self.id, self.output_index))
        return events, self._document
