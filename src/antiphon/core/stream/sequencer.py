"""Output sequencer: streams one output item at a time; later items wait in a queue.

A provider may interleave items; the Responses API streams one after the other. Text and reasoning
are closed as soon as another item begins, a call when its arguments are complete, a raw item when
the provider has ended it. An item that had to wait is sent in one piece when its turn comes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from antiphon.core.deltas import ReasoningState
from antiphon.core.diagnostic import Diagnostic
from antiphon.core.events import Event
from antiphon.core.items import Item, Message, OutputText, ReasoningItem, Status
from antiphon.core.stream.blocks import ReasoningBlock, RefusalBlock, SearchBlock, TextBlock
from antiphon.core.stream.call_block import CallBlock
from antiphon.core.stream.raw_block import RawBlock
from antiphon.errors import IncompleteToolCall, ResponseTooLarge
from antiphon.framing.limits import DEFAULT_LIMITS, ResponseLimits

Block: TypeAlias = TextBlock | RefusalBlock | ReasoningBlock | RawBlock | SearchBlock | CallBlock


class OutputSequencer:
    """The item that is being streamed, the blocks that wait behind it, and the finished items."""

    __slots__ = (
        "_calls",
        "_items",
        "_limits",
        "current",
        "diagnostics",
        "item_ended",
        "next_phase",
        "waiting",
    )

    def __init__(self, limits: ResponseLimits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._calls = 0
        self.current: Block | None = None
        self.waiting: list[Block] = []
        self._items: list[Item] = []
        self.diagnostics: list[Diagnostic] = []
        """What clients should know about the calls that were closed."""
        self.item_ended = False
        """Whether the next delta begins a new item, even if it is of the same kind."""
        self.next_phase: str | None = None
        """The `phase` of the message that comes next."""

    @property
    def output(self) -> tuple[Item, ...]:
        """Every announced item; the current one as far as it has come."""
        if self.current is None or not self.current.announced:
            return tuple(self._items)
        return (*self._items, self.current.item())

    def finished_items(self, since: int) -> list[Item]:
        """The items finished after the first `since`, and complete calls that still wait."""
        calls = [block for block in self.waiting if isinstance(block, CallBlock)]
        complete = [call.item("completed") for call in calls if call.is_complete]
        return [*self._items[since:], *complete]

    @property
    def has_only_reasoning(self) -> bool:
        """Whether no item is anything else, finished or open; also if there is none."""
        is_reasoning = [isinstance(item, ReasoningItem) for item in self._items]
        is_reasoning += [isinstance(block, ReasoningBlock) for block in self.open_blocks]
        return all(is_reasoning)

    @property
    def finished_count(self) -> int:
        return len(self._items)

    @property
    def open_blocks(self) -> list[Block]:
        return [*([self.current] if self.current is not None else []), *self.waiting]

    @property
    def tail(self) -> Block | None:
        """The block that the next delta may continue."""
        if self.item_ended:
            return None
        return self.waiting[-1] if self.waiting else self.current

    def end_item(self, next_phase: str | None = None) -> None:
        """Make the next delta begin a new block, even if it is of the same kind."""
        self.item_ended = True
        self.next_phase = next_phase

    def seal_states(
        self, states: list[ReasoningState], block: Block, new_block: Callable[[], ReasoningBlock]
    ) -> None:
        """Move provider state into a reasoning item: this block, or a new one before it."""
        sealed = block if isinstance(block, ReasoningBlock) else new_block()
        for state in states:
            sealed.add_state(state)
        states.clear()
        if sealed is not block:
            self.enqueue(sealed)

    def enqueue(self, block: Block) -> None:
        """Add a block to the queue; raises `ResponseTooLarge` if there are too many."""
        limits = self._limits
        is_call = isinstance(block, CallBlock)
        if len(self._items) + len(self.waiting) + (self.current is not None) >= limits.items:
            raise ResponseTooLarge("items", limits.items)
        if is_call and self._calls >= limits.calls:
            raise ResponseTooLarge("calls", limits.calls)
        self._calls += is_call
        self.waiting.append(block)
        self.item_ended = False
        self.next_phase = None

    # Streaming

    def advance(self) -> list[Event]:
        """Close the current item and start the next one, for as long as the queue allows it."""
        events: list[Event] = []
        while self.waiting:
            current = self.current
            if current is not None:
                if _must_stay_open(current):
                    break
                done: Status = "completed"
                if isinstance(current, CallBlock):
                    done = current.status(ended_well=False)
                events += self.close(done)
            events += self._start_next()
        return events

    def _start_next(self) -> list[Event]:
        self.current = block = self.waiting.pop(0)
        events = block.start_streaming(len(self._items))
        is_whole = isinstance(block, RawBlock) and block.is_complete
        return events + self.close("completed") if is_whole else events

    def pass_whole(self) -> list[Event]:
        """Start the next item and close it; no other is open."""
        return self._start_next() + self.close("completed")

    def close(self, status: Status) -> list[Event]:
        """Close the current item."""
        assert self.current is not None
        events, item = self.current.close(status)
        self._items.append(item)
        if isinstance(self.current, CallBlock):
            self.diagnostics += self.current.diagnostics
        self.current = None
        return events

    def close_finished(self) -> list[Event]:
        """Close every item but a call that is not complete and the blocks that wait behind it."""
        events = self.advance()
        if self.current is not None and not _must_stay_open(self.current):
            events += self.close("completed")
        return events

    # Ending the response

    def reject_unfinished_calls(self) -> None:
        for block in self.open_blocks:
            if isinstance(block, CallBlock) and (block.is_nameless or block.is_unfinished):
                raise IncompleteToolCall(
                    f"toolCall: the provider did not complete call {block.index}"
                )

    def close_all(self, last: Status, *, ended_well: bool, publish: bool) -> list[Event]:
        """Close every open block in order, at the end of the response.

        `last` is the status of the last item; `publish` says whether an item that was cut off may
        get its `output_item.done` (not in a failed response).
        """
        events: list[Event] = []
        while self.current is not None or self.waiting:
            block = self.current
            if block is None:
                events += self._start_next()
            elif isinstance(block, CallBlock):
                events += self._close_call(block, ended_well=ended_well, publish=publish)
            elif self.waiting:
                # {"content": "Let me look."} {"tool_calls": […]}: text before an item is whole.
                events += self.close("completed")
            elif publish or last == "completed" or isinstance(block, RawBlock | SearchBlock):
                # {"content": "The answer"} {"finish_reason": "length"}: done, with status `last`.
                events += self.close(last)
            else:
                # {"content": "The ans"}, then the connection breaks: the text stays in the output,
                # but gets no `done` event. Clients that retry would keep it as a finished message.
                self._drop_current(block.item(last))
        return events

    def _close_call(self, block: CallBlock, *, ended_well: bool, publish: bool) -> list[Event]:
        """Close a call at the end of the response. Clients run a call when they see it done."""
        status = block.status(ended_well=ended_well)
        if block.is_nameless:
            # {"tool_calls": [{"index": 0, "id": "call_1"}]} {"finish_reason": "length"}: there is
            # no name, so no item was announced and none is made.
            self._drop_current(None)
            return []
        if publish or status == "completed":
            # {"arguments": "{\"city\": \"Rome\"}"}: a complete call is done even in a failure.
            # {"arguments": "{\"city\": \"Ro"} {"finish_reason": "length"}: done as incomplete.
            return self.close(status)
        # {"arguments": "{\"city\": \"Ro"}, then the connection breaks: without a `done` event no
        # client runs the call; the output has it as incomplete, unless its name is not certain yet.
        events = block.announce_cut()
        self._drop_current(block.item(status) if block.announced else None)
        return events

    def _drop_current(self, item: Item | None) -> None:
        """End the current block without events, and keep its item, if there is one."""
        if item is not None:
            self._items.append(item)
        self.current = None


def join_output_text(output: Sequence[Item]) -> str:
    """Join the text of all messages, as the official clients do for `output_text`."""
    texts: list[str] = []
    for item in output:
        if type(item) is Message:
            texts += [part.text for part in item.content if type(part) is OutputText]
    return texts[0] if len(texts) == 1 else "".join(texts)


def _must_stay_open(block: Block) -> bool:
    """Whether more of a call or of a raw item may arrive: {"arguments": "{\\"city\\": "}."""
    if isinstance(block, CallBlock):
        return block.is_nameless or not block.is_complete
    return isinstance(block, RawBlock) and not block.is_complete
