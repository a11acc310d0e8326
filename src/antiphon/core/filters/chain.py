"""All delta filters of one answer as one list: deltas pass through them in order."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.core.diagnostic import Diagnostic
from antiphon.core.filters.filter import DeltaFilter
from antiphon.core.filters.order import filter_whole_answer, make_markup_filters, pass_deltas
from antiphon.core.plan.follow_up import FollowUp
from antiphon.core.stream.deltas import Delta
from antiphon.core.web_search.search_call import SearchCall, SearchOutcome


class FilterChain:
    """The filters of one answer: those for leaked markup first, then those of the request."""

    def __init__(self, filters: Sequence[DeltaFilter] = ()) -> None:
        self._filters = list(filters)
        self._markup_count = 0
        self.has_markup = False
        self.feeds = [each.feed for each in filters]
        """`feed` of every filter of the request; the bridge calls them for each delta."""
        self.diagnostics: list[Diagnostic] = []
        """All diagnostics of the filters so far."""

    def use_guards(self, guards: Sequence[str]) -> None:
        """Replace the filters for leaked markup: the next answer may come from another model."""
        markup_filters = make_markup_filters(guards)
        self._filters[: self._markup_count] = markup_filters
        self.has_markup = bool(markup_filters)
        self._markup_count = len(markup_filters)

    # During a round

    def filter_markup(self, deltas: Sequence[Delta]) -> Sequence[Delta]:
        """Take leaked markup out of decoded deltas. What these filters hold back is no output yet:
        it may turn out to be nothing but a tag."""
        for each in self._filters[: self._markup_count]:
            deltas = pass_deltas(each, deltas)
        return deltas

    def close_markup(self) -> Sequence[Delta]:
        """End a stream: the filters for leaked markup release what they hold back."""
        deltas: Sequence[Delta] = []
        for each in self._filters[: self._markup_count]:
            deltas = [*pass_deltas(each, deltas), *each.close(final=True)]
        return deltas

    def filter_whole(self, deltas: Sequence[Delta]) -> list[Delta]:
        """Take leaked markup out of the deltas of a whole answer."""
        return filter_whole_answer(deltas, self._filters[: self._markup_count])

    # The end of a round

    def close(self) -> list[Delta]:
        """End a round: every filter releases what it holds back, or wants a further round."""
        deltas: list[Delta] = []
        final = True
        for each in self._filters[self._markup_count :]:
            deltas = _feed_all(each, deltas) + each.close(final=final)
            final = final and not _wants_round(each)
        self._take_diagnostics()
        return deltas

    def close_for_good(self) -> list[Delta]:
        """End a round after which no further one is possible: filters that want one give up."""
        deltas: list[Delta] = []
        for each in self._filters[self._markup_count :]:
            deltas = _feed_all(each, deltas) + each.close(final=True)
            if _wants_round(each):
                deltas += each.give_up()
        self._take_diagnostics()
        return deltas

    def give_up(self) -> list[Delta]:
        """Do without the further round: filters release what they hold back for it."""
        deltas: list[Delta] = []
        for each in self._filters[self._markup_count :]:
            deltas = _feed_all(each, deltas) + each.give_up()
        self._take_diagnostics()
        return deltas

    def _take_diagnostics(self) -> None:
        for each in self._filters:
            if each.diagnostics:
                self.diagnostics += each.diagnostics
                each.diagnostics = ()

    # Between rounds

    @property
    def wants_round(self) -> bool:
        """Whether the answer cannot end yet."""
        return any(map(_wants_round, self._filters))

    @property
    def pending(self) -> Sequence[SearchCall]:
        """Searches to be made before the further round, in order."""
        return [call for each in self._filters for call in each.pending]

    def begin_next(self) -> list[Delta]:
        """Announce the first pending search, if there is one."""
        return next((each.begin_next() for each in self._filters if each.pending), [])

    def settle(self, result: SearchOutcome) -> list[Delta]:
        """Take the outcome of the first pending search."""
        deltas = next(each.settle(result) for each in self._filters if each.pending)
        self._take_diagnostics()
        return deltas

    def combine_follow_ups(self) -> FollowUp:
        """The next request: what all filters want, together."""
        wanted = [each.follow_up for each in self._filters if each.follow_up is not None]
        choices = [each.tool_choice for each in wanted if each.tool_choice is not None]
        steps = tuple(step for each in wanted for step in each.steps)
        return FollowUp(steps=steps, tool_choice=choices[0] if choices else None)

    def begin_next_round(self) -> bool:
        """The next request is about to be sent. Return whether the answer fails without it."""
        wanted = [each for each in self._filters if each.follow_up is not None]
        for each in wanted:
            each.follow_up = None
        return any(each.requires_next_round for each in wanted)


def _wants_round(each: DeltaFilter) -> bool:
    """Whether the answer cannot end yet, as far as this filter is concerned."""
    return each.follow_up is not None or bool(each.pending)


def _feed_all(each: DeltaFilter, deltas: Sequence[Delta]) -> list[Delta]:
    return [out for delta in deltas for out in each.feed(delta)]
