"""Runs in PostgreSQL, when connections are lost."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.errors import LeaseLost, StoreUnavailable
from antiphon.store.postgres.address import parse_address
from antiphon.store.postgres.migrate import connecting
from antiphon.store.run_log import FIRST_TOKEN, LoggedBatch, RunStart
from tests.support.postgres_proxy import PostgresProxy
from tests.support.turns import turn
from tests.support.waiting import until_async
from tests.unit.store.postgres.conftest import OpenStore

pytestmark = pytest.mark.anyio

RUNNING = RunStart(holder="p1", is_background=True, is_streamed=True)


def batch(number: int) -> LoggedBatch:
    return LoggedBatch(number, number, b"data: %d\n\n" % number)


async def test_every_write_of_a_run_may_lose_its_reply_and_is_written_once(
    open_store: OpenStore, proxy: PostgresProxy
) -> None:
    store = await open_store()
    runs = store.runs
    await runs.renew("p1", 60)  # the connection exists
    proxy.lose_replies = 1
    token = await runs.begin(turn("r1", status="in_progress"), RUNNING)
    for number in range(3):
        await runs.append("r1", token, [batch(2 * number)])
        proxy.lose_replies = 1
        await runs.append("r1", token, [batch(2 * number + 1)])
    proxy.lose_replies = 1
    await runs.finish(turn("r1"), token, [batch(6)])
    page = await runs.read_events("r1", -1)
    assert page is not None
    assert (page.status, page.batches) == ("completed", tuple(map(batch, range(7))))
    with pytest.raises(LeaseLost):
        await runs.append("r1", token, [batch(7)])


async def test_a_beginning_that_comes_after_the_end_changes_nothing(open_store: OpenStore) -> None:
    """It was given up while the database was away, and was on its way all the same."""
    store = await open_store()
    await store.save(turn("r1"))
    await store.runs.begin(turn("r1", status="in_progress"), RUNNING)
    stored = await store.load("r1")
    assert stored is not None
    assert stored.status == "completed"
    assert await store.runs.claim_expired("p2", 10) == []
    assert await store.runs.read_events("r1", -1) is None


async def test_a_run_goes_on_after_a_write_that_failed_and_was_written(
    open_store: OpenStore, proxy: PostgresProxy
) -> None:
    store = await open_store(wait_s=2.0)
    runs = store.runs
    token = await runs.begin(turn("r1", status="in_progress"), RUNNING)
    await runs.append("r1", token, [batch(0)])
    proxy.lose_replies, proxy.is_away = 1, True
    with pytest.raises(StoreUnavailable):
        await runs.append("r1", token, [batch(1)])
    proxy.is_away = False
    await runs.append("r1", token, [batch(1), batch(2)])
    page = await runs.read_events("r1", -1)
    assert page is not None
    assert page.batches == (batch(0), batch(1), batch(2))


async def test_an_end_is_stored_once_if_it_is_not_known_whether_the_run_began(
    open_store: OpenStore, proxy: PostgresProxy
) -> None:
    store = await open_store(wait_s=2.0)
    assert await store.load("r1") is None  # the connection exists
    proxy.lose_replies, proxy.is_away = 1, True
    store.runs.begin_later(turn("r1", status="in_progress"), RunStart(holder="p1"))
    await store.runs.begin_now("r1")
    proxy.is_away = False
    await store.runs.finish(turn("r1"), FIRST_TOKEN)
    loaded = await store.load("r1")
    assert loaded is not None
    assert loaded.status == "completed"
    assert await store.runs.claim_expired("p2", 10) == []


async def test_a_beginning_that_is_committed_while_the_end_is_written_leaves_no_run(
    open_store: OpenStore, postgres_url: str
) -> None:
    store = await open_store(wait_s=2.0)
    address = parse_address(postgres_url)
    async with connecting(address) as server, connecting(address) as observer:
        async with server.transaction():  # a beginning that is slow
            seq = await server.fetchval(
                "INSERT INTO turn (id, body) VALUES ('r1', '{}') RETURNING seq"
            )
            await server.execute(
                "INSERT INTO run (turn, status, holder, is_background, is_streamed, request)"
                " VALUES ($1, 'in_progress', 'p1', false, false, '')",
                seq,
            )
            store.runs.begin_later(turn("r1", status="in_progress"), RunStart(holder="p1"))
            await store.runs.begin_now("r1")  # waits for it, and is given up
            finishing = asyncio.ensure_future(store.runs.finish(turn("r1"), FIRST_TOKEN))
            waiting = (
                "SELECT count(*) > 0 FROM pg_stat_activity"
                " WHERE wait_event_type = 'Lock' AND query LIKE '%FROM finish_run%'"
            )
            await until_async(lambda: observer.fetchval(waiting), "the end waits")
        await finishing
    loaded = await store.load("r1")
    assert loaded is not None
    assert loaded.status == "completed"
    assert await store.runs.claim_expired("p2", 10) == []
