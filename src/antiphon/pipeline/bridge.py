"""Bridge from a provider's bytes to Responses events: framer → decoder → filters → state machine.

Whatever the upstream sends, and wherever it fails, the events of a bridge begin with
`response.created` and end with exactly one terminal event.

An answer may take several rounds. When a round is over and a filter wants a further one, the bridge
waits (`awaits_next_round`): its owner makes the searches (`pending_searches`), sends the next
request (`follow_up`), and feeds the answer to the same bridge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from antiphon.core.diagnostic import Diagnostic
from antiphon.core.faults.fault import ProviderFault, internal_fault, protocol_fault
from antiphon.core.filters.chain import FilterChain
from antiphon.core.filters.filter import DeltaFilter
from antiphon.core.filters.order import BYPASS
from antiphon.core.plan.follow_up import FollowUp
from antiphon.core.plan.plan import Plan
from antiphon.core.planning.measure_input import measure_input
from antiphon.core.stream.blocks import Seal
from antiphon.core.stream.deltas import (
    Delta,
    Failure,
    Reasoning,
    Refusal,
    Start,
    Text,
    ToolCall,
)
from antiphon.core.stream.finish import CANCELLED, map_finish_reason
from antiphon.core.stream.machine import ResponseMachine
from antiphon.core.stream.phase import Phase
from antiphon.core.stream.usage import estimate_usage, usage_estimated
from antiphon.core.web_search.search_call import SearchCall, SearchOutcome
from antiphon.dialects.dialect import Dialect, Framer
from antiphon.errors import BridgeError, ResponseTooLarge
from antiphon.wire.events import Event
from antiphon.wire.items import Item, ReasoningItem
from antiphon.wire.limits import DEFAULT_LIMITS, ResponseLimits
from antiphon.wire.response import Response
from antiphon.wire.sse import Frame
from antiphon.wire.surrogates import SurrogateJoiner

_MAX_ROUNDS = 24  # far beyond what any filter wants: every answer ends


class Bridge:
    """One answer over all of its rounds. Streamed: `feed` and `close`. Whole: `feed_whole`."""

    def __init__(
        self,
        machine: ResponseMachine,
        dialect: Dialect,
        filters: Sequence[DeltaFilter] = (),
        *,
        guards: Sequence[str] = (),
        limits: ResponseLimits = DEFAULT_LIMITS,
    ) -> None:
        """`guards` names the markup that this model is known to leak into its text."""
        self.machine = machine
        self._limits = limits
        self._stream_bytes = self._text_chars = self._reasoning_chars = self._argument_chars = 0
        self._chain = FilterChain(filters)
        self.diagnostics: list[Diagnostic] = machine.diagnostics
        """Diagnostics of the answer that nobody has collected yet: of its calls and filters."""
        self._chain.diagnostics = self.diagnostics
        self.rounds = 0
        """Number of further rounds begun: 0 in the first."""
        self.plan: Plan | None = None
        """The plan of this round's request. If known, usage that is not reported is estimated."""
        self._earlier_plans: list[Plan] = []
        self.refused = False
        """The model has refused, in this round or an earlier one."""
        self._is_round_required = False
        self.use_dialect(dialect, guards)

    def use_dialect(
        self,
        dialect: Dialect,
        guards: Sequence[str] = (),
        seal: Seal | None = None,
        describe: Callable[[ProviderFault], str] | None = None,
    ) -> None:
        """Read the next answer in this dialect: a request is about to be sent.

        `seal` encrypts the provider state of its items; `describe` makes the message of a fault."""
        self.machine.seal = seal or self.machine.seal
        self.machine.describe = describe or self.machine.describe
        self._dialect = dialect
        self._framer: Framer = dialect.framer(self._limits.frame_bytes)
        self._joins_surrogates = False
        self._decoder = dialect.decoder()
        self._chain.use_guards(guards)
        self.frame_count = 0
        """Frames received in this round. Bytes may come without any: comments keep a line alive."""
        self.is_holding_back = False
        """The provider has sent output, and a filter holds it back for now."""
        self._has_output = False
        self.round_fault: ProviderFault | None = None
        """Why a later round failed before any output: its request may be sent again."""
        self.is_round_over = False  # the answer has ended, or awaits its next round

    # Facts

    @property
    def ended(self) -> bool:
        """The terminal event has been given."""
        return self.machine.has_ended

    @property
    def finishing(self) -> bool:
        """The provider has sent its finish reason; only usage is still worth waiting for."""
        return self.machine.pending_finish is not None

    @property
    def snapshot(self) -> Response:
        """The response as it stands."""
        return self.machine.snapshot

    @property
    def fault(self) -> ProviderFault | None:
        """Why the answer failed, if a fault is why."""
        return self.machine.fault

    @property
    def round_items(self) -> list[Item]:
        """Output items of this round, for the history of the next."""
        return self.machine.round_items

    # Input

    def start(self, deltas: Sequence[Delta] = ()) -> list[Event]:
        """Begin the response; nothing happens if it has begun. It may begin before the provider
        has sent anything. `deltas` may name the model, if the request did not."""
        if self.machine.phase is not _IDLE:
            return []
        models = (delta.model for delta in deltas if isinstance(delta, Start))
        return self.machine.start(next(models, None))

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events of one read of the network."""
        return self._collect(self._read_chunk, chunk)

    def close(self) -> list[Event]:
        """End the round: the upstream has closed the stream."""
        return self._collect(self._close)

    def feed_whole(self, body: bytes) -> list[Event]:
        """Return the events of a whole (not streamed) answer."""
        return self._collect(self._read_whole, body)

    def fail(self, fault: ProviderFault) -> list[Event]:
        """End the answer with an error; nothing happens to one that has ended."""
        return [] if self.ended else self.start() + self.machine.fail(fault)

    def cancel(self) -> list[Event]:
        """End the answer as cancelled; nothing happens to one that has ended."""
        return [] if self.ended else self.start() + self.machine.finish(CANCELLED)

    def connection_lost(self, fault: ProviderFault) -> list[Event]:
        """End the round: the connection broke."""
        if self.finishing and not self.ended:  # the finish reason came: the answer is complete
            return self.close()
        if self.rounds and not self._has_output:  # the request may be sent again
            self.round_fault = fault
            return []
        return self.fail(fault)

    def _collect(self, step: Callable[..., None], *given: object) -> list[Event]:
        """Run a step and return its events. If it raises, those it made so far, and the failure."""
        events: list[Event] = []
        if self.machine.has_ended:
            return events
        try:
            step(*given, events)
        except BridgeError as error:
            events += self.fail(protocol_fault(error.message, code=error.code.rpartition(".")[2]))
        except Exception as error:  # a bug of ours must not leave a client waiting
            events += self.fail(internal_fault(error))
        return events

    def _read_chunk(self, chunk: bytes, events: list[Event]) -> None:
        self._stream_bytes += len(chunk)
        if self._stream_bytes > self._limits.stream_bytes:
            raise ResponseTooLarge("stream_bytes", self._limits.stream_bytes)
        # `find`: for `in`, CPython 3.11 first makes an error that a number was expected.
        if not self._joins_surrogates and (chunk.find(b"\\u") >= 0 or chunk[-1:] == b"\\"):
            self._framer, self._joins_surrogates = SurrogateJoiner(self._framer), True
        self._read(self._framer.feed(chunk), events)

    def _read(self, frames: Sequence[Frame], events: list[Event]) -> None:
        self.frame_count += len(frames)
        decoder, chain, machine = self._decoder, self._chain, self.machine
        for frame in frames:
            if machine.has_ended or self.is_round_over or self.round_fault is not None:
                break
            deltas: Sequence[Delta] = decoder.feed(frame)
            if deltas:
                self._count(deltas)
                if chain.has_markup:
                    deltas = chain.filter_markup(deltas)
                self._take(deltas, events)
            if decoder.ended:
                self._finish_stream(events)

    @property
    def _is_over(self) -> bool:
        return self.ended or self.is_round_over or self.round_fault is not None

    def _close(self, events: list[Event]) -> None:
        self._read(self._framer.close(), events)
        self._finish_stream(events)

    def _finish_stream(self, events: list[Event]) -> None:
        if not self._is_over:
            if last := self._decoder.close():
                self._count(last)
            self._take([*self._chain.filter_markup(last), *self._chain.close_markup()], events)
        if not self._is_over:
            events += self.start()
            self._end_round(events)

    def _read_whole(self, body: bytes, events: list[Event]) -> None:
        self._count(decoded := self._dialect.decode(body))
        self._take(self._chain.filter_whole(decoded), events)
        if not self._is_over:
            events += self.start()
            self._end_round(events)

    # Deltas

    def _count(self, deltas: Sequence[Delta]) -> None:
        """Count what the answer keeps in memory; raises `ResponseTooLarge`."""
        limits = self._limits
        for delta in deltas:
            if isinstance(delta, _MESSAGE_TEXT):
                self._text_chars += len(delta.text)
            elif isinstance(delta, Reasoning):
                self._reasoning_chars += len(delta.text)
            elif isinstance(delta, ToolCall):
                self._argument_chars += len(delta.arguments) + len(delta.name or "")
        if self._text_chars > limits.text_chars:
            raise ResponseTooLarge("text_chars", limits.text_chars)
        if self._reasoning_chars > limits.reasoning_chars:
            raise ResponseTooLarge("reasoning_chars", limits.reasoning_chars)
        if self._argument_chars > limits.argument_chars:
            raise ResponseTooLarge("argument_chars", limits.argument_chars)

    def _take(self, deltas: Sequence[Delta], events: list[Event]) -> None:
        """Pass decoded deltas through the filters to the machine."""
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
        if type(delta) is Failure and self.rounds:
            self.round_fault = delta.fault
            return True
        self._has_output = not (isinstance(delta, _TEXTUAL) and not delta.text)
        return False

    def _feed_machine(self, deltas: Sequence[Delta], events: list[Event]) -> None:
        for delta in deltas:
            if self.machine.has_ended:
                break
            events += self.machine.feed(delta)

    # The end of a round

    def _end_round(self, events: list[Event]) -> None:
        if self.rounds and not self._has_output and not self.finishing:
            self.round_fault = protocol_fault("The provider closed the stream without any output.")
            return
        chain = self._chain
        self._feed_machine(chain.close() if self._may_continue else chain.close_for_good(), events)
        if not self.ended:
            self._conclude(events)

    @property
    def _may_continue(self) -> bool:
        """Whether a further round is possible: an answer that was cut off or failed has none."""
        return self._is_complete() and self.rounds < _MAX_ROUNDS

    def _is_complete(self, reason: str | None = None) -> bool:
        """Whether the answer ended well, by `reason` or the provider's finish reason."""
        finish = self.machine.pending_finish
        reason = reason or (finish.reason if finish else None)
        return map_finish_reason(reason).status == "completed"

    def _conclude(self, events: list[Event]) -> None:
        """End the answer, or wait for what a filter wants first."""
        self.is_round_over = True
        if self._chain.wants_round:
            events += self.machine.end_round()
            self._feed_machine(self._chain.begin_next(), events)
        else:
            self._end(events)

    def _end(self, events: list[Event], reason: str | None = None) -> None:
        response = self.machine.snapshot
        last = response.output[-1] if response.output else None
        if (last is None or isinstance(last, ReasoningItem)) and self._is_complete(reason):
            events += self.machine.complete_answer()
        if response.usage is None:
            self._estimate_usage(response)
        events += self.machine.finish(reason)

    def _estimate_usage(self, response: Response) -> None:
        """Estimate the token counts: the provider sent none."""
        plans = [*self._earlier_plans, *([self.plan] if self.plan is not None else [])]
        if plans:
            input_bytes = sum(map(measure_input, plans))
            self.machine.usage(estimate_usage(input_bytes, response.output))
            self.diagnostics.append(usage_estimated(response.model))

    # Between rounds

    @property
    def awaits_next_round(self) -> bool:
        """A round is over and the answer is not: see `pending_searches`, then `follow_up`."""
        return self.is_round_over and not self.ended

    @property
    def pending_searches(self) -> Sequence[SearchCall]:
        """The searches that must be made before the next request, in order."""
        return self._chain.pending if self.awaits_next_round else ()

    @property
    def follow_up(self) -> FollowUp | None:
        """The next request, as soon as no search is pending: what all filters want, together."""
        if not self.awaits_next_round or self.pending_searches:
            return None
        return self._chain.combine_follow_ups()

    def settle_search(self, result: SearchOutcome) -> list[Event]:
        """Take the outcome of the first pending search; its results join the next request."""
        return self._collect(self._settle_search, result)

    def begin_next_round(self) -> None:
        """Go on: the request in `follow_up` is about to be sent."""
        self.rounds += 1
        self.is_round_over = False
        if self.plan is not None:
            self._earlier_plans.append(self.plan)
        self._is_round_required = self._chain.begin_next_round()
        self.machine.next_round()

    def give_up_round(self, fault: ProviderFault) -> list[Event]:
        """Do without the next round: no attempt at it succeeded. Filters release what they hold
        back, and the answer is complete; unless it waits for search results, then it fails."""
        if self._is_round_required:
            return self.fail(fault)
        return self._collect(self._give_up_round)

    def _give_up_round(self, events: list[Event]) -> None:
        self.plan = None  # it was not answered, so it costs nothing
        self._feed_machine(self._chain.give_up(), events)
        if not self.ended:
            self._end(events, "stop")

    def _settle_search(self, result: SearchOutcome, events: list[Event]) -> None:
        self._feed_machine(self._chain.settle(result), events)
        if self._chain.pending:
            self._feed_machine(self._chain.begin_next(), events)
        else:
            self._conclude(events)


_IDLE = Phase.IDLE
_TEXTUAL = Text | Reasoning | Refusal
_MESSAGE_TEXT = (Text, Refusal)
