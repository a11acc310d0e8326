"""The defaults of a delta filter: it wants no rounds, no searches, and holds nothing back."""

from __future__ import annotations

from antiphon.core.filters.filter import DeltaFilter
from antiphon.core.stream.deltas import Delta, Text
from antiphon.core.web_search.search_call import SearchOutcome


class Plain(DeltaFilter):
    def feed(self, delta: Delta) -> list[Delta]:
        return [delta]


class Holding(Plain):
    def close(self, *, final: bool) -> list[Delta]:
        return [Text(f"{final}")]


def test_a_filter_that_only_feeds_wants_nothing() -> None:
    plain = Plain()
    assert (plain.close(final=True), plain.give_up()) == ([], [])
    assert (plain.begin_next(), plain.settle(SearchOutcome())) == ([], [])
    assert (plain.follow_up, plain.requires_next_round) == (None, False)
    assert (list(plain.pending), plain.diagnostics) == ([], ())


def test_giving_up_closes_the_filter_for_good() -> None:
    assert Holding().give_up() == [Text("True")]
