"""Runs the queries of a model's search call and merges their results under the search rules.

Never raises: a failed search is an outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import chain, zip_longest

import aiohttp

from antiphon.config import Config
from antiphon.core.web_search.rules import SearchRules
from antiphon.core.web_search.search_call import SearchCall, SearchOutcome
from antiphon.core.web_search.sources import SearchResult
from antiphon.errors import SearchError
from antiphon.search.backend import SearchBackend, SearchOptions
from antiphon.search.table import open_backend

_MAX_RESULTS = 20  # the most that Brave and Tavily return per request
_OVERFETCH = 2  # request this many times more results if some will be filtered out


class Searcher:
    def __init__(self, backend: SearchBackend, default_count: int) -> None:
        self._backend = backend
        self._default_count = default_count

    async def __call__(self, call: SearchCall) -> SearchOutcome:
        """Run all queries of a call; the search fails only if every query does."""
        count = call.rules.result_count(self._default_count)
        queries = (self._run_query(query, call, count) for query in call.queries)
        found = await asyncio.gather(*queries)
        lists = [each for each in found if not isinstance(each, SearchError)]
        if not lists:
            return SearchOutcome(failed=True, problem=str(found[0]))
        return SearchOutcome(results=merge_results(lists, call.rules, count))

    async def _run_query(
        self, query: str, call: SearchCall, count: int
    ) -> Sequence[SearchResult] | SearchError:
        rules = call.rules
        filtered = rules.allowed or rules.blocked
        requested = min(_MAX_RESULTS, count * _OVERFETCH) if filtered else count
        try:
            options = SearchOptions(count=requested, rules=rules)
            return await self._backend.search(query, options=options)
        except SearchError as error:
            return error


def merge_results(
    lists: Sequence[Sequence[SearchResult]], rules: SearchRules, count: int
) -> tuple[SearchResult, ...]:
    """Interleave the lists, best first, without duplicates and results that the rules forbid."""
    interleaved = chain.from_iterable(zip_longest(*lists))
    admitted = {
        each.url: each for each in interleaved if each is not None and rules.admits(each.url)
    }
    return tuple(admitted.values())[:count]


def open_searcher(config: Config, session: aiohttp.ClientSession) -> Searcher | None:
    """Open the configured search, if any; the caller owns and closes `session`."""
    backend = open_backend(config, session)
    return None if backend is None else Searcher(backend, config.search.max_results)
