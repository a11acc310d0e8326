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
