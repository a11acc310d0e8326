"""A filter driven over its rounds: its deltas as lists, and what its last round wanted."""

from __future__ import annotations

from antiphon.core.deltas import Delta, SearchStarted
from antiphon.core.diagnostic import Diagnostic
from antiphon.core.filters.filter import DeltaFilter, FollowUp, RoundEnd, RoundWish, Wish
from antiphon.core.web_search.filter import SearchWish
from antiphon.core.web_search.search_call import SearchCall, SearchOutcome


class DrivenFilter:
    def __init__(self, subject: DeltaFilter) -> None:
        self._subject = subject
        self.wish: Wish | None = None

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        return self._subject.diagnostics

    @property
    def follow_up(self) -> FollowUp | None:
        return self.wish.follow_up if isinstance(self.wish, RoundWish) else None

    @property
    def searches(self) -> tuple[SearchCall, ...]:
        return self.wish.calls if isinstance(self.wish, SearchWish) else ()

    def feed(self, delta: Delta) -> list[Delta]:
        return self._subject.feed(delta)

    def close(self, *, final: bool) -> list[Delta]:
        return self._end(self._subject.close(final=final))

    def take_diagnostics(self) -> tuple[Diagnostic, ...]:
        return self._subject.take_diagnostics()

    def give_up(self) -> list[Delta]:
        self.wish = None
        return [*self._subject.give_up()]

    def settle(self, outcome: SearchOutcome) -> list[Delta]:
        """Make the first search that is wanted: its start, and its outcome."""
        assert isinstance(self.wish, SearchWish)
        started = SearchStarted(self.wish.calls[0].action)
        return [started, *self._end(self.wish.settle(outcome))]

    def _end(self, end: RoundEnd) -> list[Delta]:
        self.wish = end.wish
        return [*end.deltas]
