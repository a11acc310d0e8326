"""A filter driven over its rounds: its deltas as lists, and what its last round wanted."""

from __future__ import annotations

from typing import Any

from antiphon.core.deltas import Delta
from antiphon.core.diagnostic import Diagnostic
from antiphon.core.filters.filter import DeltaFilter, FollowUp, RoundEnd, RoundWish, Wish
from antiphon.core.filters.gateway_call import CallWish


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
    def searches(self) -> tuple[Any, ...]:
        return self.wish.calls if isinstance(self.wish, CallWish) else ()

    def open(self) -> list[Delta]:
        return self._end(self._subject.open())

    def feed(self, delta: Delta) -> list[Delta]:
        return self._subject.feed(delta)

    def close(self, *, final: bool) -> list[Delta]:
        return self._end(self._subject.close(final=final))

    def take_diagnostics(self) -> tuple[Diagnostic, ...]:
        return self._subject.take_diagnostics()

    def give_up(self) -> list[Delta]:
        self.wish = None
        return [*self._subject.give_up()]

    def settle(self, outcome: object) -> list[Delta]:
        """Make the first call that is wanted: its announcement, and its outcome."""
        assert isinstance(self.wish, CallWish)
        started = self.wish.calls[0].announce()
        return [*started, *self._end(self.wish.settle(outcome))]

    def _end(self, end: RoundEnd) -> list[Delta]:
        self.wish = end.wish
        return [*end.deltas]
