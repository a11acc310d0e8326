"""Web searches requested by the model, and what came of them."""

from __future__ import annotations

from msgspec import Struct

from antiphon.core.web_search.rules import SearchRules
from antiphon.core.web_search.sources import SearchResult


class SearchCall(Struct, frozen=True, kw_only=True):
    """A web search requested by the model: one call, which may hold several queries."""

    call_id: str
    arguments: str
    queries: tuple[str, ...]
    rules: SearchRules

    @property
    def action(self) -> dict[str, object]:
        """The search as an output item names it."""
        return {"type": "search", "query": self.queries[0], "queries": list(self.queries)}


class SearchOutcome(Struct, frozen=True, kw_only=True):
    """The results of a search. A search without results has not failed."""

    results: tuple[SearchResult, ...] = ()
    failed: bool = False
    problem: str = ""
    """Why it failed, as a sentence that a client may read: no secrets, no provider messages."""
