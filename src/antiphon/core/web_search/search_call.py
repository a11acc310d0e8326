"""Web searches requested by the model, and what came of them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from antiphon.core.deltas import Delta, SearchStarted
from antiphon.core.filters.gateway_call import GatewayCall
from antiphon.core.web_search.rules import SearchRules
from antiphon.core.web_search.sources import SearchResult


class SearchOutcome(Struct, frozen=True, kw_only=True):
    """The results of a search. A search without results has not failed."""

    results: tuple[SearchResult, ...] = ()
    failed: bool = False
    problem: str = ""
    """Why it failed, as a sentence that a client may read: no secrets, no provider messages."""


class SearchCall(GatewayCall, frozen=True, kw_only=True):
    """A web search requested by the model: one call, which may hold several queries."""

    arguments: str
    queries: tuple[str, ...]
    rules: SearchRules

    @property
    def action(self) -> dict[str, object]:
        """The search as an output item names it."""
        return {"type": "search", "query": self.queries[0], "queries": list(self.queries)}

    def announce(self) -> Sequence[Delta]:
        return [SearchStarted(self.action)]

    def fail(self) -> SearchOutcome:
        return SearchOutcome(failed=True)
