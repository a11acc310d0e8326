"""From a search that the model asked for to what was found: every query, within the rules.

Nothing here raises: a search that fails is an outcome.
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
from antiphon.search.backend import Backend, Options, SearchError
from antiphon.search.table import open_backend

_MOST_RESULTS = 20  # as many as Brave and Tavily give at a time
_SPARE = 2  # so many times more is asked for where some of it will be sorted out


class Searcher:
    def __init__(self, backend: Backend, usual_count: int) -> None:
        self._backend = backend
        self._usual_count = usual_count

    async def __call__(self, call: SearchCall) -> SearchOutcome:
        """What the queries of a call find. One that fails spoils nothing unless all do."""
        count = call.rules.count(self._usual_count)
        found = await asyncio.gather(*(self._found(query, call, count) for query in call.queries))
        lists = [each for each in found if not isinstance(each, SearchError)]
        if not lists:
            return SearchOutcome(failed=True, problem=str(found[0]))
        return SearchOutcome(results=chosen(lists, call.rules, count))

    async def _found(
        self, query: str, call: SearchCall, count: int
    ) -> Sequence[SearchResult] | SearchError:
        rules = call.rules
        asked = min(_MOST_RESULTS, count * _SPARE) if rules.allowed or rules.blocked else count
        try:
            return await self._backend.search(query, options=Options(count=asked, rules=rules))
        except SearchError as error:
            return error


def chosen(
    lists: Sequence[Sequence[SearchResult]], rules: SearchRules, count: int
) -> tuple[SearchResult, ...]:
    """The best of each list, in turn; what the rules forbid, and what comes twice, is left out."""
    in_turn = chain.from_iterable(zip_longest(*lists))
    admitted = {each.url: each for each in in_turn if each is not None and rules.admits(each.url)}
    return tuple(admitted.values())[:count]


def open_searcher(config: Config, session: aiohttp.ClientSession) -> Searcher | None:
    """The search that is configured; `session` is shared, and stays its owner's to close."""
    backend = open_backend(config, session)
    return None if backend is None else Searcher(backend, config.search.max_results)
