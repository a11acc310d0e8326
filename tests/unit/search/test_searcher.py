"""From a call to an outcome: several queries, rules that are kept, failures that are outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from antiphon.core.web_search.rules import SearchRules
from antiphon.core.web_search.search_call import SearchCall, SearchOutcome
from antiphon.core.web_search.sources import SearchResult
from antiphon.search.backend import Options, SearchError
from antiphon.search.searcher import Searcher


def page(name: str, host: str = "a.example") -> SearchResult:
    return SearchResult(title=name, url=f"https://{host}/{name}")


class Pages:
    """An engine that finds what it is told to, and keeps what it was asked."""

    def __init__(self, found: Mapping[str, Sequence[SearchResult] | None]) -> None:
        self._found = found
        self.asked: list[tuple[str, int]] = []

    async def search(self, query: str, *, options: Options) -> Sequence[SearchResult]:
        self.asked.append((query, options.count))
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


async def test_a_query_finds_as_much_as_is_usual() -> None:
    engine = Pages({"q": [page(str(number)) for number in range(9)]})
    outcome = await Searcher(engine, 5)(call("q"))
    assert titles(outcome) == ["0", "1", "2", "3", "4"]
    assert engine.asked == [("q", 5)]


async def test_the_best_of_several_queries_come_in_turn_and_once() -> None:
    engine = Pages({"q": [page("a"), page("b"), page("c")], "r": [page("d"), page("a")]})
    assert titles(await Searcher(engine, 5)(call("q", "r"))) == ["a", "d", "b", "c"]


async def test_what_is_forbidden_is_dropped_whatever_the_engine_finds() -> None:
    strange = [page("x", "evil.example"), SearchResult(url="javascript:alert(1)"), page("a")]
    engine = Pages({"q": strange})
    assert titles(await Searcher(engine, 5)(call("q", allowed=("a.example",)))) == ["a"]
    assert engine.asked == [("q", 10)]
    blocked = await Searcher(engine, 15)(call("q", blocked=("a.example",)))
    assert titles(blocked) == ["x"]
    assert engine.asked[1] == ("q", 20)


async def test_one_query_that_fails_spoils_nothing() -> None:
    engine = Pages({"q": None, "r": [page("a")]})
    assert titles(await Searcher(engine, 5)(call("q", "r"))) == ["a"]


async def test_a_search_fails_when_every_query_does() -> None:
    engine = Pages({"q": None, "r": None})
    assert await Searcher(engine, 5)(call("q", "r")) == SearchOutcome(failed=True, problem="no")


async def test_nothing_found_is_no_failure() -> None:
    assert await Searcher(Pages({"q": []}), 5)(call("q")) == SearchOutcome()
