"""Translation of a provider's bytes to Responses events: framer → decoder → filters → machine.

Whatever the upstream sends, and wherever it fails, the events of a translation begin with
`response.created` and end with exactly one terminal event.

A response may take several rounds. After each step, `next` says what has to be done: read on, make
a search, send a further request, or nothing, because the response has ended (ADR 0072).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec import structs

from antiphon.core.client_profile import OTHER, Profile
from antiphon.core.deltas import (
    Delta,
    Failure,
    Reasoning,
    Refusal,
    SearchStarted,
    Start,
    Text,
    ToolCall,
)
from antiphon.core.diagnostic import Diagnostic
from antiphon.core.events import Event
from antiphon.core.faults.fault import ProviderFault, blocked_fault, internal_fault, protocol_fault
from antiphon.core.filters.filter import BYPASS, DeltaFilter
from antiphon.core.filters.markup import filter_whole_answer, make_markup_filters, pass_deltas
from antiphon.core.items import ReasoningItem
from antiphon.core.plan.measure_input import measure_input
from antiphon.core.plan.plan import Plan
from antiphon.core.response import Response
from antiphon.core.stream.finish import CANCELLED, FILTERED, map_finish_reason
from antiphon.core.stream.machine import ResponseMachine
from antiphon.core.stream.phase import Phase
from antiphon.core.stream.source import Framer, Source
from antiphon.core.stream.usage import estimate_usage, usage_estimated
from antiphon.core.translation.filters import FilterChain, make_filters
from antiphon.core.translation.next_step import READING, Ended, Next, Round, Search
from antiphon.core.web_search.search_call import SearchCall, SearchOutcome
from antiphon.errors import BridgeError, ResponseTooLarge
from antiphon.framing.limits import DEFAULT_LIMITS, ResponseLimits
from antiphon.framing.sse import Frame
from antiphon.framing.surrogates import SurrogateJoiner

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
    return Translation(machine, source, filters, limits=limits)


class Translation:
    """One response over all of its rounds. Streamed: `feed` and `close`. Whole: `feed_whole`."""

    def __init__(
        self,
        machine: ResponseMachine,
        source: Source,
        filters: Sequence[DeltaFilter] = (),
        *,
        limits: ResponseLimits = DEFAULT_LIMITS,
    ) -> None:
        """`machine` seals and describes as `source` does."""
        self.machine = machine
        self.next: Next = READING
        """What has to be done now."""
        self.rounds = 0
        """Number of further rounds begun: 0 in the first."""
        self.frame_count = 0
        """Frames received so far. Bytes may come without any: comments keep a line alive."""
        self.refused = False
        """The model has refused, in this round or an earlier one."""
        self.is_holding_back = False
        """The provider has sent output in this attempt, and a filter holds it back for now."""
        self._has_output = False
        sizes = SizeCounter(limits)
        self._reader = _StreamReader(source, sizes)
        self._chain = FilterChain(filters, machine.diagnostics)
        self._direct_way = DirectWay(machine, filters, sizes)
        self._plans: dict[int, Plan] = {}
        self._round: Round | None = None

    # Facts

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """Diagnostics of the response that were not collected yet: of its calls and filters."""
        return self.machine.diagnostics

    @property
    def ended(self) -> bool:
        """The terminal event has been returned."""
        return self.machine.has_ended

    @property
    def finishing(self) -> bool:
        """The provider has sent its finish reason; only usage is still worth waiting for."""
        return self.machine.pending_finish is not None

    @property
    def is_blocked(self) -> bool:
        """A filter of the provider has ended the response before any output, as far as it came."""
        if self.is_holding_back or self.machine.has_output:
            return False
        return map_finish_reason(self._finish_reason) is FILTERED

    @property
    def snapshot(self) -> Response:
        """The response as it stands."""
        return self.machine.snapshot

    @property
    def fault(self) -> ProviderFault | None:
        """Why the response failed, if a fault is why."""
        return self.machine.fault

    # Input

    def start(self, deltas: Sequence[Delta] = ()) -> list[Event]:
        """Start the response; nothing happens if it has started. It may start before the provider
        has sent anything. `deltas` may name the model, if the request did not."""
        if self.machine.phase is not _IDLE:
            return []
        models = (delta.model for delta in deltas if isinstance(delta, Start))
        return self.machine.start(next(models, None))

    def note_request(self, plan: Plan) -> None:
        """The request of this round is about to be sent. If its plan is known, usage that the
        provider does not report is estimated."""
        self._plans[self.rounds] = plan

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events of one read of the network."""
        return self._collect(self._read_chunk, chunk)

    def close(self) -> list[Event]:
        """End the round: the upstream has closed the stream."""
        return self._collect(self._close)

    def feed_whole(self, body: bytes) -> list[Event]:
        """Return the events of a body that is not streamed."""
        return self._collect(self._read_whole, body)

    def connection_lost(self, fault: ProviderFault) -> list[Event]:
        """End the round: the connection broke."""
        if self.finishing and not self.ended:  # the finish reason came: the round is complete
            return self.close()
        if self._round is not None and not self._has_output and not self.ended:
            self._fail_round(self._round, fault)
            return []
        return self.fail(fault)

    def complete(self) -> list[Event]:
        """Finish the response without any output of a provider; nothing happens to one that has
        ended."""
        return self._collect(self._complete)

    def fail(self, fault: ProviderFault) -> list[Event]:
        """Fail the response; nothing happens to one that has ended."""
        if self.ended:
            return []
        events = self.start() + self.machine.fail(fault)
        self.next = Ended(self.machine.fault)
        return events

    def cancel(self) -> list[Event]:
        """Cancel the response; nothing happens to one that has ended."""
        if self.ended:
            return []
        events = self.start() + self.machine.finish(CANCELLED)
        self.next = Ended(self.machine.fault)
        return events

    def _collect(self, step: Callable[..., None], *given: object) -> list[Event]:
        """Run a step and return its events. If it raises, those it made so far, and the failure."""
        events: list[Event] = []
        if type(self.next) is Ended:
            return events
        try:
            step(*given, events)
        except BridgeError as error:
            events += self.fail(protocol_fault(error.message, code=error.code.rpartition(".")[2]))
        except Exception as error:  # a bug of ours must not leave a client waiting
            events += self.fail(internal_fault(error))
        if self.machine.has_ended:
            self.next = Ended(self.machine.fault)
        return events

    def _complete(self, events: list[Event]) -> None:
        events += self.start() + self.machine.finish("stop")

    def _read_chunk(self, chunk: bytes, events: list[Event]) -> None:
        self._read(self._reader.read_frames(chunk), events)

    def _read(self, frames: Sequence[Frame], events: list[Event]) -> None:
        self.frame_count += len(frames)
        reader = self._reader
        decoder = reader.decoder
        machine = self.machine
        direct_way = self._direct_way
        for frame in frames:
            if machine.has_ended or self.next is not READING:
                break
            deltas: Sequence[Delta] = decoder.feed(frame)
            if len(deltas) != 1 or not direct_way.take(deltas[0], events):
                reader.sizes.add(deltas)
                self._take(reader.filter_markup(deltas) if reader.has_markup else deltas, events)
            if decoder.ended:
                self._finish_stream(events)

    def _close(self, events: list[Event]) -> None:
        self._read(self._reader.close_frames(), events)
        self._finish_stream(events)

    def _finish_stream(self, events: list[Event]) -> None:
        if not self._is_over:
            self._take(self._reader.finish(), events)
        self._end_round(events)

    def _read_whole(self, body: bytes, events: list[Event]) -> None:
        self._take(self._reader.read_whole(body), events)
        self._end_round(events)

    @property
    def _is_over(self) -> bool:
        return self.machine.has_ended or self.next is not READING

    # Deltas

    def _take(self, deltas: Sequence[Delta], events: list[Event]) -> None:
        """Pass decoded deltas through the filters to the machine."""
        self._pass_deltas(deltas, events)
        self._direct_way.follow(deltas[-1] if deltas and not self._reader.has_markup else None)

    def _pass_deltas(self, deltas: Sequence[Delta], events: list[Event]) -> None:
        machine = self.machine
        if deltas and machine.phase is _IDLE:
            events += self.start(deltas)
        for delta in deltas:
            if type(delta) in BYPASS:
                events += machine.feed(delta)
                continue
            if not self._has_output and self._is_early_failure(delta):
                break
            self.refused = self.refused or type(delta) is Refusal
            filtered = self._filter(delta)
            if not filtered:
                self.is_holding_back = self._has_output
            self._feed_machine(filtered, events)
            if machine.has_ended:
                break

    def _filter(self, delta: Delta) -> list[Delta]:
        """Pass a delta without leaked markup through the filters of the request."""
        deltas = [delta]
        for feed in self._chain.feeds:
            if len(deltas) == 1:  # as nearly always
                deltas = feed(deltas[0])
            else:
                deltas = [out for each in deltas for out in feed(each)]
        return deltas

    def _is_early_failure(self, delta: Delta) -> bool:
        """Before the first output of a round: note whether this is output, or a failure.

        A later round that fails before any output may be requested again."""
        if type(delta) is Failure and self._round is not None:
            self._fail_round(self._round, delta.fault)
            return True
        self._has_output = not (isinstance(delta, _TEXTUAL) and not delta.text)
        return False

    def _feed_machine(self, deltas: Sequence[Delta], events: list[Event]) -> None:
        for delta in deltas:
            if self.machine.has_ended:
                break
            events += self.machine.feed(delta)

    # The end of a round

    def _fail_round(self, attempted: Round, fault: ProviderFault) -> None:
        """A later round has failed before any output: its request may be sent again."""
        self.next = structs.replace(attempted, fault=fault)

    def _end_round(self, events: list[Event]) -> None:
        self._direct_way.follow(None)
        if self._is_over:
            return
        events += self.start()
        if self._round is not None and not self._has_output and not self.finishing:
            fault = protocol_fault("The provider closed the stream without any output.")
            self._fail_round(self._round, fault)
            return
        chain = self._chain
        self._feed_machine(chain.close() if self._may_continue else chain.close_for_good(), events)
        if not self.ended:
            self._conclude(events)

    @property
    def _may_continue(self) -> bool:
        """Whether a further round is possible: a response that was cut off or failed has none."""
        return self._is_complete() and self.rounds < _MAX_ROUNDS

    def _is_complete(self, reason: str | None = None) -> bool:
        """Whether the response ended well, by `reason` or the provider's finish reason."""
        return map_finish_reason(reason or self._finish_reason).status == "completed"

    @property
    def _finish_reason(self) -> str | None:
        finish = self.machine.pending_finish
        return None if finish is None else finish.reason

    def _conclude(self, events: list[Event]) -> None:
        """End the response, or say what has to be done before."""
        chain = self._chain
        if not chain.wants_more:
            self._end(events)
            return
        events += self.machine.end_round()
        if calls := chain.searches:
            self._start_search(calls, events)
            return
        self.next = Round(
            follow_up=chain.follow_up,
            items=tuple(msgspec.to_builtins(self.machine.round_items)),
            is_required=chain.requires_round,
        )

    def _start_search(self, calls: tuple[SearchCall, ...], events: list[Event]) -> None:
        events += self.machine.feed(SearchStarted(calls[0].action))
        self.next = Search(calls)

    def _end(self, events: list[Event], reason: str | None = None) -> None:
        response = self.machine.snapshot
        last = response.output[-1] if response.output else None
        if (last is None or isinstance(last, ReasoningItem)) and self._is_complete(reason):
            events += self.machine.complete_answer()
        if response.usage is None and self._plans:
            self._estimate_usage(response)
        if last is None and self.is_blocked:
            events += self.machine.fail(blocked_fault(self._finish_reason or ""))
        else:
            events += self.machine.finish(reason)

    def _estimate_usage(self, response: Response) -> None:
        """Estimate the token counts: the provider sent none."""
        input_bytes = sum(map(measure_input, self._plans.values()))
        self.machine.usage(estimate_usage(input_bytes, response.output))
        self.diagnostics.append(usage_estimated(response.model))

    # Between rounds

    def settle_search(self, outcome: SearchOutcome) -> list[Event]:
        """Take the outcome of the first search; its results join the next request."""
        return self._collect(self._settle_search, outcome)

    def _settle_search(self, outcome: SearchOutcome, events: list[Event]) -> None:
        self._feed_machine(self._chain.settle_search(outcome), events)
        if calls := self._chain.searches:
            self._start_search(calls, events)
        else:
            self._conclude(events)

    def begin_round(self) -> None:
        """Go on with the round that `next` wants: its request is about to be sent."""
        assert isinstance(self.next, Round)
        self._round = self.next
        self.next = READING
        self.rounds += 1
        self.machine.next_round()

    def read_from(self, source: Source) -> None:
        """Read the output of another attempt at this round: its request is about to be sent."""
        self._direct_way.follow(None)
        self.machine.use_provider(source.seal, source.describe)
        self._reader = _StreamReader(source, self._reader.sizes)
        self.is_holding_back = False
        self._has_output = False
        if not self.ended:
            self.next = READING

    def give_up_round(self, fault: ProviderFault) -> list[Event]:
        """Do without the next round: no attempt at it succeeded. Filters release what they hold
        back, and the response is complete; unless it waits for search results, then it fails."""
        if self._round is not None and self._round.is_required:
            return self.fail(fault)
        return self._collect(self._give_up_round)

    def _give_up_round(self, events: list[Event]) -> None:
        self._plans.pop(self.rounds, None)  # it was not answered, so it costs nothing
        self._feed_machine(self._chain.give_up(), events)
        if not self.ended:
            self._end(events, "stop")


class DirectWay:
    """The direct way of pieces of text, reasoning or arguments to the item that is open.

    Nearly every delta of a stream is such a piece. Filters and the machine have nothing to decide
    about it, so it is counted and given to its block. The long way through both is the definition:
    the direct way gives the same events, or it is not taken.
    """

    def __init__(
        self, machine: ResponseMachine, filters: Sequence[DeltaFilter], sizes: SizeCounter
    ) -> None:
        self._machine = machine
        self._filters = filters
        self._sizes = sizes
        self._last: Delta | None = None
        """The delta that took the long way, if pieces like it may take the direct one."""
        self._append: Callable[..., list[Event]] = lambda *_: []
        """`append` of the block that is open."""

    def take(self, delta: Delta, events: list[Event]) -> bool:
        """Add a piece to the open item. Return False, and do nothing, if it has to take the long
        way: it does not continue the item (see `follow`), or it is more than text (an empty piece,
        log probabilities, the id or the name of a call)."""
        last = self._last
        if type(delta) is not type(last):
            return False
        if isinstance(delta, Text):
            if not delta.text or delta.logprobs:
                return False
            self._sizes.add_text(len(delta.text))
            events += self._append(delta.text)
        elif isinstance(delta, Reasoning):
            if not delta.text:
                return False
            self._sizes.add_reasoning(len(delta.text))
            events += self._append(delta.text, delta.kind, delta.part)
        else:
            assert isinstance(delta, ToolCall)
            assert isinstance(last, ToolCall)
            if delta.index != last.index or delta.call_id or delta.name:
                return False
            self._sizes.add_arguments(len(delta.arguments))
            events += self._append(delta)
        return True

    def follow(self, delta: Delta | None) -> None:
        """A delta has taken the long way. Pieces like it may take the direct one if no filter
        changes or keeps them, and if nothing waits behind the item that they add to. This holds
        until `follow` is called again. None: the round ends, or another attempt is read."""
        self._last = None
        if delta is None or type(delta) not in _PIECES:
            return
        if all(each.passes(delta) for each in self._filters):
            block = self._machine.continued_block(delta)
            if block is not None:
                self._last = delta
                self._append = block.append


class SizeCounter:
    """Counts what a response keeps in memory; raises `ResponseTooLarge` beyond a limit."""

    def __init__(self, limits: ResponseLimits) -> None:
        self.limits = limits
        self._stream_bytes = 0
        self._text_chars = 0
        self._reasoning_chars = 0
        self._argument_chars = 0

    def add_bytes(self, count: int) -> None:
        self._stream_bytes += count
        if self._stream_bytes > self.limits.stream_bytes:
            raise ResponseTooLarge("stream_bytes", self.limits.stream_bytes)

    def add(self, deltas: Sequence[Delta]) -> None:
        for delta in deltas:
            if type(delta) is Text or type(delta) is Refusal:
                self.add_text(len(delta.text))
            elif type(delta) is Reasoning:
                self.add_reasoning(len(delta.text))
            elif type(delta) is ToolCall:
                self.add_arguments(len(delta.arguments) + len(delta.name or ""))

    def add_text(self, chars: int) -> None:
        self._text_chars += chars
        if self._text_chars > self.limits.text_chars:
            raise ResponseTooLarge("text_chars", self.limits.text_chars)

    def add_reasoning(self, chars: int) -> None:
        self._reasoning_chars += chars
        if self._reasoning_chars > self.limits.reasoning_chars:
            raise ResponseTooLarge("reasoning_chars", self.limits.reasoning_chars)

    def add_arguments(self, chars: int) -> None:
        self._argument_chars += chars
        if self._argument_chars > self.limits.argument_chars:
            raise ResponseTooLarge("argument_chars", self.limits.argument_chars)


class _StreamReader:
    """Reads the output of one attempt."""

    def __init__(self, source: Source, sizes: SizeCounter) -> None:
        self._dialect = source.dialect
        self._framer: Framer = source.dialect.framer(sizes.limits.frame_bytes)
        self._joins_surrogates = False
        self.sizes = sizes
        self._markup_filters = make_markup_filters(source.guards) if source.guards else []
        self.decoder = source.dialect.decoder()
        self.has_markup = bool(self._markup_filters)
        """Whether deltas have to pass `filter_markup`."""

    def read_frames(self, chunk: bytes) -> list[Frame]:
        """Return the frames that this chunk completes."""
        self.sizes.add_bytes(len(chunk))
        # `find`: for `in`, CPython 3.11 first makes an error that a number was expected.
        if not self._joins_surrogates and (chunk.find(b"\\u") >= 0 or chunk[-1:] == b"\\"):
            self._framer = SurrogateJoiner(self._framer)
            self._joins_surrogates = True
        return self._framer.feed(chunk)

    def close_frames(self) -> list[Frame]:
        """Return the last frames: the provider has closed the stream."""
        return self._framer.close()

    def filter_markup(self, deltas: Sequence[Delta]) -> Sequence[Delta]:
        """Take leaked markup out of decoded deltas. What these filters hold back is no output yet:
        it may turn out to be nothing but a tag."""
        for each in self._markup_filters:
            deltas = pass_deltas(each, deltas)
        return deltas

    def finish(self) -> list[Delta]:
        """End the stream: return the last deltas, and those that the filters held back."""
        last = self.decoder.close()
        self.sizes.add(last)
        deltas = [*self.filter_markup(last)]
        held_back: list[Delta] = []
        for each in self._markup_filters:
            held_back = [*pass_deltas(each, held_back), *each.close(final=True).deltas]
        return deltas + held_back

    def read_whole(self, body: bytes) -> list[Delta]:
        """Return the deltas of a body that is not streamed."""
        decoded = self._dialect.decode(body)
        self.sizes.add(decoded)
        return filter_whole_answer(decoded, self._markup_filters)


_IDLE = Phase.IDLE
_TEXTUAL = (Text, Reasoning, Refusal)
_PIECES = frozenset({Text, Reasoning, ToolCall})
