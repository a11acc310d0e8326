"""The searches of a round begin together, and whatever becomes of one is an outcome."""

from __future__ import annotations

import asyncio

from antiphon.core.web_search.rules import SearchRules
from antiphon.core.web_search.search_call import SearchCall, SearchOutcome
from antiphon.core.web_search.sources import SearchResult
from antiphon.engine.run import GatewayCalls
from antiphon.engine.services import find_nothing

FOUND = SearchOutcome(results=(SearchResult(title="t", url="https://t.example", snippet="s"),))
FAILED = SearchOutcome(failed=True)


def call(call_id: str) -> SearchCall:
    return SearchCall(call_id=call_id, arguments="{}", queries=("q",), rules=SearchRules())


def fail_test(error: Exception) -> None:
    raise AssertionError("a bug was reported") from error


async def test_all_searches_of_a_round_are_begun_with_the_first() -> None:
    begun: list[str] = []

    async def search(asked: SearchCall) -> SearchOutcome:
        begun.append(asked.call_id)
        return FOUND

    searches = GatewayCalls(search)
    calls = [call("a"), call("b")]
    assert await searches.outcome(calls, fail_test) == FOUND
    assert await searches.outcome(calls[1:], fail_test) == FOUND
    assert begun == ["a", "b"]


async def test_a_search_that_a_bug_ends_has_failed_and_is_reported() -> None:
    reported: list[Exception] = []
    bug = ValueError("a bug")

    async def search(asked: SearchCall) -> SearchOutcome:
        raise bug

    assert await GatewayCalls(search).outcome([call("a")], reported.append) == FAILED
    assert reported == [bug]


async def test_a_search_that_is_called_off_has_failed() -> None:
    begun = asyncio.Event()

    async def search(asked: SearchCall) -> SearchOutcome:
        begun.set()
        await asyncio.Event().wait()
        return FOUND

    searches = GatewayCalls(search)
    waiting = asyncio.ensure_future(searches.outcome([call("a")], fail_test))
    await begun.wait()
    searches.close()
    assert await waiting == FAILED


async def test_a_call_that_takes_long_to_be_called_off_does_not_delay_the_response() -> None:
    begun, told = asyncio.Event(), asyncio.Event()

    async def search(asked: SearchCall) -> SearchOutcome:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await told.wait()  # as until a server knows that its result is not wanted
        return FOUND

    searches = GatewayCalls(search)
    waiting = asyncio.ensure_future(searches.outcome([call("a")], fail_test))
    await begun.wait()
    searches.close()
    assert await waiting == FAILED
    told.set()


async def test_nothing_is_found_where_nobody_searches() -> None:
    assert await find_nothing(call("a")) == SearchOutcome()


async def test_after_the_end_no_search_is_begun() -> None:
    searches = GatewayCalls(find_nothing)
    searches.close()
    assert await searches.outcome([call("a")], fail_test) == FAILED


async def test_connections_are_closed_also_if_the_wait_for_their_calls_is_cancelled() -> None:
    released: list[str] = []
    reported: list[Exception] = []
    begun = asyncio.Event()
    never = asyncio.Event()

    async def search(asked: SearchCall) -> SearchOutcome:
        begun.set()
        await never.wait()
        return FOUND

    async def release() -> None:
        released.append("closed")

    searches = GatewayCalls(search, release)
    waiting = asyncio.ensure_future(searches.outcome([call("a")], fail_test))
    await begun.wait()
    releasing = asyncio.ensure_future(searches.release(reported.append))
    await asyncio.sleep(0)
    releasing.cancel()
    await asyncio.wait({releasing})
    assert released == ["closed"]
    searches.close()
    assert await waiting == FAILED
    assert reported == []


async def test_a_connection_that_cannot_be_closed_is_reported() -> None:
    reported: list[Exception] = []
    broken = ValueError("broken")

    async def release() -> None:
        raise broken

    searches = GatewayCalls(find_nothing, release)
    before = searches.has_connections
    await searches.outcome([call("a")], fail_test)
    assert (before, searches.has_connections) == (False, True)
    await searches.release(reported.append)
    assert reported == [broken]
