"""Translation of a provider's bytes to Responses events: framer → decoder → filters → machine.

Whatever the upstream sends, and wherever it fails, the events of a translation begin with
`response.created` and end with exactly one terminal event.

A response may take several rounds. After each step, `next` says what has to be done: read on, make
a call of the gateway itself, send a further request, or nothing, because the response has ended
(ADR 0072).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec

import msgspec
from msgspec import Struct, structs

from antiphon.core.client_profile import OTHER, Profile
from antiphon.core.deltas import (
    Delta,
    Failure,
    Finish,
    Reasoning,
    Refusal,
    Start,
    Text,
    ToolCall,
    Usage,
)
from antiphon.core.events import Event
from antiphon.core.faults.fault import ProviderFault, blocked_fault, internal_fault, protocol_fault
from antiphon.core.filters.filter import BYPASS, DeltaFilter
from antiphon.core.filters.simple_filters import EmptyAnswerFilter
from antiphon.core.plan.measure_input import measure_input
from antiphon.core.plan.plan import Plan
from antiphon.core.response import Response
from antiphon.core.stream.finish import COMPLETED, FILTERED, Outcome, map_finish_reason
from antiphon.core.stream.machine import ResponseMachine
from antiphon.core.stream.phase import Phase
from antiphon.core.stream.source import Source
from antiphon.core.stream.usage import estimate_usage, usage_estimated
from antiphon.core.tools.identity import ToolIdentityMap
from antiphon.core.translation.filters import FilterChain, make_filters
from antiphon.core.translation.next_step import READING, Calls, Ended, Next, Round
from antiphon.core.translation.stream_reader import StreamReader
from antiphon.errors import BridgeError, ResponseTooLarge
from antiphon.framing.limits import DEFAULT_LIMITS, ResponseLimits
from antiphon.framing.sse import Frame

_MAX_ROUNDS = 24  # far beyond what any filter wants: every response ends


def make_translation(
    plan: Plan,
    source: Source,
    response: Response,
    *,
    new_id: Callable[[str], str],
    now: Callable[[], int],
    profile: Profile = OTHER,
    limits: ResponseLimits = DEFAULT_LIMITS,
    reminders: bool = True,
) -> Translation:
    """Make the translation of the response to a planned request.

    `response` has the fields that the request decides. With `reminders`, a model that only reasoned
    is asked once more to answer.
    """
    machine = ResponseMachine(
        response,
        new_id=new_id,
        now=now,
        tools=plan.identities,
        seal=source.seal,
        describe=source.describe,
        empty_arguments="{}",
        limits=limits,
        earlier_usage=None if plan.compacted is None else plan.compacted.usage,
    )
    filters = make_filters(plan, profile, new_id, reminders=reminders)
    opens_with_calls = plan.mcp is not None and plan.mcp.needs_opening
    return Translation(machine, source, filters, limits=limits, opens_with_calls=opens_with_calls)


_Given = ParamSpec("_Given")


def _collected(
    step: Callable[Concatenate[Translation, list[Event], _Given], None],
) -> Callable[Concatenate[Translation, _Given], list[Event]]:
    """Make a step return the events that it adds to its list. If it raises, these are the events so
    far, and the failure. Nothing happens to a response that has ended."""

    @wraps(step)
    def collect(
        translation: Translation, /, *args: _Given.args, **kwargs: _Given.kwargs
    ) -> list[Event]:
        events: list[Event] = []
        if type(translation.next) is Ended:
            return events
        try:
            step(translation, events, *args, **kwargs)
        except BridgeError as error:
            code = error.code.rpartition(".")[2]
            events += translation.fail(protocol_fault(error.message, code=code))
        except Exception as error:  # a bug of ours must not leave a client waiting
            events += translation.fail(internal_fault(error))
        if translation.machine.has_ended:
            translation.note_end()
        return events

    return collect


class Replanned(Struct, frozen=True):
    """A plan that was made after `open_calls`: what the output of its request is read with."""

    tools: ToolIdentityMap
    filters: Sequence[DeltaFilter]


class Translation:
    """One response over all of its rounds. Streamed: `feed` and `close`. Whole: `feed_whole`."""

    __slots__ = (
        "_chain",
        "_limits",
        "_plans",
        "_reader",
        "_round",
        "_stream_bytes",
        "frame_count",
        "machine",
        "next",
        "opens_with_calls",
        "path",
        "rounds",
    )

    def __init__(
        self,
        machine: ResponseMachine,
        source: Source,
        filters: Sequence[DeltaFilter] = (),
        *,
        limits: ResponseLimits = DEFAULT_LIMITS,
        opens_with_calls: bool = False,
    ) -> None:
        """`machine` seals and describes as `source` does."""
        self.machine = machine
        self.next: Next = READING
        """What has to be done now."""
        self.rounds = 0
        """Number of further rounds begun: 0 in the first."""
        self.frame_count = 0
        """Frames received so far. Bytes may come without any: comments keep a line alive."""
        self.opens_with_calls = opens_with_calls
        """The gateway makes calls before the first request: `open_calls` begins the response."""
        self.path = DeltaPath(machine, filters, limits)
        self._limits = limits
        self._stream_bytes = 0
        self._reader = StreamReader(source, limits)
        self._chain = FilterChain(filters, machine.diagnostics)
        self._plans: dict[int, Plan] = {}
        self._round: Round | None = None

    # Input

    def start(self, deltas: Sequence[Delta] = ()) -> list[Event]:
        """Start the response; nothing happens if it has started. It may start before the provider
        has sent anything. `deltas` may name the model, if the request did not."""
        if self.machine.phase is not _IDLE:
            return []
        model = next((delta.model for delta in deltas if isinstance(delta, Start)), None)
        return self.machine.start(model)

    @_collected
    def open_calls(self, events: list[Event]) -> None:
        """Begin with calls of the gateway, before the first request; its plan says which."""
        events += self.start()
        self.path.feed_machine(self._chain.open(), events)
        self._conclude(map_finish_reason(None), events)

    def note_request(self, plan: Plan) -> None:
        """The request of this round is about to be sent. If its plan is known, usage that the
        provider does not report is estimated."""
        self._plans[self.rounds] = plan

    @_collected
    def feed(self, events: list[Event], chunk: bytes) -> None:
        """Return the events of one read of the network."""
        self._stream_bytes += len(chunk)
        if self._stream_bytes > self._limits.stream_bytes:
            raise ResponseTooLarge("stream_bytes", self._limits.stream_bytes)
        self._read(self._reader.read_frames(chunk), events)

    @_collected
    def close(self, events: list[Event]) -> None:
        """End the round: the upstream has closed the stream."""
        self._read(self._reader.close_frames(), events)
        self._end_round(events)

    @_collected
    def feed_whole(self, events: list[Event], body: bytes) -> None:
        """Return the events of a body that is not streamed."""
        decoded = self._reader.decode(body)
        self.path.count(decoded)
        if self._reader.has_markup or not self.path.take_whole(decoded, events):
            self._take(self._reader.filter_whole(decoded), events)
            self._end_round(events, is_whole=True)

    def connection_lost(self, fault: ProviderFault) -> list[Event]:
        """End the round: the connection broke."""
        machine = self.machine
        if machine.has_ended:
            return []
        if machine.pending_finish is not None:  # the finish reason came: the round is complete
            return self.close()
        if self._round is not None and not self.path.has_output:
            self.next = structs.replace(self._round, fault=fault)  # it may be sent again
            return []
        return self.fail(fault)

    @_collected
    def finish(self, events: list[Event], reason: str | Outcome) -> None:
        """Finish the response with the output so far: as complete, without any output of a
        provider (`stop`), or as cancelled."""
        events += self.start() + self.machine.finish(reason)

    def fail(self, fault: ProviderFault | str) -> list[Event]:
        """Fail the response, with a fault or with a problem of its request; nothing happens
        to one that has ended."""
        if self.machine.has_ended:
            return []
        events = self.start() + self.machine.fail(fault, code="invalid_prompt")
        self.note_end()
        return events

    def note_end(self) -> None:
        """The machine has made the terminal event: there is nothing more to do."""
        self.next = Ended(self.machine.fault)

    def _read(self, frames: Sequence[Frame], events: list[Event]) -> None:
        self.frame_count += len(frames)
        reader = self._reader
        decoder = reader.decoder
        machine = self.machine
        path = self.path
        for frame in frames:
            if machine.has_ended or self.next is not READING:
                break
            deltas: Sequence[Delta] = decoder.feed(frame)
            if len(deltas) != 1 or not path.take_piece(deltas[0], events):
                path.count(deltas)
                self._take(reader.filter_markup(deltas) if reader.has_markup else deltas, events)
            if decoder.ended:
                self._end_round(events)

    def _take(self, deltas: Sequence[Delta], events: list[Event]) -> None:
        """Pass decoded deltas through the filters to the machine."""
        if not deltas:
            self.path.follow(None)
            return
        if self.machine.phase is _IDLE:
            events += self.start(deltas)
        fault = self.path.take(deltas, events, may_fail=self._round is None)
        if fault is not None and self._round is not None:
            self.next = structs.replace(self._round, fault=fault)
        self.path.follow(None if self._reader.has_markup else deltas[-1])

    # The end of a round

    def _end_round(self, events: list[Event], *, is_whole: bool = False) -> None:
        machine = self.machine
        if not is_whole and self.next is READING and not machine.has_ended:
            reader = self._reader
            last: Sequence[Delta] = reader.decoder.close()
            self.path.count(last)
            self._take(reader.finish(last) if reader.has_markup else last, events)
        self.path.follow(None)
        if machine.has_ended or self.next is not READING:
            return
        events += self.start()
        finish = machine.pending_finish
        if self._round is not None and not self.path.has_output and finish is None:
            fault = protocol_fault("The provider closed the stream without any output.")
            self.next = structs.replace(self._round, fault=fault)
            return
        # A response that was cut off or failed has no further round.
        outcome = map_finish_reason(_finish_reason(machine))
        may_continue = self.rounds < _MAX_ROUNDS and outcome.status == "completed"
        held_back = self._chain.close() if may_continue else self._chain.close_for_good()
        self.path.feed_machine(held_back, events)
        if not machine.has_ended:
            self._conclude(outcome, events)

    def _conclude(self, outcome: Outcome, events: list[Event]) -> None:
        """End the response, or say what has to be done before."""
        chain = self._chain
        if not chain.wishes:
            self._end(outcome, events)
            return
        events += self.machine.end_round()
        if calls := chain.calls:
            self.path.feed_machine(calls[0].announce(), events)
            self.next = Calls(calls)
            return
        self.next = Round(
            follow_up=chain.follow_up,
            items=tuple(msgspec.to_builtins(self.machine.round_items)),
            is_required=chain.requires_round,
        )

    def _end(self, outcome: Outcome, events: list[Event]) -> None:
        machine = self.machine
        if outcome.status == "completed":
            events += machine.add_missing_message()
        if self._plans and not machine.has_usage:  # the provider sent no token counts
            input_bytes = sum(map(measure_input, self._plans.values()))
            machine.usage(estimate_usage(input_bytes, machine.output))
            machine.diagnostics.append(usage_estimated(machine.model))
        if outcome is FILTERED and is_blocked(self):
            events += machine.fail(blocked_fault(_finish_reason(machine) or ""))
        else:
            events += machine.finish(outcome)

    # Between rounds

    @_collected
    def settle_call(self, events: list[Event], outcome: object) -> None:
        """Take the outcome of the first call of the gateway; the next request has its result."""
        self.path.feed_machine(self._chain.settle_call(outcome), events)
        if calls := self._chain.calls:
            self.path.feed_machine(calls[0].announce(), events)
            self.next = Calls(calls)
        else:
            self._conclude(map_finish_reason(_finish_reason(self.machine)), events)

    def begin_round(self) -> None:
        """Go on with the round that `next` wants: its request is about to be sent."""
        assert isinstance(self.next, Round)
        self._round = self.next
        self.next = READING
        self.rounds += 1
        self.machine.next_round()

    def read_from(self, source: Source, replanned: Replanned | None = None) -> None:
        """Read the output of another attempt at this round: its request is about to be sent.
        `replanned`: it is the first one after `open_calls`, with a plan of its own."""
        if replanned is not None:
            self.machine.use_tools(replanned.tools)
            self.path.use_filters(replanned.filters)
            self._chain = FilterChain(replanned.filters, self.machine.diagnostics)
        self.path.begin_attempt()
        self.machine.use_provider(source.seal, source.describe)
        self._reader = StreamReader(source, self._limits)
        if not self.machine.has_ended:
            self.next = READING

    @_collected
    def give_up_round(self, events: list[Event], fault: ProviderFault) -> None:
        """Do without the next round: no attempt at it succeeded. Filters release what they hold
        back, and the response is complete; unless it waits for results of calls, then it fails."""
        if self._round is not None and self._round.is_required:
            events += self.fail(fault)
            return
        self._plans.pop(self.rounds, None)  # it was not answered, so it costs nothing
        self.path.feed_machine(self._chain.give_up(), events)
        if not self.machine.has_ended:
            self._end(COMPLETED, events)


def is_blocked(translation: Translation) -> bool:
    """Whether a filter of the provider has ended the response before any output, as far as it
    came."""
    machine = translation.machine
    if translation.path.is_holding_back or machine.has_output:
        return False
    return map_finish_reason(_finish_reason(machine)) is FILTERED


def _finish_reason(machine: ResponseMachine) -> str | None:
    return None if machine.pending_finish is None else machine.pending_finish.reason


class DeltaPath:
    """The way of decoded deltas to the machine: through the filters, or directly. Counts what a
    response keeps in memory; raises `ResponseTooLarge` beyond a limit.

    Nearly every delta of a stream is a piece of text, reasoning or arguments for the item that is
    open. Filters and machine have nothing to decide about it, so it is given to its block. The way
    through both is the definition: the direct way gives the same events, or it is not taken.
    """

    __slots__ = (
        "_append",
        "_argument_chars",
        "_feeds",
        "_filters",
        "_last",
        "_limits",
        "_machine",
        "_reasoning_chars",
        "_text_chars",
        "has_output",
        "is_holding_back",
        "refused",
    )

    def __init__(
        self, machine: ResponseMachine, filters: Sequence[DeltaFilter], limits: ResponseLimits
    ) -> None:
        self.has_output = False
        """The provider has sent output in this attempt."""
        self.is_holding_back = False
        """The provider has sent output in this attempt, and a filter holds it back for now."""
        self.refused = False
        """The model has refused, in this round or an earlier one."""
        self._machine = machine
        self._filters = filters
        self._feeds = [each.feed for each in filters]
        self._limits = limits
        self._text_chars = 0
        self._reasoning_chars = 0
        self._argument_chars = 0
        self._last: Delta | None = None
        """The delta that took the long way, if pieces like it may take the direct one."""
        self._append: Callable[..., list[Event]] = lambda *_: []
        """`append` of the block that is open."""

    def use_filters(self, filters: Sequence[DeltaFilter]) -> None:
        """Pass deltas through these filters from now on."""
        self._filters = filters
        self._feeds = [each.feed for each in filters]

    def begin_attempt(self) -> None:
        """Deltas come from another attempt from now on."""
        self.has_output = False
        self.is_holding_back = False
        self._last = None

    def count(self, deltas: Sequence[Delta]) -> None:
        """Count deltas that take the long way."""
        for delta in deltas:
            if type(delta) is Text or type(delta) is Refusal:
                self._text_chars += len(delta.text)
            elif type(delta) is Reasoning:
                self._reasoning_chars += len(delta.text)
            elif type(delta) is ToolCall:
                self._argument_chars += len(delta.arguments) + len(delta.name or "")
        limits = self._limits
        if (
            self._text_chars > limits.text_chars
            or self._reasoning_chars > limits.reasoning_chars
            or self._argument_chars > limits.argument_chars
        ):
            raise self._too_large()

    def _too_large(self) -> ResponseTooLarge:
        limits = self._limits
        if self._text_chars > limits.text_chars:
            return ResponseTooLarge("text_chars", limits.text_chars)
        if self._reasoning_chars > limits.reasoning_chars:
            return ResponseTooLarge("reasoning_chars", limits.reasoning_chars)
        return ResponseTooLarge("argument_chars", limits.argument_chars)

    # The direct way

    def take_piece(self, delta: Delta, events: list[Event]) -> bool:
        """Add a piece to the open item. Return False, and do nothing, if it has to take the long
        way: it does not continue the item (see `follow`), or it is more than text (an empty piece,
        log probabilities, the id or the name of a call)."""
        last = self._last
        if type(delta) is not type(last):
            return False
        if isinstance(delta, Text):
            if not delta.text or delta.logprobs:
                return False
            self._text_chars += len(delta.text)
            if self._text_chars > self._limits.text_chars:
                raise self._too_large()
            events += self._append(delta.text)
        elif isinstance(delta, Reasoning):
            if not delta.text:
                return False
            self._reasoning_chars += len(delta.text)
            if self._reasoning_chars > self._limits.reasoning_chars:
                raise self._too_large()
            events += self._append(delta.text, delta.kind, delta.part)
        else:
            assert isinstance(delta, ToolCall)
            assert isinstance(last, ToolCall)
            if delta.index != last.index or delta.call_id or delta.name:
                return False
            self._argument_chars += len(delta.arguments)
            if self._argument_chars > self._limits.argument_chars:
                raise self._too_large()
            events += self._append(delta)
        return True

    def take_whole(self, deltas: Sequence[Delta], events: list[Event]) -> bool:
        """Make the events of a whole response. Return False, and do nothing, unless it is one text
        that has ended well, with its token counts, and no filter could change it or ask for more:
        all others are those of special requests."""
        found: dict[type[Delta], Any] = {type(delta): delta for delta in deltas}
        if len(deltas) != len(found) or found.keys() != _PLAIN_TEXT:
            return False
        text = found[Text]
        finish = found[Finish]
        if not text.text or map_finish_reason(finish.reason) is not COMPLETED:
            return False
        machine = self._machine
        if machine.phase is not _IDLE or {*map(type, self._filters)} - _IDLE_FILTERS:
            return False
        self.has_output = True
        events += machine.start(found[Start].model)
        events += machine.complete_text(text, found[Usage], finish)
        return True

    def follow(self, delta: Delta | None) -> None:
        """A delta has taken the long way. Pieces like it may take the direct one if no filter
        changes or keeps them, and if nothing waits behind the item that they add to. This holds
        until `follow` is called again. None: the round ends, or another attempt is read."""
        self._last = None
        if delta is None or type(delta) not in _PIECES:
            return
        for each in self._filters:
            if not each.passes(delta):
                return
        block = self._machine.continued_block(delta)
        if block is not None:
            self._last = delta
            self._append = block.append

    # The way through the filters

    def take(
        self, deltas: Sequence[Delta], events: list[Event], *, may_fail: bool
    ) -> ProviderFault | None:
        """Pass deltas through the filters to the machine. A failure before the first output is
        returned instead, unless the response may fail with it: a later round may be requested
        again."""
        machine = self._machine
        for delta in deltas:
            if type(delta) is Start:
                continue  # it has named the model, when the response started
            if type(delta) in BYPASS:
                events += machine.feed(delta)
                continue
            if not self.has_output:
                if type(delta) is Failure and not may_fail:
                    return delta.fault
                self.has_output = not (isinstance(delta, _TEXTUAL) and not delta.text)
            self.refused = self.refused or type(delta) is Refusal
            filtered = self._filter(delta)
            if not filtered:
                self.is_holding_back = self.has_output
            self.feed_machine(filtered, events)
            if machine.has_ended:
                break
        return None

    def _filter(self, delta: Delta) -> list[Delta]:
        """Pass a delta without leaked markup through the filters of the request."""
        deltas = [delta]
        for feed in self._feeds:
            if len(deltas) == 1:  # as nearly always
                deltas = feed(deltas[0])
            else:
                deltas = [out for each in deltas for out in feed(each)]
        return deltas

    def feed_machine(self, deltas: Sequence[Delta], events: list[Event]) -> None:
        """Feed deltas that have passed the filters, or that these have released."""
        for delta in deltas:
            if self._machine.has_ended:
                break
            events += self._machine.feed(delta)


_IDLE_FILTERS = frozenset({EmptyAnswerFilter})
"""Filters that do nothing to a response that has a text."""
_IDLE = Phase.IDLE
_TEXTUAL = (Text, Reasoning, Refusal)
_PIECES = frozenset({Text, Reasoning, ToolCall})
_PLAIN_TEXT = frozenset({Start, Text, Usage, Finish})
