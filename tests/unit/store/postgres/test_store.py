"""The PostgreSQL store, beyond the contract of every store."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.errors import StoreUnavailable
from antiphon.store.postgres.address import parse_address
from antiphon.store.postgres.migrate import connect
from antiphon.store.postgres.store import PostgresStore
from antiphon.store.run_log import RunStart
from tests.support.postgres_proxy import PostgresProxy
from tests.support.turns import Clock, turn
from tests.support.waiting import until_async
from tests.unit.store.postgres.conftest import OpenStore

pytestmark = pytest.mark.anyio


async def test_saves_that_come_together_share_transactions(open_store: OpenStore) -> None:
    store = await open_store()
    await asyncio.gather(*(store.save(turn(f"r{number}")) for number in range(200)))
    assert store.transactions <= 3


async def test_a_store_works_again_when_its_database_does(
    open_store: OpenStore, proxy: PostgresProxy
) -> None:
    store = await open_store(wait_s=2.0)
    await store.check()
    proxy.is_away = True
    proxy.cut_all()
    for use in (store.check(), store.save(turn("r1")), store.load("r1")):
        with pytest.raises(StoreUnavailable):
            await use
    proxy.is_away = False
    await store.check()
    await store.save(turn("r1"))
    assert await store.load("r1") is not None


async def test_a_deletion_whose_reply_was_lost_has_deleted(
    open_store: OpenStore, proxy: PostgresProxy
) -> None:
    store = await open_store()
    await store.save(turn("r1"))
    proxy.lose_replies = 1
    assert await store.delete("r1") is True
    assert await store.delete("r1") is False


async def test_a_deletion_waits_for_a_run_that_ends_without_a_deadlock(
    open_store: OpenStore, postgres_url: str
) -> None:
    store = await open_store()
    start = RunStart(holder="p1", is_background=True)
    await store.runs.begin(turn("r1", status="in_progress"), start)
    ending = await connect(parse_address(postgres_url))
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"

    async def is_waiting() -> bool:
        return bool((await ending.fetchval(waiting)) > 0)

    async with ending.transaction():
        await ending.execute("SELECT FROM run FOR UPDATE")
        deleting = asyncio.ensure_future(store.delete("r1"))
        await until_async(is_waiting, "the deletion waits")
        await ending.execute("SET LOCAL lock_timeout TO '300ms'")
        await ending.execute("UPDATE turn SET expires_at = expires_at")
    assert await deleting is True
    await ending.close()


async def test_ids_may_be_long(open_store: OpenStore) -> None:
    store = await open_store()
    long = "x" * 100_000
    output = ({"type": "message", "id": long},)
    await store.save(turn("r1", output=output))
    await store.save(turn(long, "r1"))
    assert await store.load_items([long]) == {long: output[0]}
    assert [one.id for one in await store.chain(long)] == ["r1", long]


async def test_a_store_that_cannot_be_reached_is_not_opened() -> None:
    store = PostgresStore("postgresql://me:secret@127.0.0.1:1/x", now=Clock())
    with pytest.raises(StoreUnavailable) as caught:
        await store.open()
    assert "postgresql://127.0.0.1:1/x" in caught.value.message
    assert "secret" not in caught.value.message
    assert store.name == "postgresql://127.0.0.1:1/x"
