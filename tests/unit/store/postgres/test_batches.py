"""Batched writes to PostgreSQL."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.errors import StoreError, StoreUnavailable
from antiphon.store.postgres.batches import BATCH_BYTES, BatchedStatement
from antiphon.store.postgres.connections import Connections
from tests.support.postgres_proxy import PostgresProxy
from tests.support.waiting import LIMIT_S, until

pytestmark = pytest.mark.anyio

DIVIDE = "SELECT 10 / $1::integer AS result, $2::boolean AS is_repeated"
MEASURE = """
    SELECT length($1::bytea) + length(($2::bytea[])[1]) AS size, $3::boolean AS is_repeated
"""


async def test_calls_that_come_together_share_transactions(connections: Connections) -> None:
    divide = BatchedStatement(connections, DIVIDE)
    rows = await asyncio.gather(*(divide.run(1) for _ in range(100)))
    assert [row["result"] for row in rows] == [10] * 100
    assert divide.transactions <= 2
    await divide.close()


async def test_a_call_that_fails_does_not_fail_the_others(connections: Connections) -> None:
    divide = BatchedStatement(connections, DIVIDE)
    calls = [divide.run(number) for number in (1, 0, 2, 5)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(results[1], StoreError)
    assert [row["result"] for row in (results[0], *results[2:])] == [10, 5, 2]  # type: ignore[index]


async def test_a_call_whose_reply_was_lost_is_repeated_and_marked(
    proxy: PostgresProxy, connections: Connections
) -> None:
    divide = BatchedStatement(connections, DIVIDE)
    assert (await divide.run(1))["is_repeated"] is False
    proxy.lose_replies = 1
    assert (await divide.run(1))["is_repeated"] is True


async def test_a_call_waits_for_a_database_that_is_away_and_not_for_ever(
    proxy: PostgresProxy, connections: Connections
) -> None:
    divide = BatchedStatement(connections, DIVIDE)
    proxy.is_away = True
    waiting = asyncio.ensure_future(divide.run(1))
    await until(lambda: proxy.refused > 1, "it has tried twice")
    proxy.is_away = False
    assert (await waiting)["result"] == 10
    proxy.is_away, connections.wait_s = True, 2.0
    proxy.cut_all()
    with pytest.raises(StoreUnavailable, match=r"no response within 2 s"):
        await divide.run(1)
    await divide.close()


async def test_what_a_cancelled_caller_wanted_to_write_is_given_up_like_any_other(
    proxy: PostgresProxy, connections: Connections
) -> None:
    divide = BatchedStatement(connections, DIVIDE)
    await divide.run(1)
    proxy.is_away = True
    proxy.cut_all()
    caller = asyncio.ensure_future(divide.run(1))
    await asyncio.sleep(0)
    caller.cancel()
    async with asyncio.timeout(3 * connections.wait_s):  # a gateway that stops waits for it
        await divide.close()
    assert divide.transactions == 1


async def test_a_call_that_is_given_up_while_it_waits_for_a_connection_is_not_written(
    connections: Connections,
) -> None:
    divide = BatchedStatement(connections, DIVIDE)
    await divide.run(1)
    held = asyncio.Event()

    async def hold(connection: object, _: bool) -> None:
        await held.wait()

    holding = [asyncio.ensure_future(connections.run(hold)) for _ in range(2)]
    await asyncio.sleep(0)  # they have all connections
    connections.wait_s = 0.1
    given_up = asyncio.ensure_future(divide.run(1))
    await asyncio.sleep(0)
    connections.wait_s = LIMIT_S  # the connection is waited for longer than the call
    with pytest.raises(StoreUnavailable):
        await given_up
    held.set()
    await asyncio.gather(*holding)
    await divide.close()
    assert divide.transactions == 1


async def test_large_calls_are_divided_into_transactions(connections: Connections) -> None:
    measure = BatchedStatement(connections, MEASURE)
    body = bytes(BATCH_BYTES // 4)
    rows = await asyncio.gather(*(measure.run(body, [body]) for _ in range(10)))
    assert [row["size"] for row in rows] == [2 * len(body)] * 10
    assert measure.transactions >= 5


async def test_what_a_cancelled_caller_wanted_to_write_is_written(
    connections: Connections,
) -> None:
    divide = BatchedStatement(connections, DIVIDE)
    caller = asyncio.ensure_future(divide.run(1))
    await asyncio.sleep(0)
    caller.cancel()
    await divide.close()
    assert caller.cancelled()
    assert divide.transactions == 1
