"""The pool of PostgreSQL connections."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antiphon.errors import StoreError, StoreUnavailable
from antiphon.store.postgres.address import parse_address
from antiphon.store.postgres.connections import Connections
from tests.support.postgres_proxy import PostgresProxy
from tests.support.waiting import until
from tests.unit.store.postgres.conftest import OpenStore

pytestmark = pytest.mark.anyio


async def test_a_lost_connection_is_replaced(
    proxy: PostgresProxy, connections: Connections
) -> None:
    assert (await connections.fetch_row("SELECT 1"))[0] == 1
    proxy.cut_all()
    assert (await connections.fetch_row("SELECT 2"))[0] == 2


async def test_a_call_waits_for_a_database_that_is_away(
    proxy: PostgresProxy, connections: Connections
) -> None:
    proxy.is_away = True
    waiting = asyncio.ensure_future(connections.fetch("SELECT 1"))
    await until(lambda: proxy.refused > 1, "it has tried twice")
    assert not waiting.done()
    proxy.is_away = False
    assert len(await waiting) == 1
    assert connections.failed_at is not None


async def test_a_call_fails_when_the_database_is_away_for_too_long(
    proxy: PostgresProxy, connections: Connections
) -> None:
    proxy.is_away, connections.wait_s = True, 1.0
    with pytest.raises(StoreUnavailable, match="the database cannot be used now"):
        await connections.fetch("SELECT 1")


async def test_a_server_that_does_not_answer_is_like_one_that_is_away(
    proxy: PostgresProxy, connections: Connections
) -> None:
    await connections.fetch("SELECT 1")
    proxy.silence_all()
    loop = asyncio.get_running_loop()
    begun_at = loop.time()
    with pytest.raises(StoreUnavailable, match="the database cannot be used now"):
        await connections.fetch("SELECT 1")
    assert loop.time() - begun_at < 2.5 * connections.wait_s
    assert (await connections.fetch_row("SELECT 2"))[0] == 2


async def test_a_call_to_a_server_that_does_not_answer_can_be_cancelled(
    proxy: PostgresProxy, connections: Connections
) -> None:
    await connections.fetch("SELECT 1")
    proxy.silence_all()
    caller = asyncio.ensure_future(connections.fetch("SELECT 1"))
    await asyncio.wait((caller,), timeout=0.1)
    caller.cancel()
    await asyncio.wait((caller,))
    assert caller.cancelled()


async def test_a_server_that_became_a_standby_is_left(
    open_store: OpenStore, connections: Connections
) -> None:
    await open_store()
    await connections.fetch("SET default_transaction_read_only TO on")
    found = await connections.fetch_row("UPDATE probe SET checked_at = now() RETURNING 1")
    assert found[0] == 1


async def test_the_server_ends_what_a_lost_process_has_begun(connections: Connections) -> None:
    found = {
        name: (await connections.fetch_row(f"SHOW {name}"))[0]
        for name in (
            *("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count"),
            "idle_in_transaction_session_timeout",
        )
    }
    assert [*found.values()] == ["10", "5", "3", "15s"]


async def test_a_call_whose_reply_was_lost_knows_that_it_is_repeated(
    proxy: PostgresProxy, connections: Connections
) -> None:
    calls: list[bool] = []

    async def work(connection: Any, is_repeated: bool) -> None:
        calls.append(is_repeated)
        proxy.lose_replies = int(not is_repeated)
        await connection.execute("SELECT 1")

    await connections.run(work)
    assert calls == [False, True]


async def test_a_wrong_statement_is_not_repeated(connections: Connections) -> None:
    with pytest.raises(StoreError, match='column "x" does not exist'):
        await connections.fetch("SELECT x")


async def test_a_store_that_is_not_open_says_so() -> None:
    closed = Connections(parse_address("postgresql://db/x"), wait_s=1, pool_size=1)
    with pytest.raises(StoreError, match="postgresql://db/x: the store is not open"):
        await closed.fetch("SELECT 1")
    await closed.close()
