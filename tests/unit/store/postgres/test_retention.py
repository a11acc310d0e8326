"""Retention in the PostgreSQL store."""

from __future__ import annotations

import pytest

from antiphon.store.conversation import Conversation
from antiphon.store.postgres.connections import Connections
from antiphon.store.postgres.retention import Retention
from antiphon.store.run_log import LoggedBatch, RunStart
from antiphon.store.turn import StoreLimits
from tests.support.turns import Clock, turn
from tests.unit.store.postgres.conftest import OpenStore

pytestmark = pytest.mark.anyio


async def test_what_has_expired_is_deleted(open_store: OpenStore, connections: Connections) -> None:
    clock = Clock()
    limits = StoreLimits(ttl_s=100, log_ttl_s=10)
    store = await open_store(now=clock, limits=limits)
    for number in range(3):
        await store.save(turn(f"r{number}", expires_at=clock.now + 20 * number))
    start = RunStart(holder="p1", is_streamed=True)
    token = await store.runs.begin(turn("kept", status="in_progress"), start)
    await store.runs.finish(turn("kept"), token, [LoggedBatch(0, 0, b"x\n\n")])
    await store.conversations.create(Conversation(id="c1", created_at=1), [])
    retention = Retention(connections, now=clock, limits=limits)
    assert await retention.purge() == 1
    clock.now += 10
    assert await retention.purge() == 1  # the log
    clock.now += 90
    assert await retention.purge() == 4
    assert (await connections.fetch_row("SELECT count(*) FROM turn"))[0] == 0


async def test_many_turns_over_the_limit_are_evicted_a_part_at_a_time(
    open_store: OpenStore, connections: Connections
) -> None:
    await open_store()
    await connections.fetch(
        "INSERT INTO turn (id, body) SELECT 'r' || n, '' FROM generate_series(1, 3000) AS n"
    )
    retention = Retention(connections, now=Clock(), limits=StoreLimits(max_turns=100))
    left = []
    for _ in range(3):
        await retention.evict()
        left += await connections.fetch_row("SELECT count(*), max(seq) FROM turn")
    assert left == [1000, 3000, 99, 3000, 99, 3000]


async def test_the_oldest_turns_over_the_limit_are_evicted(
    open_store: OpenStore, connections: Connections
) -> None:
    store = await open_store(limits=StoreLimits(max_turns=1000))
    for number in range(4):
        await store.save(turn(f"r{number}"))
    retention = Retention(connections, now=Clock(), limits=StoreLimits(max_turns=2))
    await retention.evict()
    assert [await store.load(f"r{n}") is not None for n in range(4)] == [False, False, True, True]
