"""Delta filters: they change, hold back or add deltas between the decoder and the state machine.

A *round* is one request to the provider and its answer; most answers take one. A filter takes
deltas and gives deltas, over all rounds of one answer. When a round is over, a filter may want a
further one: the answer then goes on, in the same response, with the filter's steps added to the
history. `Start`, `Usage`, `ServiceTier` and `Extra` bypass the filters: they say who answers and
what it costs, and have no position among the output items.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from antiphon.core.diagnostic import Code, Diagnostic, degraded
from antiphon.core.plan.follow_up import FollowUp
from antiphon.core.stream.deltas import Delta
from antiphon.core.web_search.search_call import SearchCall, SearchOutcome


class DeltaFilter(ABC):
    """One filter of one answer. Only `feed` is required; most filters need no more."""

    pending: Sequence[SearchCall] = ()
    """Searches to be made before a further round, in order; see `begin_next` and `settle`."""
    requires_next_round = False
    """Whether the answer fails if the round in `follow_up` cannot be had: without it the model
    never sees the results of its calls. Otherwise `give_up` releases what is held back."""

    follow_up: FollowUp | None = None
    """The further round that `close` or `settle` wants; None: no further round."""
    diagnostics: tuple[Diagnostic, ...] = ()
    """Changes to the answer that the client should know of; the chain collects them."""

    @abstractmethod
    def feed(self, delta: Delta) -> list[Delta]:
        """Return what takes the place of this delta: itself, nothing, or others."""

    def close(self, *, final: bool) -> list[Delta]:
        """End the round: release what is held back, or set `follow_up` or `pending`.

        `final` is False if another filter wants a further round already."""
        return []

    def give_up(self) -> list[Delta]:
        """Release everything: the further round that was wanted cannot be had."""
        return self.close(final=True)

    def begin_next(self) -> list[Delta]:
        """Announce the first pending search: it is about to be made."""
        return []

    def settle(self, result: SearchOutcome) -> list[Delta]:
        """Take the outcome of the first pending search; after the last one, set `follow_up`."""
        return []

    def _note(self, code: Code, param: str, message: str, subject: str = "") -> None:
        """Add a diagnostic."""
        self.diagnostics = (*self.diagnostics, degraded(code, param, message, subject))
