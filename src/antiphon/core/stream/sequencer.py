"""Who is on the air: one item at a time, the others in line behind it.

Text and reasoning yield at once, a call when its arguments are complete, an item that came whole
does not even stay. What waits is told in one piece when its turn comes.
"""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

from antiphon.core.stream.blocks import (
    RawBlock,
    ReasoningBlock,
    RefusalBlock,
    SearchBlock,
    TextBlock,
)
from antiphon.core.stream.call_block import CallBlock
from antiphon.wire.events import Event
from antiphon.wire.items import Item, Status

Block: TypeAlias = TextBlock | RefusalBlock | ReasoningBlock | RawBlock | SearchBlock | CallBlock


class OutputSequencer:
    def __init__(self) -> None:
        self.holder: Block | None = None
        self._items: list[Item] = []
        self.waiting: deque[Block] = deque()
        self._parted = False
        self.phase: str | None = None
        """The label of the message that comes next."""

    @property
    def output(self) -> tuple[Item, ...]:
        """Every item that has been told, the open one as far as it has come."""
        if self.holder is None or not self.holder.announced:
            return tuple(self._items)
        return (*self._items, self.holder.item())

    def told(self, since: int) -> list[Item]:
        """What was told since so many items, and calls that are whole and only wait for the air."""
        whole = [block for block in self.waiting if isinstance(block, CallBlock) and block.settled]
        return [*self._items[since:], *(block.item("completed") for block in whole)]

    @property
    def count(self) -> int:
        """How many items are over."""
        return len(self._items)

    @property
    def open_blocks(self) -> list[Block]:
        return [*([self.holder] if self.holder is not None else []), *self.waiting]

    @property
    def tail(self) -> Block | None:
        """The block that what comes next may continue."""
        if self._parted:
            return None
        return self.waiting[-1] if self.waiting else self.holder

    def part(self, phase: str | None = None) -> None:
        """What comes next begins a block of its own."""
        self._parted, self.phase = True, phase

    def queue(self, block: Block) -> None:
        self.waiting.append(block)
        self._parted, self.phase = False, None

    def advance(self) -> list[Event]:
        """Give the air to whoever waits, for as long as its holder may yield."""
        events: list[Event] = []
        while self.waiting:
            holder = self.holder
            if isinstance(holder, CallBlock):
                if holder.nameless or not holder.settled:
                    break
                events += self.close(holder.status(ended_well=False))
            elif holder is not None:
                events += self.close("completed")
            events += self._next()
        return events

    def _next(self) -> list[Event]:
        self.holder = block = self.waiting.popleft()
        events = block.go_live(len(self._items))
        return events + self.close("completed") if isinstance(block, RawBlock) else events

    def close(self, status: Status) -> list[Event]:
        """Close the item on the air."""
        assert self.holder is not None
        events, item = self.holder.close(status)
        self._items.append(item)
        self.holder = None
        return events

    def clear(self) -> list[Event]:
        """Close all that may yield: not a call that is not whole, nor who waits for it."""
        events = self.advance()
        if self.holder is not None and not _stays(self.holder):
            events += self.close("completed")
        return events

    def close_all(self, last: Status, *, ended_well: bool, publish: bool) -> list[Event]:
        """Close every open block in order; `last` is the status of the last one."""
        events: list[Event] = []
        while self.holder is not None or self.waiting:
            block = self.holder
            if block is None:
                events += self._next()
            elif isinstance(block, CallBlock):
                status = block.status(ended_well=ended_well)
                events += self._end_call(block, status, publish=publish)
            elif self.waiting or publish or last == "completed" or isinstance(block, _WHOLE):
                events += self.close("completed" if self.waiting else last)
            else:
                # Half a sentence of an answer that failed is kept, but never told to be done:
                # clients that ask again would take it for something that was said.
                self._items.append(block.item(last))
                self.holder = None
        return events

    def _end_call(self, block: CallBlock, status: Status, *, publish: bool) -> list[Event]:
        """A whole call is done. A cut one is done only as incomplete, and never in a failure:
        clients run a call as soon as they see it done."""
        if not block.nameless and (publish or status == "completed"):
            return self.close(status)
        if block.announced:
            self._items.append(block.item(status))
        self.holder = None
        return []


_WHOLE = RawBlock | SearchBlock


def _stays(block: Block) -> bool:
    return isinstance(block, CallBlock) and (block.nameless or not block.settled)
