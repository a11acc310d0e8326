"""All filters of an answer as one: what passes them, and what they want together."""

from __future__ import annotations

from collections.abc import Callable

from antiphon.core.diagnostic import Code, ignored
from antiphon.core.filters.chain import FilterChain
from antiphon.core.filters.filter import DeltaFilter
from antiphon.core.history.steps import MessageStep, TextPart
from antiphon.core.plan.follow_up import FollowUp
from antiphon.core.plan.plan import ToolChoice
from antiphon.core.stream.deltas import Delta, Reasoning, SearchStarted, Text, Usage
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
        self.requires_next_round = required
        self.finals: list[bool] = []
        self._choice = choice
        self._held: list[Delta] = []

    def feed(self, delta: Delta) -> list[Delta]:
        self._held.append(delta)
        return []

    def close(self, *, final: bool) -> list[Delta]:
        self.finals.append(final)
        self.follow_up = FollowUp(steps=(STEP,), tool_choice=self._choice)
        return []

    def give_up(self) -> list[Delta]:
        self.follow_up = None
        held, self._held = self._held, []
        return held


class Searching(DeltaFilter):
    """Has so many searches pending."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.pending: list[SearchCall] = [
            SearchCall(call_id=f"call_{number}", arguments="{}", queries=(), rules=SearchRules())
            for number in range(count)
        ]

    def feed(self, delta: Delta) -> list[Delta]:
        return [delta]

    def begin_next(self) -> list[Delta]:
        return [SearchStarted({"call": self.pending[0].call_id})]

    def settle(self, result: SearchOutcome) -> list[Delta]:
        return [Text(self.pending.pop(0).call_id)]


def feed_first(chain: FilterChain, delta: Delta) -> None:
    """Feed a delta to the first filter of the request."""
    chain.feeds[0](delta)


def test_filters_for_leaked_markup_are_replaced_with_the_model() -> None:
    chain = FilterChain([Mapped(str.upper)])
    chain.use_guards(["think"])
    assert chain.filter_markup([Text("<think>a"), Usage()]) == [Reasoning("a"), Usage()]
    chain.use_guards([])
    assert not chain.has_markup
    assert chain.filter_markup([Text("<think>b")]) == [Text("<think>b")]


def test_markup_of_a_whole_answer_is_taken_out() -> None:
    chain = FilterChain([Mapped(str.upper)])
    assert chain.filter_whole([Text("<think>a")]) == [Text("<think>a")]
    chain.use_guards(["think"])
    assert chain.filter_whole([Text("<think>a")]) == [Reasoning("a")]


def test_text_that_turns_out_to_be_no_markup_is_released_at_the_end_of_the_stream() -> None:
    chain = FilterChain()
    chain.use_guards(["think"])
    assert chain.filter_markup([Text("<th")]) == []
    assert chain.close_markup() == [Text("<th")]
    assert chain.close() == []


def test_only_the_first_filter_that_wants_a_round_is_closed_as_final() -> None:
    first, second = Holding(), Holding()
    chain = FilterChain([first, second])
    feed_first(chain, Text("a"))
    assert chain.close() == []
    assert (first.finals, second.finals) == ([True], [False])
    assert chain.wants_round


def test_filters_that_get_no_further_round_give_up() -> None:
    chain = FilterChain([Holding(), Mapped(str.upper)])
    feed_first(chain, Text("a"))
    assert chain.close_for_good() == [Text("A")]
    assert not chain.wants_round


def test_giving_up_releases_what_earlier_rounds_held_back() -> None:
    chain = FilterChain([Holding(), Mapped(str.upper)])
    feed_first(chain, Text("a"))
    assert (chain.close(), chain.give_up()) == ([], [Text("A")])


def test_the_wishes_of_all_filters_become_one_follow_up() -> None:
    chain = FilterChain([Holding(), Holding(choice=ToolChoice("none"))])
    chain.close()
    assert chain.combine_follow_ups() == FollowUp(
        steps=(STEP, STEP), tool_choice=ToolChoice("none")
    )


def test_a_round_is_required_if_one_of_the_filters_that_want_it_requires_it() -> None:
    for required in (False, True):
        chain = FilterChain([Holding(), Holding(required=required)])
        chain.close()
        assert chain.begin_next_round() is required
        assert not chain.wants_round
        assert chain.begin_next_round() is False


def test_pending_searches_are_settled_in_order() -> None:
    chain = FilterChain([Searching(0), Searching(2)])
    assert [call.call_id for call in chain.pending] == ["call_0", "call_1"]
    assert chain.begin_next() == [SearchStarted({"call": "call_0"})]
    assert chain.settle(SearchOutcome()) == [Text("call_0")]
    assert chain.begin_next() == [SearchStarted({"call": "call_1"})]
    assert chain.settle(SearchOutcome()) == [Text("call_1")]
    assert (list(chain.pending), chain.begin_next()) == ([], [])


class Reporting(DeltaFilter):
    """Reports each text."""

    def feed(self, delta: Delta) -> list[Delta]:
        self.diagnostics = (*self.diagnostics, ignored(Code.ANSWER_EMPTY, "output", "Empty."))
        return [delta]


def test_diagnostics_of_all_filters_are_taken_once() -> None:
    first, second = Reporting(), Reporting()
    chain = FilterChain([first, second])
    feed_first(chain, Text("a"))
    second.feed(Text("a"))
    for _ in range(2):
        chain.close()
        assert [note.code for note in chain.diagnostics] == [Code.ANSWER_EMPTY] * 2
    assert (first.diagnostics, second.diagnostics) == ((), ())
