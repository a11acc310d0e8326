"""Deltas in, Responses events out: the heart of Antiphon.

1. All stream state lives here and in the blocks; decoders and stages only pass values.
2. One item is on the air at a time (`core.air`). What begins meanwhile waits for its turn.
3. A finish reason is remembered, never acted upon: only `finish` and `fail` end the response, and
   exactly one of them does. Output after a finish reason is legal, because real providers send it.
4. An answer may take several rounds (`core.desk`): `next_round` begins one, in the same response.
5. A call in the wrong phase raises a typed error and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from antiphon.core.faults.fault import ProviderFault, normalize_code
from antiphon.core.faults.messages import describe
from antiphon.core.stream.blocks import (
    RawBlock,
    ReasoningBlock,
    RefusalBlock,
    Seal,
    SearchBlock,
    TextBlock,
)
from antiphon.core.stream.call_block import CallBlock
from antiphon.core.stream.deltas import (
    Annotation,
    Delta,
    Extra,
    Failure,
    Finish,
    ItemEnd,
    RawItem,
    Reasoning,
    ReasoningKind,
    ReasoningState,
    Refusal,
    SearchBegun,
    SearchEnded,
    Start,
    Text,
    ToolCall,
    ToolEnd,
    ToolRevision,
    Usage,
)
from antiphon.core.stream.finish import Outcome, outcome
from antiphon.core.stream.sequencer import Block, OutputSequencer
from antiphon.core.stream.usage import Meter, wire_usage
from antiphon.core.tools.identity import NO_TOOLS, ToolIdentityMap
from antiphon.errors import (
    BridgeError,
    DeltaAfterTerminal,
    IncompleteToolCall,
    InvalidTransition,
    OutputBeforeStart,
)
from antiphon.wire.events import TERMINALS, Created, Event, InProgress
from antiphon.wire.items import Document, Item, Status
from antiphon.wire.response import IncompleteDetails, Response, ResponseError


class Phase(StrEnum):
    IDLE = "idle"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    FAILED = "failed"


class ResponseMachine:
    """One response, from `start` to its terminal event."""

    def __init__(
        self,
        response: Response,
        *,
        new_id: Callable[[str], str],
        now: Callable[[], int],
        tools: ToolIdentityMap = NO_TOOLS,
        seal: Seal | None = None,
        locale: str = "en",
        empty_arguments: str = "",
    ) -> None:
        """`response` is the answer as far as the request decides it. `seal` turns provider state
        into `encrypted_content`; without it, state is only kept in `states`. `empty_arguments`
        stands in for the arguments of a call that was given none.
        """
        self.phase = Phase.IDLE
        self.pending_finish: Finish | None = None
        self.fault: ProviderFault | None = None
        self.states: list[ReasoningState] = []
        self.upstream = Start()
        self._response = response
        self._new_id = new_id
        self._now = now
        self._tools = tools
        self.seal = seal
        self._locale = locale
        self._empty_arguments = empty_arguments
        self._air = OutputSequencer()
        self._calls: dict[int, CallBlock] = {}
        self._callers: dict[str, CallBlock] = {}
        self._meter = Meter()
        self._round_began = 0
        self._annotations: list[Annotation] = []
        self._late_states: list[ReasoningState] = []

    # Looking

    @property
    def snapshot(self) -> Response:
        """The response as it stands now; built when asked for."""
        total = self._meter.total
        usage = None if total is None else wire_usage(total)
        return msgspec.structs.replace(self._response, output=self._air.output, usage=usage)

    @property
    def round_items(self) -> list[Item]:
        """What was told in this round, as far as it is over."""
        return self._air.told(self._round_began)

    # Driving

    def start(self, model: str | None = None) -> list[Event]:
        """Begin. `model` is used only if the request did not name one."""
        if self.phase is not Phase.IDLE:
            raise self._refusal_to("start")
        self.phase = Phase.IN_PROGRESS
        model = self._response.model or model or "unknown"
        self._response = msgspec.structs.replace(self._response, status="in_progress", model=model)
        return [Created(self._response), InProgress(self._response)]

    def feed(self, delta: Delta) -> list[Event]:
        """Advance by one delta; returns the events the client must now see."""
        return _FEEDERS[type(delta)](self, delta)

    def text(self, text: str, logprobs: Sequence[Document] = ()) -> list[Event]:
        self._expect_output("text")
        if not text:
            return []
        tail = self._air.tail
        if isinstance(tail, TextBlock):
            return tail.grow(text, logprobs)
        block = TextBlock(self._new_id(TextBlock.prefix), self._air.phase)
        block.grow(text, logprobs)
        for early in self._annotations:
            block.annotate(early.annotation)
        self._annotations.clear()
        return self._begin(block)

    def empty_message(self) -> list[Event]:
        """Begin a message with nothing in it: a whole answer always has one."""
        self._expect_output("message")
        return self._begin(TextBlock(self._new_id(TextBlock.prefix)))

    def refusal(self, text: str) -> list[Event]:
        self._expect_output("refusal")
        if not text:
            return []
        tail = self._air.tail
        if isinstance(tail, RefusalBlock):
            return tail.grow(text)
        block = RefusalBlock(self._new_id(RefusalBlock.prefix))
        block.grow(text)
        return self._begin(block)

    def reasoning(self, text: str, kind: ReasoningKind = "raw", part: int = 0) -> list[Event]:
        self._expect_output("reasoning")
        if not text:
            return []
        tail = self._air.tail
        if isinstance(tail, ReasoningBlock):
            return tail.grow(text, kind, part)
        block = self._reasoning_block()
        block.grow(text, kind, part)
        return self._begin(block)

    def reasoning_state(self, state: ReasoningState) -> list[Event]:
        """Keep what the provider wants back; it leaves sealed, inside a reasoning item."""
        self._expect_output("reasoning state")
        self.states.append(state)
        if self.seal is None:
            return []
        tail = self._air.tail
        if isinstance(tail, ReasoningBlock):
            tail.keep(state)
        else:  # it must not cut what is being said in two: it waits for the next item, or the end
            self._late_states.append(state)
        return []

    def tool_call(self, delta: ToolCall) -> list[Event]:
        self._expect_output("tool call")
        block = self._calls.get(delta.index)
        if self._callers.get(delta.call_id or "", block) is not block:
            # Clients tell calls apart by their ids: whoever comes second gets one of ours.
            delta = msgspec.structs.replace(delta, call_id=None)
        if block is None:
            block = CallBlock(delta.index, self._tools, self._new_id, self._empty_arguments)
            self._calls[delta.index] = block
            self._queue(block)
        else:
            block.accept(delta)
        if delta.call_id:
            self._callers[delta.call_id] = block
        events = block.grow(delta)
        return events + self._air.advance() if self._air.waiting else events

    def tool_end(self, index: int, *, complete: bool = True) -> list[Event]:
        """The provider says a call has ended: it may leave the air at once."""
        self._expect_output("tool end")
        block = self._known_call(index)
        block.end(complete=complete)
        if block is not self._air.holder or block.nameless or block.truncated:
            return []
        return self._air.close(block.status(ended_well=False)) + self._air.advance()

    def tool_revision(self, delta: ToolRevision) -> list[Event]:
        """The input of a call that is still open is another one."""
        self._expect_output("tool revision")
        self._known_call(delta.index).revise(delta.text)
        return []

    def _known_call(self, index: int) -> CallBlock:
        if index not in self._calls:
            raise InvalidTransition(f"toolCall.index: there is no call {index}")
        return self._calls[index]

    def search(self, delta: SearchBegun | SearchEnded) -> list[Event]:
        """A search of our own begins, or the one that was begun is over."""
        self._expect_output("search")
        if isinstance(delta, SearchBegun):
            return self._begin(SearchBlock(self._new_id(SearchBlock.prefix), delta.action))
        block = self._air.tail
        if not isinstance(block, SearchBlock):
            raise InvalidTransition("search: there is none under way")
        block.end(delta.action, delta.status)
        return self._air.clear()

    def raw_item(self, document: Document) -> list[Event]:
        """Tell an item that came whole."""
        self._expect_output("item")
        return self._begin(RawBlock(document, self._new_id))

    def annotation(self, delta: Annotation) -> list[Event]:
        """Cite in the text that is open, or in the next one."""
        self._expect_output("annotation")
        tail = self._air.tail
        if isinstance(tail, TextBlock):
            return tail.annotate(delta.annotation)
        self._annotations.append(delta)
        return []

    def usage(self, usage: Usage) -> list[Event]:
        """Counts for the snapshot; no event. Numbers that are missing keep their earlier value."""
        self._expect_output("usage")
        self._meter.feed(usage)
        return []

    def defer_finish(self, reason: str | None) -> list[Event]:
        """Remember why the provider stopped; the last word wins, an empty one does not."""
        self._expect_output("finish reason")
        if reason or self.pending_finish is None:
            self.pending_finish = Finish(reason)
        return []

    def item_end(self, phase: str | None = None) -> list[Event]:
        """Whatever comes next, even if it is of the same kind, is another item."""
        self._expect_output("item end")
        self._air.part(phase)
        return []

    def note(self, delta: Start | Extra) -> list[Event]:
        """Remember who answers."""
        self._expect_output("delta")
        if isinstance(delta, Start):
            self.upstream = delta
        return []

    # Rounds

    def end_round(self) -> list[Event]:
        """Close what may be closed: only a call that is held back stays open."""
        self._expect_output("end of a round")
        for call in self._calls.values():
            call.end_round()
        events = self._begin(self._reasoning_block()) if self._late_states else []
        return events + self._air.clear()

    def next_round(self) -> None:
        """The provider is asked again: it counts its calls and tokens anew."""
        self._expect_output("round")
        self.pending_finish = None
        self._calls = {index: call for index, call in self._calls.items() if not call.over}
        self._meter.next_round()
        self._round_began = self._air.count

    # Ending

    def finish(self, reason: str | None = None) -> list[Event]:
        """Close what is open and end the response, by this reason or the one remembered."""
        self._expect_output("finish")
        if not reason and self.pending_finish is not None:
            reason = self.pending_finish.reason
        how = outcome(reason)
        ended_well = how.status == "completed"
        events: list[Event] = []
        if ended_well:
            self._refuse_unfinished_calls()
            if self._late_states:
                events += self._begin(self._reasoning_block())
        last: Status = "completed" if how.whole else "incomplete"
        events += self._air.close_all(last, ended_well=ended_well, publish=how.error_code is None)
        return [*events, self._terminal(how)]

    def fail(self, fault: ProviderFault) -> list[Event]:
        """End the response with an error, keeping what was streamed."""
        self._expect_output("failure")
        events = self._air.close_all("incomplete", ended_well=False, publish=False)
        self.fault = fault
        code = normalize_code(fault.public_code)
        message = describe(fault, self._locale)
        return [*events, self._terminal(Outcome("failed", error_code=code, message=message))]

    def _terminal(self, how: Outcome) -> Event:
        phase, reason, code = Phase(how.status), how.incomplete_reason, how.error_code
        self._response = msgspec.structs.replace(
            self._response,
            status=how.status,
            completed_at=self._now() if how.status == "completed" else None,
            incomplete_details=IncompleteDetails(reason) if reason else None,
            error=ResponseError(code, how.message or "") if code else None,
        )
        self._meter.feed(Usage())  # numbers, even if nobody gave any
        self.phase, event = phase, TERMINALS[phase](self.snapshot)  # last: it may raise until here
        return event

    def _refuse_unfinished_calls(self) -> None:
        for block in self._air.open_blocks:
            if isinstance(block, CallBlock) and (block.nameless or block.unfinished):
                raise IncompleteToolCall(f"call {block.index} was not finished by the provider")

    # Beginning

    def _reasoning_block(self) -> ReasoningBlock:
        return ReasoningBlock(self._new_id(ReasoningBlock.prefix), self.seal)

    def _begin(self, block: Block) -> list[Event]:
        self._queue(block)
        return self._air.advance()

    def _queue(self, block: Block) -> None:
        """Let a block wait for the air, behind the state that came before it."""
        if self._late_states:
            keeper = block if isinstance(block, ReasoningBlock) else self._reasoning_block()
            for state in self._late_states:
                keeper.keep(state)
            self._late_states.clear()
            if keeper is not block:
                self._air.queue(keeper)
        self._air.queue(block)

    # Guards

    def _expect_output(self, what: str) -> None:
        if self.phase is not Phase.IN_PROGRESS:
            raise self._refusal_to(what)

    def _refusal_to(self, what: str) -> BridgeError:
        if self.phase is Phase.IDLE:
            return OutputBeforeStart(f"{what}: the response has not started")
        if self.phase is Phase.IN_PROGRESS:
            return InvalidTransition(f"{what}: the response has started already")
        return DeltaAfterTerminal(f"{what}: the response is {self.phase.value} already")


# Dispatch by type: the order of deltas' frequency does not matter to a table.
_FEEDERS: Mapping[type[Delta], Callable[[ResponseMachine, Any], list[Event]]] = {
    Text: lambda machine, delta: machine.text(delta.text, delta.logprobs),
    Reasoning: lambda machine, delta: machine.reasoning(delta.text, delta.kind, delta.part),
    ToolCall: ResponseMachine.tool_call,
    Refusal: lambda machine, delta: machine.refusal(delta.text),
    Usage: ResponseMachine.usage,
    Finish: lambda machine, delta: machine.defer_finish(delta.reason),
    Failure: lambda machine, delta: machine.fail(delta.fault),
    Annotation: ResponseMachine.annotation,
    RawItem: lambda machine, delta: machine.raw_item(delta.document),
    ItemEnd: lambda machine, delta: machine.item_end(delta.phase),
    ToolRevision: ResponseMachine.tool_revision,
    SearchBegun: ResponseMachine.search,
    SearchEnded: ResponseMachine.search,
    ToolEnd: lambda machine, delta: machine.tool_end(delta.index, complete=delta.complete),
    ReasoningState: ResponseMachine.reasoning_state,
    Start: ResponseMachine.note,
    Extra: ResponseMachine.note,
}
