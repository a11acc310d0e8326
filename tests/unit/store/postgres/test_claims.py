"""Claims of runs in PostgreSQL: none of a process that may still renew its lease."""

from __future__ import annotations

import pytest

from antiphon.errors import StoreUnavailable
from antiphon.store.postgres.address import parse_address
from antiphon.store.postgres.migrate import connect
from antiphon.store.run_log import RunStart
from tests.support.postgres_proxy import PostgresProxy
from tests.support.turns import turn
from tests.support.waiting import until_async
from tests.unit.store.postgres.conftest import OpenStore

pytestmark = pytest.mark.anyio

RUNNING = RunStart(holder="p1", is_background=True, is_streamed=True)
QUEUED = RunStart(holder=None, is_background=True, request=b"{}")


@pytest.mark.parametrize("start", [RUNNING, QUEUED])
async def test_a_run_whose_beginning_failed_and_was_written_is_deleted(
    open_store: OpenStore, proxy: PostgresProxy, start: RunStart
) -> None:
    store = await open_store(wait_s=2.0)
    await store.runs.renew("p1", 60)  # a process that goes on
    await store.runs.begin(turn("r0", status="in_progress"), RUNNING)
    proxy.lose_replies, proxy.is_away = 1, True
    with pytest.raises(StoreUnavailable):
        await store.runs.begin(turn("r1", status="in_progress"), start)
    proxy.is_away = False
    assert await store.load("r1") is not None
    assert await store.runs.claim_expired("p1", 10) == []  # as every gateway does each second
    assert await store.load("r1") is None
    assert await store.runs.claim("p1", 10) == []


async def test_no_run_is_taken_over_just_after_the_database_was_away(
    open_store: OpenStore, proxy: PostgresProxy
) -> None:
    store = await open_store(grace_s=0.2)
    await store.runs.renew("p1", 0)
    await store.runs.begin(turn("r1", status="in_progress"), RUNNING)

    async def is_taken() -> bool:
        return [run.turn.id for run in await store.runs.claim_expired("p2", 10)] == ["r1"]

    assert not await is_taken()  # nobody was there before
    await until_async(is_taken, "the run is taken over")
    proxy.cut_all()
    await store.load("r1")
    assert not await is_taken()
    await until_async(is_taken, "the run of a process without a lease is taken over")


async def test_a_process_that_starts_after_an_outage_leaves_others_time_to_renew(
    open_store: OpenStore, postgres_url: str
) -> None:
    store = await open_store()
    await store.runs.renew("p1", 0)
    await store.runs.begin(turn("r1", status="in_progress"), RUNNING)
    await store.runs.claim_expired("p2", 0)
    connection = await connect(parse_address(postgres_url))
    for silent_s, expected in ((2, 1), (60, 0)):
        change = "UPDATE reachability SET since = since - 60, seen_at = seen_at - $1"
        await connection.execute(change, float(silent_s))
        fresh = await open_store(grace_s=3.0)
        assert len(await fresh.runs.claim_expired("p3", 10)) == expected
    await connection.close()


async def test_leases_have_the_time_of_the_database(open_store: OpenStore) -> None:
    store = await open_store(now=lambda: 0)  # a clock that is decades behind
    await store.runs.renew("p1", 60)
    await store.runs.begin(turn("r1", status="in_progress"), RUNNING)
    other = await open_store(now=lambda: 1 << 33)
    assert await other.runs.claim_expired("p2", 10) == []
