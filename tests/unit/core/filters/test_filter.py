"""The defaults of a delta filter: it wants nothing, and holds nothing back."""

from __future__ import annotations

from antiphon.core.deltas import Delta, Text
from antiphon.core.diagnostic import Code
from antiphon.core.filters.filter import DeltaFilter, RoundEnd


class Plain(DeltaFilter):
    def feed(self, delta: Delta) -> list[Delta]:
        return [delta]


class Holding(Plain):
    def close(self, *, final: bool) -> RoundEnd:
        return RoundEnd([Text(f"{final}")])


class Reporting(Plain):
    def feed(self, delta: Delta) -> list[Delta]:
        self._note(Code.ANSWER_EMPTY, "output", "Empty.")
        return [delta]


def test_a_filter_that_only_feeds_wants_nothing() -> None:
    plain = Plain()
    assert plain.close(final=True) == RoundEnd()
    assert (list(plain.give_up()), plain.take_diagnostics()) == ([], ())


def test_giving_up_closes_the_filter_for_good() -> None:
    assert Holding().give_up() == [Text("True")]


def test_diagnostics_are_taken_once() -> None:
    subject = Reporting()
    subject.feed(Text("a"))
    subject.feed(Text("b"))
    assert [note.code for note in subject.take_diagnostics()] == [Code.ANSWER_EMPTY] * 2
    assert subject.take_diagnostics() == subject.diagnostics == ()
