"""Response state machine: deltas in, Responses events out.

1. All stream state lives here and in the blocks; decoders and stages only pass values.
2. One item is streamed at a time (`core.stream.sequencer`). Other items that begin wait.
3. A finish reason is remembered, never acted upon: only `finish` and `fail` end the response, and
   exactly one of them does. Output after a finish reason is legal, because real providers send it.
4. A response may take several rounds (`core.filters.filter`): `next_round` begins another one.
5. A call in the wrong phase raises a typed error and changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from antiphon.core.deltas import (
    Annotation,
    BlockMembers,
    BlockStart,
    Delta,
    EmptyReasoning,
    Extra,
    Failure,
    Finish,
    ItemEnd,
    RawItem,
    RawItemEvent,
    RawItemStarted,
    Reasoning,
    ReasoningKind,
    ReasoningState,
    Refusal,
    ResponseMembers,
    SearchEnded,
    SearchStarted,
    ServiceTier,
    Start,
    Text,
    ToolCall,
    ToolEnd,
    ToolRevision,
    Usage,
)
from antiphon.core.diagnostic import Code, Diagnostic, ignored
from antiphon.core.events import TERMINALS, Created, Event, InProgress
from antiphon.core.faults.fault import ProviderFault, normalize_code
from antiphon.core.faults.messages import describe
from antiphon.core.items import Document, Item, Status
from antiphon.core.response import IncompleteDetails, Response, ResponseError
from antiphon.core.stream.blocks import ReasoningBlock, RefusalBlock, Seal, SearchBlock, TextBlock
from antiphon.core.stream.call_block import CallBlock
from antiphon.core.stream.compaction_item import seal_compaction
from antiphon.core.stream.finish import CANCELLED, COMPLETED, Outcome, map_finish_reason
from antiphon.core.stream.numbered_ids import number_ids
from antiphon.core.stream.phase import Phase, delta_error, transition_error
from antiphon.core.stream.raw_block import RawBlock
from antiphon.core.stream.sequencer import Block, OutputSequencer, join_output_text
from antiphon.core.stream.usage import UsageCounter, wire_usage
from antiphon.core.tools.identity import NO_TOOLS, ToolIdentityMap
from antiphon.errors import InvalidTransition
from antiphon.framing.limits import DEFAULT_LIMITS, ResponseLimits


class ResponseMachine:
    """One response, from `start` to its terminal event."""

    __slots__ = (
        "_annotations",
        "_calls",
        "_calls_by_id",
        "_describe",
        "_empty_arguments",
        "_extra",
        "_new_id",
        "_now",
        "_opened",
        "_pending_states",
        "_raw_items",
        "_response",
        "_round_start",
        "_seal",
        "_sequencer",
        "_tools",
        "_usage_counter",
        "diagnostics",
        "fault",
        "has_ended",
        "pending_finish",
        "phase",
    )

    def __init__(
        self,
        response: Response | None = None,
        *,
        new_id: Callable[[str], str] | None = None,
        now: Callable[[], int] = lambda: 0,
        tools: ToolIdentityMap = NO_TOOLS,
        seal: Seal | None = None,
        describe: Callable[[ProviderFault], str] = describe,
        empty_arguments: str = "",
        limits: ResponseLimits = DEFAULT_LIMITS,
        earlier_usage: Usage | None = None,
    ) -> None:
        """`response` has the fields that the request decides. Without `new_id`, ids are numbered.
        `seal` turns provider state into `encrypted_content`; without it, state is dropped.
        `describe` makes the message of a failure; `use_provider` replaces both.
        `empty_arguments` is for calls without any; `earlier_usage` was before all requests."""
        self.phase = Phase.IDLE
        self.has_ended = False
        self.pending_finish: Finish | None = None
        self.fault: ProviderFault | None = None
        self._new_id = new_id or number_ids()
        self._now = now
        self._response = response or Response(id=self._new_id("resp"), created_at=now(), model="")
        self._tools = tools
        self._seal = seal
        self._describe = describe
        self._empty_arguments = empty_arguments
        self._sequencer = OutputSequencer(limits)
        self.diagnostics = self._sequencer.diagnostics
        self._calls: dict[int, CallBlock] = {}
        self._calls_by_id: dict[str, CallBlock] = {}
        self._raw_items: dict[int, RawBlock] = {}
        self._usage_counter = UsageCounter(earlier_usage)
        self._round_start = 0
        self._annotations: list[Annotation] = []
        self._pending_states: list[ReasoningState] = []
        self._opened: BlockStart | None = None
        """How the provider has begun the next item, for a client of the same format."""
        self._extra: Document | UnsetType = UNSET

    @property
    def snapshot(self) -> Response:
        """The response as it stands now, built anew at each call."""
        return msgspec.structs.replace(self._response, **self._output_fields())

    def _output_fields(self) -> dict[str, Any]:
        """The fields of the response that its output decides."""
        output = self._sequencer.output
        output_text = join_output_text(output)
        total = self._usage_counter.total
        usage = None if total is None else wire_usage(total)
        return {"output": output, "output_text": output_text, "usage": usage}

    @property
    def output(self) -> tuple[Item, ...]:
        """Every announced item; the open one as far as it has come."""
        return self._sequencer.output

    @property
    def has_usage(self) -> bool:
        """Whether token counts are known."""
        return self._usage_counter.is_known

    @property
    def model(self) -> str:
        """The model that the response names."""
        return self._response.model

    def continued_block(self, delta: Delta) -> TextBlock | ReasoningBlock | CallBlock | None:
        """The block of the item that is being streamed, if pieces like this delta, which was just
        fed, only add to it: nothing waits behind it, and it has been announced."""
        block = self._sequencer.current
        if self._sequencer.waiting or self._sequencer.item_ended:
            return None
        if block is None or not block.announced:
            return None
        match block:
            case TextBlock() if isinstance(delta, Text):
                return block
            case ReasoningBlock() if isinstance(delta, Reasoning):
                return block
            case CallBlock() if isinstance(delta, ToolCall):
                return block if self._calls.get(delta.index) is block else None
        return None

    @property
    def round_items(self) -> list[Item]:
        """The finished items of this round, and its complete calls that still wait."""
        return self._sequencer.finished_items(self._round_start)

    @property
    def has_output(self) -> bool:
        """Whether there is an output item, finished or open."""
        return bool(self._sequencer.finished_count or self._sequencer.open_blocks)

    # Feeding

    def start(self, model: str | None = None) -> list[Event]:
        """Start the response. `model` is used only if the request did not name one."""
        if self.phase is not Phase.IDLE:
            raise transition_error(self.phase, "start")
        self.phase = Phase.IN_PROGRESS
        model = self._response.model or model or "unknown"
        if (self._response.status, self._response.model) != ("in_progress", model):
            self._response = msgspec.structs.replace(
                self._response, status="in_progress", model=model
            )
        return [Created(self._response), InProgress(self._response)]

    def feed(self, delta: Delta) -> list[Event]:
        """Process one delta, and return the events to send to the client."""
        return _FEEDERS[type(delta)](self, delta)

    def text(self, text: str, logprobs: Sequence[Document] = ()) -> list[Event]:
        self._expect_output("text")
        if not text:
            return []
        tail = self._sequencer.tail
        if isinstance(tail, TextBlock):
            return tail.append(text, logprobs)
        opened = self._take_opened("text")
        block = TextBlock(self._new_id(TextBlock.prefix), self._sequencer.next_phase, opened)
        block.append(text, logprobs)
        for waiting in self._annotations:
            block.annotate(waiting.annotation)
        self._annotations.clear()
        return self._add_block(block)

    def complete_text(self, text: Text, usage: Usage, finish: Finish) -> list[Event]:
        """Complete a response that has just started with a text that is all of it, and that has
        ended well: the events are those of `text`, `usage`, `defer_finish` and `finish`, which
        would ask what else is open."""
        self.usage(usage)
        self.pending_finish = finish
        block = TextBlock(self._new_id(TextBlock.prefix))
        block.append(text.text, text.logprobs)
        self._sequencer.enqueue(block)
        return [*self._sequencer.pass_whole(), self._end(COMPLETED, "")]

    def add_missing_message(self) -> list[Event]:
        """Add a message without text if there is nothing but reasoning."""
        self._expect_output("message")
        if not self._sequencer.has_only_reasoning:
            return []
        return self._add_block(TextBlock(self._new_id(TextBlock.prefix)))

    def refusal(self, text: str) -> list[Event]:
        self._expect_output("refusal")
        if not text:
            return []
        tail = self._sequencer.tail
        if isinstance(tail, RefusalBlock):
            return tail.append(text)
        block = RefusalBlock(self._new_id(RefusalBlock.prefix))
        block.append(text)
        return self._add_block(block)

    def reasoning(self, text: str, kind: ReasoningKind = "raw", part: int = 0) -> list[Event]:
        self._expect_output("reasoning")
        if not text:
            return []
        tail = self._sequencer.tail
        if isinstance(tail, ReasoningBlock):
            return tail.append(text, kind, part)
        block = self._new_reasoning_block()
        block.append(text, kind, part)
        return self._add_block(block)

    def empty_reasoning(self, delta: EmptyReasoning) -> list[Event]:
        self._expect_output("reasoning")
        return self._add_block(self._new_reasoning_block())

    def reasoning_state(self, state: ReasoningState) -> list[Event]:
        """Collect provider state; it is sealed into the `encrypted_content` of a reasoning item."""
        self._expect_output("reasoning state")
        if self._seal is None:
            if _STATE_DROPPED not in self.diagnostics:
                self.diagnostics.append(_STATE_DROPPED)
            return []
        tail = self._sequencer.tail
        if isinstance(tail, ReasoningBlock):
            tail.add_state(state)
        else:  # State must not split the open message: it waits for the next item, or the end.
            self._pending_states.append(state)
        return []

    def tool_call(self, delta: ToolCall) -> list[Event]:
        self._expect_output("tool call")
        block = self._calls.get(delta.index)
        if self._calls_by_id.get(delta.call_id or "", block) is not block:
            # Clients identify calls by their ids: a second call with an id gets a generated one.
            delta = msgspec.structs.replace(delta, call_id=None)
        if block is None:
            opened = self._take_opened("call")
            extra = UNSET if opened is None else opened.extra
            block = CallBlock(delta.index, self._tools, self._new_id, self._empty_arguments, extra)
            self._enqueue(block)
            self._calls[delta.index] = block
        else:
            block.check_delta(delta)
        if delta.call_id:
            self._calls_by_id[delta.call_id] = block
        events = block.append(delta)
        return events + self._sequencer.advance() if self._sequencer.waiting else events

    def tool_end(self, index: int, *, complete: bool = True) -> list[Event]:
        """End a call that the provider reports as ended, and close it if it is being streamed."""
        self._expect_output("tool end")
        block = self._known_call(index)
        block.end(complete=complete)
        if block is not self._sequencer.current or block.is_nameless or block.truncated:
            return []
        return self._sequencer.close(block.status(ended_well=False)) + self._sequencer.advance()

    def tool_revision(self, delta: ToolRevision) -> list[Event]:
        """Replace the input of a call that is still open."""
        self._expect_output("tool revision")
        self._known_call(delta.index).replace_input(delta.text)
        return []

    def _known_call(self, index: int) -> CallBlock:
        if index not in self._calls:
            raise InvalidTransition(f"toolCall.index: call {index} does not exist")
        return self._calls[index]

    def search(self, delta: SearchStarted | SearchEnded) -> list[Event]:
        """Start a web search item of the gateway, or end the one that is open."""
        self._expect_output("search")
        if isinstance(delta, SearchStarted):
            return self._add_block(SearchBlock(self._new_id(SearchBlock.prefix), delta.action))
        block = self._sequencer.tail
        if not isinstance(block, SearchBlock):
            raise InvalidTransition("search: no search is open")
        block.end(delta.action, delta.status)
        return self._sequencer.close_finished()

    def raw_item(self, delta: RawItem) -> list[Event]:
        """Pass on an item that arrived whole, or end the one that was started."""
        self._expect_output("item")
        block = None if delta.number is None else self._raw_items.pop(delta.number, None)
        document = seal_compaction(delta.document, self._seal)
        if block is None:
            return self._add_block(RawBlock(document, self._new_id))
        block.end(document)
        if block is not self._sequencer.current:
            return []
        return self._sequencer.close("completed") + self._sequencer.advance()

    def start_raw_item(self, delta: RawItemStarted) -> list[Event]:
        self._expect_output("item")
        block = RawBlock(delta.document, self._new_id, is_complete=False, is_held=delta.held)
        self._raw_items[delta.number] = block
        return self._add_block(block)

    def raw_item_event(self, delta: RawItemEvent) -> list[Event]:
        """Pass on an event of a started item; one of an item that has ended is dropped."""
        self._expect_output("item event")
        block = self._raw_items.get(delta.number)
        return [] if block is None else block.append(delta.name, delta.fields)

    def block_start(self, delta: BlockStart) -> list[Event]:
        """Begin the next part of a message, or remember how the provider begins the next item."""
        self._expect_output("block")
        tail = self._sequencer.tail
        if isinstance(tail, TextBlock) and delta.kind == "text":
            return tail.begin_part(delta)
        self._opened = delta
        return []

    def block_members(self, delta: BlockMembers) -> list[Event]:
        """Complete the members of the open text."""
        self._expect_output("block")
        tail = self._sequencer.tail
        if isinstance(tail, TextBlock):
            tail.set_extra(delta.extra)
        return []

    def _take_opened(self, kind: str) -> BlockStart | None:
        opened, self._opened = self._opened, None
        return opened if opened is not None and opened.kind == kind else None

    def annotation(self, delta: Annotation) -> list[Event]:
        """Add a citation to the open message, or to the next one."""
        self._expect_output("annotation")
        tail = self._sequencer.tail
        if isinstance(tail, TextBlock):
            return tail.annotate(delta.annotation)
        self._annotations.append(delta)
        return []

    def usage(self, usage: Usage) -> list[Event]:
        """Update the token counts, without an event; missing counts keep their earlier values."""
        self._expect_output("usage")
        self._usage_counter.feed(usage)
        return []

    def service_tier(self, tier: str) -> list[Event]:
        """Report the service tier that the provider used, in the next snapshot."""
        self._response = msgspec.structs.replace(self._response, service_tier=tier)
        return []

    def response_members(self, delta: ResponseMembers) -> list[Event]:
        """Keep what only the provider's own format says of the response, for its end."""
        self._extra = delta.extra
        return []

    def defer_finish(self, reason: str | None, stop_sequence: str | None = None) -> list[Event]:
        """Remember the finish reason until `finish`; the last one that is not empty counts."""
        self._expect_output("finish reason")
        if reason or self.pending_finish is None:
            self.pending_finish = Finish(reason, stop_sequence)
        return []

    def item_end(self, phase: str | None = None) -> list[Event]:
        """Make the next delta begin a new item, even if it is of the same kind."""
        self._expect_output("item end")
        self._sequencer.end_item(phase)
        return []

    def ignore(self, delta: Start | Extra) -> list[Event]:
        """Accept a delta that no item can carry; one that is output is reported."""
        self._expect_output("delta")
        if isinstance(delta, Extra) and delta.is_output:
            diagnostic = _report_dropped(delta.kind)
            if diagnostic not in self.diagnostics:
                self.diagnostics.append(diagnostic)
        return []

    def _failure(self, delta: Failure) -> list[Event]:
        """End the response with the fault that the provider reports in its stream."""
        self._expect_output("failure")
        return self.fail(delta.fault)

    def end_round(self) -> list[Event]:
        """Close every item but a call that a filter holds back for the next round."""
        self._expect_output("end of a round")
        for call in self._calls.values():
            call.end_round()
        for number in [number for number, each in self._raw_items.items() if not each.is_held]:
            self._raw_items.pop(number).abandon()
        events = self._add_block(self._new_reasoning_block()) if self._pending_states else []
        return events + self._sequencer.close_finished()

    def next_round(self) -> None:
        """Begin another request to the provider, which numbers its calls and counts tokens anew."""
        self._expect_output("round")
        self.pending_finish = None
        self._extra = UNSET
        self._calls = {index: call for index, call in self._calls.items() if not call.is_finished}
        self._usage_counter.next_round()
        self._round_start = self._sequencer.finished_count

    def use_tools(self, tools: ToolIdentityMap) -> None:
        """Restore the calls of these tools from now on: they were not known before."""
        self._tools = tools

    def use_provider(self, seal: Seal | None, describe: Callable[[ProviderFault], str]) -> None:
        """Seal the state of another provider from now on, and describe its faults."""
        self._seal = seal
        self._describe = describe

    # Ending

    def finish(self, reason: str | Outcome | None = None) -> list[Event]:
        """Close the open items and end the response, by `reason` or the deferred one."""
        self._expect_progress("finish")
        reason = reason or (self.pending_finish.reason if self.pending_finish else None)
        ending = reason if isinstance(reason, Outcome) else map_finish_reason(reason)
        ended_well = ending.status == "completed"
        events: list[Event] = []
        if ended_well:
            if self._calls:
                self._sequencer.reject_unfinished_calls()
            if self._pending_states:
                events += self._add_block(self._new_reasoning_block())
        last: Status = "completed" if ending.whole else "incomplete"
        publish = ending.error_code is None
        events += self._sequencer.close_all(last, ended_well=ended_well, publish=publish)
        message = "" if ending.fault is None else self._describe(ending.fault)
        return [*events, self._end(ending, message)]

    def fail(self, fault: ProviderFault | str, *, code: str | None = None) -> list[Event]:
        """End the response with a fault, or with a message for the client and a code of the API."""
        self._expect_progress("fail")
        events = self._sequencer.close_all("incomplete", ended_well=False, publish=False)
        message = fault if isinstance(fault, str) else self._describe(fault)
        if not isinstance(fault, str):
            self.fault = fault
            code = fault.public_code
        ending = Outcome("failed", error_code=normalize_code(code))
        return [*events, self._end(ending, message)]

    def _end(self, ending: Outcome, message: str) -> Event:
        status: str = "incomplete" if ending is CANCELLED else ending.status
        reason = ending.incomplete_reason
        code = ending.error_code
        if not self._usage_counter.is_known:
            self._usage_counter.feed(Usage())  # zeros: the provider sent no counts
        ended = self._output_fields()
        ended["status"] = ending.status
        if ending.status == "completed":
            ended["completed_at"] = self._now()
        if reason:
            ended["incomplete_details"] = IncompleteDetails(reason)
        if code:
            ended["error"] = ResponseError(code, message)
        if self.pending_finish is not None and self.pending_finish.stop_sequence is not None:
            ended["stop_sequence"] = self.pending_finish.stop_sequence
        if self._extra is not UNSET:
            ended["extra"] = self._extra
        self._response = msgspec.structs.replace(self._response, **ended)
        event = TERMINALS[status](self._response)
        self.phase = _ENDED[status]  # last: everything before it may raise
        self.has_ended = True
        return event

    # Adding blocks

    def _new_reasoning_block(self) -> ReasoningBlock:
        return ReasoningBlock(self._new_id(ReasoningBlock.prefix), self._seal)

    def _add_block(self, block: Block) -> list[Event]:
        self._enqueue(block)
        return self._sequencer.advance()

    def _enqueue(self, block: Block) -> None:
        """Add a block to the queue, after the provider state that came before it."""
        self._opened = None
        if self._pending_states:
            self._sequencer.seal_states(self._pending_states, block, self._new_reasoning_block)
        self._sequencer.enqueue(block)

    def _expect_output(self, what: str) -> None:
        if self.phase is not Phase.IN_PROGRESS:
            raise delta_error(self.phase, what)

    def _expect_progress(self, method: str) -> None:
        if self.phase is not Phase.IN_PROGRESS:
            raise transition_error(self.phase, method)


_ENDED = {each.value: each for each in (Phase.COMPLETED, Phase.INCOMPLETE, Phase.FAILED)}
_STATE_DROPPED = ignored(
    Code.STATE_DROPPED,
    "output",
    "The provider's state for the next turn (signatures, encrypted reasoning) is left out: there is"
    " no key to seal it with.",
    "encrypted_content",
)
_KIND_SHAPED = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")


def _report_dropped(kind: str) -> Diagnostic:
    """Report output that the response cannot carry. A kind may be any text of a provider: it is
    shown only if it is shaped like a name."""
    shown = kind if _KIND_SHAPED.fullmatch(kind) else "part"
    message = (
        f"The provider sent output of the kind `{shown}`, which no item of a response can carry; it"
        " is left out."
    )
    return ignored(Code.OUTPUT_DROPPED, "output", message, shown)


# A table, so that the cost of a delta does not depend on its type.
_FEEDERS: Mapping[type[Delta], Callable[[ResponseMachine, Any], list[Event]]] = {
    Text: lambda machine, delta: machine.text(delta.text, delta.logprobs),
    Reasoning: lambda machine, delta: machine.reasoning(delta.text, delta.kind, delta.part),
    ToolCall: ResponseMachine.tool_call,
    Refusal: lambda machine, delta: machine.refusal(delta.text),
    Usage: ResponseMachine.usage,
    Finish: lambda machine, delta: machine.defer_finish(delta.reason, delta.stop_sequence),
    Failure: ResponseMachine._failure,
    Annotation: ResponseMachine.annotation,
    RawItem: ResponseMachine.raw_item,
    RawItemStarted: ResponseMachine.start_raw_item,
    RawItemEvent: ResponseMachine.raw_item_event,
    EmptyReasoning: ResponseMachine.empty_reasoning,
    ItemEnd: lambda machine, delta: machine.item_end(delta.phase),
    ToolRevision: ResponseMachine.tool_revision,
    SearchStarted: ResponseMachine.search,
    SearchEnded: ResponseMachine.search,
    ToolEnd: lambda machine, delta: machine.tool_end(delta.index, complete=delta.complete),
    ReasoningState: ResponseMachine.reasoning_state,
    ServiceTier: lambda machine, delta: machine.service_tier(delta.tier),
    BlockStart: ResponseMachine.block_start,
    BlockMembers: ResponseMachine.block_members,
    ResponseMembers: ResponseMachine.response_members,
    Start: ResponseMachine.ignore,
    Extra: ResponseMachine.ignore,
}
