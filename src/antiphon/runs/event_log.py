"""Event log: the events of one response, numbered once, for any number of readers.

It keeps events, and no bytes: each reader renders them in the format that its client speaks
(docs/adr/0074-a-client-dialect-renders-events.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

import msgspec

from antiphon.core.events import TERMINAL_TYPES, Event, Failed, HostedToolEvent, ItemDone
from antiphon.core.items import Document
from antiphon.dialects.client_dialect import EventBatch
from antiphon.store.run_log import BEFORE_FIRST

JOINED_BYTES = 64 * 1024
_TYPICAL_BYTES = 256  # of a rendered event, where it is not rendered yet


class EventLog:
    """Numbers batches of events. Readers see the first `visible` batches of those it keeps."""

    __slots__ = (
        "_keeps_events",
        "_waiting",
        "batches",
        "has_ended",
        "has_failed",
        "is_closed",
        "is_finishing",
        "next_number",
        "visible",
    )

    def __init__(self, *, keeps_events: bool = True, earlier: Sequence[EventBatch] = ()) -> None:
        """`keeps_events`: whether anybody but the first reader may read them. `earlier` are batches
        that readers may have seen already."""
        self.batches = [*earlier]
        self.visible = len(earlier)
        self.next_number = self.last_visible + 1
        """The number of the next event."""
        self.has_ended = False
        """Whether the terminal event is in the log."""
        self.has_failed = False
        self.is_closed = False
        """Whether nothing more will be visible, whatever is missing."""
        self.is_finishing = False
        """Whether the terminal event is being stored."""
        self._keeps_events = keeps_events
        self._waiting: list[asyncio.Future[None]] = []

    def feed(self, events: Sequence[Event]) -> EventBatch:
        """Number a batch; keep it, and show it to readers."""
        if self._keeps_events:
            batch = self.add(events)
            self.show()
            return batch
        batch = EventBatch(self.next_number, events)
        self.next_number += len(events)
        return batch

    def add(self, events: Sequence[Event]) -> EventBatch:
        """Number and keep a batch, without showing it to readers."""
        batch = EventBatch(self.next_number, events)
        self.next_number += len(events)
        self.batches.append(batch)
        self.has_ended = type(events[-1]) in TERMINAL_TYPES
        self.has_failed = type(events[-1]) is Failed
        return batch

    def replace_last(self, events: Sequence[Event]) -> None:
        """Keep other events instead of the last batch, which was not shown to readers."""
        self.next_number = self.batches.pop().first
        self.add(events)

    @property
    def last_visible(self) -> int:
        """The number of the last event that readers see."""
        return self.batches[self.visible - 1].last if self.visible else BEFORE_FIRST

    def show(self, count: int | None = None) -> None:
        """Let readers see the first batches, or all of them."""
        self.visible = len(self.batches) if count is None else count
        self._wake()

    def close(self) -> None:
        self.is_closed = True
        self._wake()

    async def wait(self) -> None:
        """Wait until more is visible, or the log is closed."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        await waiting

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)


def join_batches(batches: Sequence[EventBatch]) -> list[EventBatch]:
    """Join consecutive batches, to as few as have about `JOINED_BYTES` each: a row of a store, or a
    write to a socket, costs more than its bytes do."""
    joined: list[EventBatch] = []
    group: list[EventBatch] = []
    size = 0
    for batch in batches:
        group.append(batch)
        size += _size(batch)
        if size >= JOINED_BYTES:
            joined.append(_join(group))
            group = []
            size = 0
    if group:
        joined.append(_join(group))
    return joined


def _size(batch: EventBatch) -> int:
    return len(batch.events) * _TYPICAL_BYTES if batch.frames is None else len(batch.frames)


def _join(group: Sequence[EventBatch]) -> EventBatch:
    if len(group) == 1:
        return group[0]
    events = [event for batch in group for event in batch.events]
    frames = [batch.frames for batch in group if batch.frames is not None]
    is_rendered = len(frames) == len(group)
    return EventBatch(group[0].first, events, b"".join(frames) if is_rendered else None)


def batch_after(batch: EventBatch, after: int) -> EventBatch:
    """Return the events of a batch whose numbers are greater than `after`."""
    if after < batch.first:
        return batch
    return EventBatch(after + 1, batch.events[after + 1 - batch.first :])


def finished_items(batches: Iterable[EventBatch]) -> list[Document]:
    """Return the output items that were finished in these batches, as their events have them."""
    return [item for batch in batches for event in batch.events if (item := _finished_item(event))]


def _finished_item(event: Event) -> Document | None:
    if type(event) is ItemDone:
        item: Document = msgspec.to_builtins(event.item)
        return item
    if type(event) is HostedToolEvent and event.type == "response.output_item.done":
        return event.fields["item"]  # type: ignore[no-any-return]
    return None
