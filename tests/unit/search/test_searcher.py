"""The searcher: several queries, search rules, and failures as outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from antiphon.core.web_search.rules import SearchRules
from antiphon.core.web_search.search_call import SearchCall, SearchOutcome
from antiphon.core.web_search.sources import SearchResult
from antiphon.errors import SearchError
from antiphon.search.backend import SearchOptions
from antiphon.search.searcher import Searcher


def page(name: str, host: str = "a.example") -> SearchResult:
    return SearchResult(title=name, url=f"https://{host}/{name}")


class FakeBackend:
    """A backend with given results, which records its queries."""

    def __init__(self, found: Mapping[str, Sequence[SearchResult] | None]) -> None:
        self._found = found
        self.queries: list[tuple[str, int]] = []

    async def search(self, query: str, *, options: SearchOptions) -> Sequence[SearchResult]:
        self.queries.append((query, options.count))
        found = self._found[query]
        if found is None:
            raise SearchError("no")
        return found


def call(*queries: str, **rules: Any) -> SearchCall:
    return SearchCall(
        call_id="c",
        arguments="{}",
        queries=queries,
        rules=SearchRules(**rules),
    )


def titles(outcome: SearchOutcome) -> list[str]:
    assert not outcome.failed
    return [result.title for result in outcome.results]


async def test_a_query_returns_the_default_number_of_results() -> None:
    backend = FakeBackend({"q": [page(str(number)) for number in range(9)]})
    outcome = await Searcher(backend, 5)(call("q"))
    assert titles(outcome) == ["0", "1", "2", "3", "4"]
    assert backend.queries == [("q", 5)]


async def test_results_of_several_queries_are_interleaved_without_duplicates() -> None:
    backend = FakeBackend({"q": [page("a"), page("b"), page("c")], "r": [page("d"), page("a")]})
    assert titles(await Searcher(backend, 5)(call("q", "r"))) == ["a", "d", "b", "c"]


async def test_results_that_the_rules_forbid_are_dropped() -> None:
    strange = [page("x", "evil.example"), SearchResult(url="javascript:alert(1)"), page("a")]
    backend = FakeBackend({"q": strange})
    assert titles(await Searcher(backend, 5)(call("q", allowed=("a.example",)))) == ["a"]
    assert backend.queries == [("q", 10)]
    blocked = await Searcher(backend, 15)(call("q", blocked=("a.example",)))
    assert titles(blocked) == ["x"]
    assert backend.queries[1] == ("q", 20)


async def test_one_failed_query_does_not_fail_the_search() -> None:
    backend = FakeBackend({"q": None, "r": [page("a")]})
    assert titles(await Searcher(backend, 5)(call("q", "r"))) == ["a"]


async def test_a_search_fails_if_every_query_fails() -> None:
    backend = FakeBackend({"q": None, "r": None})
    assert await Searcher(backend, 5)(call("q", "r")) == SearchOutcome(failed=True, problem="no")


async def test_an_empty_result_is_not_a_failure() -> None:
    assert await Searcher(FakeBackend({"q": []}), 5)(call("q")) == SearchOutcome()
