"""From a provider's bytes to events: framer → decoder → desks → machine, and no way out but a good
one.

However the upstream behaves, and whatever goes wrong on the way, the events of a bridge begin with
`response.created` and end with exactly one terminal event.

An answer may take several rounds. When one is over and a desk wants another, the bridge says so
(`search`, then `again`) and waits: whoever drives it searches, asks the provider, and feeds it on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from antiphon.core.diagnostic import Code, Decision, Diagnostic
from antiphon.core.faults.fault import ProviderFault, internal_fault, protocol_fault
from antiphon.core.filters.filter import DeltaFilter
from antiphon.core.filters.web_search import SearchCall, SearchOutcome, WebSearchFilter
from antiphon.core.plan.follow_up import FollowUp
from antiphon.core.stream.blocks import Seal
from antiphon.core.stream.deltas import (
    Delta,
    Extra,
    Failure,
    RawItem,
    Reasoning,
    Refusal,
    Start,
    Text,
    ToolCall,
    Usage,
)
from antiphon.core.stream.finish import outcome
from antiphon.core.stream.machine import Phase, ResponseMachine
from antiphon.core.stream.usage import estimated
from antiphon.dialects.dialect import Dialect, StreamDecoder
from antiphon.dialects.guard import GuardedDecoder, build_guards, guarded
from antiphon.errors import BridgeError
from antiphon.wire.events import Event
from antiphon.wire.items import Item, Message
from antiphon.wire.response import Response
from antiphon.wire.sse import Frame

_MOST_ROUNDS = 24  # far beyond what any desk asks for: an answer ends


class Bridge:
    """One answer. Streamed: `feed` and `close`. Whole: `answer`."""

    def __init__(
        self,
        machine: ResponseMachine,
        dialect: Dialect,
        guards: Sequence[str] = (),
        desks: Sequence[DeltaFilter] = (),
    ) -> None:
        """`guards` names what this model is known to leak into its text."""
        self._machine = machine
        self._desks = list(desks)
        self._feeds = [desk.feed for desk in self._desks]
        self.rounds = 0
        self.asked_bytes = 0
        """How long the request of this round is. Where it is known, costs that nobody tells are
        estimated."""
        self._asked_before = 0
        self.refused = False
        """The model has refused, in whatever way the client is told."""
        self._blank = False
        self._awaited = False
        self.diagnostics: list[Diagnostic] = []
        """What the desks found worth telling."""
        self.turn_to(dialect, guards)

    def turn_to(
        self, dialect: Dialect, guards: Sequence[str] = (), seal: Seal | None = None
    ) -> None:
        """A provider is asked, and what comes next is its answer; `seal` keeps its state."""
        self._machine.seal = seal or self._machine.seal
        self._dialect = dialect
        self._guards = build_guards(guards)
        self._framer = dialect.framer()
        self._decoder: StreamDecoder = dialect.decoder()
        if self._guards:
            self._decoder = GuardedDecoder(self._decoder, self._guards)
        self.frames = 0
        """How many have come: whoever waits for an answer does not count the bytes between."""
        self.keeping = False
        """The provider has said something that a desk keeps to itself for now."""
        self._spoke = False
        self.rejected: ProviderFault | None = None
        """Why a later round came to nothing before it said a word: it may be asked again."""
        self._round_over = False

    @property
    def ended(self) -> bool:
        phase = self._machine.phase  # asked for every delta, and hashing an enum is not free
        return phase is not _IN_PROGRESS and phase is not _IDLE

    @property
    def finishing(self) -> bool:
        """The provider has said why it stopped; only usage is still worth waiting for."""
        return self._machine.pending_finish is not None

    @property
    def fault(self) -> ProviderFault | None:
        """Why the answer failed, if a fault is why."""
        return self._machine.fault

    @property
    def snapshot(self) -> Response:
        """The response as it stands."""
        return self._machine.snapshot

    def start(self) -> list[Event]:
        """Begin before the provider has said anything; nothing happens if it has."""
        return self._started()

    def feed(self, chunk: bytes) -> list[Event]:
        """What this read of the network makes the client see."""
        return self._guarded(lambda events: self._read(self._framer.feed(chunk), events))

    def close(self) -> list[Event]:
        """The upstream has closed: the terminal event, unless it has left already."""
        return self._guarded(self._close)

    def answer(self, body: bytes) -> list[Event]:
        """A whole answer: a stream of one chunk, with a message even if it is empty."""
        return self._guarded(lambda events: self._whole(body, events))

    def fail(self, fault: ProviderFault) -> list[Event]:
        """End the answer with an error; nothing happens to one that has ended."""
        if self.ended:
            return []
        return self._started() + self._machine.fail(fault)

    def lose(self, fault: ProviderFault) -> list[Event]:
        """The line has broken. An answer that had said why it stopped is whole; a later round that
        had said nothing may be asked again."""
        if self.finishing and not self.ended:
            return self.close()
        if self.rounds and not self._spoke:
            self.rejected = fault
            return []
        return self.fail(fault)

    def _guarded(self, step: Callable[[list[Event]], None]) -> list[Event]:
        """The events of a step. If it breaks, it keeps what it has earned, and the answer fails."""
        events: list[Event] = []
        if self.ended:
            return events
        try:
            step(events)
        except BridgeError as error:
            events += self.fail(protocol_fault(error.message, code=error.code.rpartition(".")[2]))
        except Exception as error:  # a bug of ours is no reason to leave a client hanging
            events += self.fail(internal_fault(error))
        return events

    def _read(self, frames: Sequence[Frame], events: list[Event]) -> None:
        self.frames += len(frames)
        for frame in frames:
            if self._is_over:
                break
            self._take(self._decoder.feed(frame), events)
            if self._decoder.ended:
                self._finish(events)

    @property
    def _is_over(self) -> bool:
        return self.ended or self._round_over or self.rejected is not None

    def _close(self, events: list[Event]) -> None:
        self._read(self._framer.close(), events)
        self._finish(events)

    def _whole(self, body: bytes, events: list[Event]) -> None:
        deltas = guarded(self._dialect.decode(body), self._guards)
        self._take(deltas, events)
        if self._is_over:
            return
        events += self._started()
        self._blank = not any(map(_answers, deltas))
        self._end_round(events)

    def _finish(self, events: list[Event]) -> None:
        if not self._is_over:
            self._take(self._decoder.close(), events)
        if not self._is_over:
            events += self._started()
            self._end_round(events)

    def _take(self, deltas: Sequence[Delta], events: list[Event]) -> None:
        if deltas:
            events += self._started(deltas)
        for delta in deltas:
            if type(delta) in _ASIDE:
                events += self._machine.feed(delta)
                continue
            if not self._spoke and self._is_rejection(delta):
                break
            if type(delta) is Refusal:
                self.refused = True
            told = self._past_desks(delta)
            if not told:
                self.keeping = self._spoke
            self._feed(told, events)
            if self.ended:
                break

    def _is_rejection(self, delta: Delta) -> bool:
        """Until the first word of a round: whether it ends before that, and may be asked again."""
        if type(delta) is Failure and self.rounds:
            self.rejected = delta.fault
            return True
        self._spoke = not (isinstance(delta, _WORDS) and not delta.text)
        return False

    def _past_desks(self, delta: Delta) -> Sequence[Delta]:
        deltas = [delta]
        for feed in self._feeds:
            if len(deltas) == 1:  # as nearly always
                deltas = feed(deltas[0])
            else:
                deltas = [out for each in deltas for out in feed(each)]
        return deltas

    def _tell(self, deltas: Sequence[Delta], first: int, events: list[Event]) -> None:
        """Past the desks from this one on, to the machine."""
        for feed in self._feeds[first:]:
            deltas = [out for delta in deltas for out in feed(delta)]
        self._feed(deltas, events)

    def _feed(self, deltas: Sequence[Delta], events: list[Event]) -> None:
        for delta in deltas:
            if self.ended:
                break
            events += self._machine.feed(delta)

    def _started(self, deltas: Sequence[Delta] = ()) -> list[Event]:
        if self._machine.phase is not Phase.IDLE:
            return []
        models = (delta.model for delta in deltas if isinstance(delta, Start))
        return self._machine.start(next(models, None))

    # Rounds

    @property
    def waits(self) -> bool:
        """A round is over and the answer is not: see `search` and `again`."""
        return self._round_over and not self.ended

    @property
    def search(self) -> SearchCall | None:
        """What has to be searched for before the answer can go on."""
        return next(iter(self.searches), None)

    @property
    def searches(self) -> Sequence[SearchCall]:
        """All of them, in their order."""
        desk = self._search_desk
        return desk.pending if self.waits and desk is not None else ()

    @property
    def again(self) -> FollowUp | None:
        """What the provider has to be asked next, if nothing has to be searched for."""
        if not self.waits or self.search is not None:
            return None
        wanted = [desk.again for desk in self._desks if desk.again is not None]
        choices = [each.tool_choice for each in wanted if each.tool_choice is not None]
        steps = tuple(step for each in wanted for step in each.steps)
        return FollowUp(steps=steps, tool_choice=choices[0] if choices else None)

    @property
    def round_items(self) -> list[Item]:
        """What was told in this round, for the history of the next."""
        return self._machine.round_items

    def settle(self, found: SearchOutcome) -> list[Event]:
        """The search is over; what was found joins the next round."""
        return self._guarded(lambda events: self._settle(found, events))

    def abandon(self, fault: ProviderFault) -> list[Event]:
        """The round that was asked for cannot be had. What is held back is told after all; only an
        answer that waits for what a search has found is none."""
        if self._awaited:
            return self.fail(fault)
        return self._guarded(self._give_up)

    def _give_up(self, events: list[Event]) -> None:
        self.asked_bytes = 0  # in vain
        self._close_desks(events, may_ask=False)
        if not self.ended:
            self._end(events, "stop")

    def next_round(self) -> None:
        """The provider will be asked again."""
        self.rounds += 1
        self._round_over = False
        self._asked_before += self.asked_bytes
        searching = self._search_desk
        self._awaited = searching is not None and searching.again is not None
        self._machine.next_round()
        for desk in self._desks:
            desk.again = None

    @property
    def _search_desk(self) -> WebSearchFilter | None:
        return next((desk for desk in self._desks if isinstance(desk, WebSearchFilter)), None)

    def _end_round(self, events: list[Event]) -> None:
        if self.rounds and not self._spoke and not self.finishing:
            self.rejected = protocol_fault("The provider ended without a word.")
            return
        pending = self._machine.pending_finish
        ended_well = outcome(pending.reason if pending else None).status == "completed"
        self._close_desks(events, may_ask=ended_well and self.rounds < _MOST_ROUNDS)
        if not self.ended:
            self._conclude(events)

    def _close_desks(self, events: list[Event], *, may_ask: bool) -> None:
        """Every desk lets go of what it holds, unless it wants another round."""
        final = True
        for place, desk in enumerate(self._desks):
            self._tell(desk.close(final=final), place + 1, events)
            if _wants(desk) and not may_ask:  # closed once more, it gives up
                self._tell(desk.close(final=final), place + 1, events)
                desk.again = None
            final = final and not _wants(desk)
            self._collect(desk)

    def _collect(self, desk: DeltaFilter) -> None:
        self.diagnostics += desk.diagnostics
        desk.diagnostics.clear()

    def _conclude(self, events: list[Event]) -> None:
        """The end of the answer, or of this round of it."""
        self._round_over = True
        if any(map(_wants, self._desks)):
            events += self._machine.end_round()
            self._begin_search(events)
            return
        self._end(events)

    def _end(self, events: list[Event], reason: str | None = None) -> None:
        so_far = self._machine.snapshot
        if self._blank and not (so_far.output and isinstance(so_far.output[-1], Message)):
            events += self._machine.empty_message()
        asked_bytes = self._asked_before + self.asked_bytes
        if asked_bytes and so_far.usage is None:
            self._machine.usage(estimated(asked_bytes, so_far.output))
            self.diagnostics.append(_ESTIMATED)
        events += self._machine.finish(reason)

    def _begin_search(self, events: list[Event]) -> None:
        desk = self._search_desk
        if desk is not None and desk.pending:
            self._tell(desk.begin(desk.pending[0]), len(self._desks), events)

    def _settle(self, found: SearchOutcome, events: list[Event]) -> None:
        desk, call = self._search_desk, self.search
        assert desk is not None
        assert call is not None
        self._tell(desk.settle(call, found), len(self._desks), events)
        self._collect(desk)
        if desk.pending:
            self._begin_search(events)
        else:
            self._conclude(events)


_IDLE, _IN_PROGRESS = Phase.IDLE, Phase.IN_PROGRESS
_ESTIMATED = Diagnostic(
    code=Code.USAGE_ESTIMATED,
    decision=Decision.DEGRADED,
    param="usage",
    message="The provider told no token counts: these are an estimate.",
)
_ASIDE = frozenset({Start, Usage, Extra})
"""Who answers and what it costs: no desk is asked about that, and it is no word of an answer."""
_WORDS = Text | Reasoning | Refusal


def _wants(desk: DeltaFilter) -> bool:
    """Whether the answer cannot end yet, as far as this desk is concerned."""
    return desk.again is not None or (isinstance(desk, WebSearchFilter) and bool(desk.pending))


def _answers(delta: Delta) -> bool:
    """It makes an item that a whole answer would otherwise lack."""
    if isinstance(delta, Text | Refusal):
        return bool(delta.text)
    return isinstance(delta, ToolCall | RawItem)
