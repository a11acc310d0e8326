"""All filters of an answer as one: what passes them, and what they want together."""

from __future__ import annotations

from collections.abc import Callable

from antiphon.core.client_profile import OTHER
from antiphon.core.compaction.filters import CompactedContextFilter
from antiphon.core.deltas import Delta, Reasoning, Refusal, Text, ToolCall
from antiphon.core.diagnostic import Code, Diagnostic, ignored
from antiphon.core.filters.filter import DeltaFilter, FollowUp, RoundEnd, RoundWish
from antiphon.core.filters.gateway_call import CallWish
from antiphon.core.filters.simple_filters import (
    EmptyAnswerFilter,
    ReasoningSummaryFilter,
    RefusalTextFilter,
    SingleCallFilter,
)
from antiphon.core.freeform.filter import FreeformInputFilter
from antiphon.core.history.steps import MessageStep, TextPart
from antiphon.core.tools.declaration import ToolChoice
from antiphon.core.tools.identity import ToolIdentityMap
from antiphon.core.translation.filters import FilterChain
from antiphon.core.web_search.rules import SearchRules
from antiphon.core.web_search.search_call import SearchCall, SearchOutcome

STEP = MessageStep("user", (TextPart("Go on."),))


class Mapped(DeltaFilter):
    """Replaces each text by others."""

    def __init__(self, replace: Callable[[str], str]) -> None:
        super().__init__()
        self._replace = replace

    def feed(self, delta: Delta) -> list[Delta]:
        if not isinstance(delta, Text):
            return [delta]
        return [Text(letter) for letter in self._replace(delta.text)]


class Holding(DeltaFilter):
    """Holds back all text, and wants a further round each time."""

    def __init__(self, *, required: bool = False, choice: ToolChoice | None = None) -> None:
        super().__init__()
        self._required = required
        self.finals: list[bool] = []
        self._choice = choice
        self._held: list[Delta] = []

    def feed(self, delta: Delta) -> list[Delta]:
        self._held.append(delta)
        return []

    def close(self, *, final: bool) -> RoundEnd:
        self.finals.append(final)
        follow_up = FollowUp(steps=(STEP,), tool_choice=self._choice)
        return RoundEnd(wish=RoundWish(follow_up, self._required))

    def give_up(self) -> list[Delta]:
        held, self._held = self._held, []
        return held


class Searching(DeltaFilter):
    """Wants so many searches, one after the other."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._calls = tuple(
            SearchCall(call_id=f"call_{number}", arguments="{}", queries=(), rules=SearchRules())
            for number in range(count)
        )

    def feed(self, delta: Delta) -> list[Delta]:
        return [delta]

    def close(self, *, final: bool) -> RoundEnd:
        return RoundEnd(wish=self._wish())

    def _wish(self) -> CallWish | None:
        return CallWish(self._calls, self._settle) if self._calls else None

    def _settle(self, outcome: SearchOutcome) -> RoundEnd:
        done, *rest = self._calls
        self._calls = tuple(rest)
        return RoundEnd([Text(done.call_id)], self._wish())


def test_only_the_first_filter_that_wants_a_round_is_closed_as_final() -> None:
    first, second = Holding(), Holding()
    chain = FilterChain([first, second], [])
    first.feed(Text("a"))
    assert chain.close() == []
    assert (first.finals, second.finals) == ([True], [False])
    assert chain.wishes


def test_filters_that_get_no_further_round_give_up() -> None:
    held = Holding()
    chain = FilterChain([held, Mapped(str.upper)], [])
    held.feed(Text("a"))
    assert chain.close_for_good() == [Text("A")]
    assert not chain.wishes


def test_giving_up_releases_what_earlier_rounds_held_back() -> None:
    held = Holding()
    chain = FilterChain([held, Mapped(str.upper)], [])
    held.feed(Text("a"))
    assert (chain.close(), chain.give_up()) == ([], [Text("A")])


def test_the_wishes_of_all_filters_become_one_follow_up() -> None:
    chain = FilterChain([Holding(), Holding(choice=ToolChoice("none"))], [])
    chain.close()
    assert chain.follow_up == FollowUp(steps=(STEP, STEP), tool_choice=ToolChoice("none"))


def test_a_round_is_required_if_one_of_the_filters_that_want_it_requires_it() -> None:
    for required in (False, True):
        chain = FilterChain([Holding(), Holding(required=required)], [])
        chain.close()
        assert chain.requires_round is required
        chain.give_up()
        assert not chain.wishes
        assert not chain.requires_round


def test_searches_are_settled_in_order() -> None:
    chain = FilterChain([Searching(0), Searching(2), Searching(1)], [])
    chain.close()
    assert [call.call_id for call in chain.calls] == ["call_0", "call_1", "call_0"]
    assert chain.settle_call(SearchOutcome()) == [Text("call_0")]
    assert chain.settle_call(SearchOutcome()) == [Text("call_1")]
    assert [call.call_id for call in chain.calls] == ["call_0"]
    assert chain.wishes
    assert chain.settle_call(SearchOutcome()) == [Text("call_0")]
    assert (chain.calls, chain.wishes) == ((), {})


class Reporting(DeltaFilter):
    """Reports each text."""

    def feed(self, delta: Delta) -> list[Delta]:
        self.diagnostics = (*self.diagnostics, ignored(Code.ANSWER_EMPTY, "output", "Empty."))
        return [delta]


def test_diagnostics_of_all_filters_are_taken_once() -> None:
    first, second = Reporting(), Reporting()
    diagnostics: list[Diagnostic] = []
    chain = FilterChain([first, second], diagnostics)
    first.feed(Text("a"))
    second.feed(Text("a"))
    for _ in range(2):
        chain.close()
        assert [note.code for note in diagnostics] == [Code.ANSWER_EMPTY] * 2
    assert (first.diagnostics, second.diagnostics) == ((), ())


def test_a_filter_says_which_pieces_need_not_be_fed_to_it() -> None:
    compacted = CompactedContextFilter({})
    single = SingleCallFilter()
    single.feed(ToolCall(3, "x"))
    empty = EmptyAnswerFilter()
    table: list[tuple[DeltaFilter, Delta, bool]] = [
        (empty, Reasoning("a"), True),
        (empty, Text("a"), False),
        (ReasoningSummaryFilter(), Text("a"), True),
        (ReasoningSummaryFilter(), Reasoning("a"), False),
        (RefusalTextFilter(OTHER), Text("a"), True),
        (RefusalTextFilter(OTHER), Refusal("a"), False),
        (single, Text("a"), True),
        (single, ToolCall(3), True),
        (single, ToolCall(4), False),
        (compacted, Text("a"), False),
        (FreeformInputFilter(ToolIdentityMap()), Text("a"), True),
        (FreeformInputFilter(ToolIdentityMap()), ToolCall(0), False),
    ]
    for subject, delta, passes in table:
        assert subject.passes(delta) is passes, (type(subject).__name__, delta)
    compacted.feed(Text("a"))
    assert compacted.passes(Text("a"))
