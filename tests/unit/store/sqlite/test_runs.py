"""Runs in SQLite: delayed beginnings, and what stays in the file."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import StoreError
from antiphon.store.run_log import FIRST_TOKEN, LoggedBatch, RunStart
from antiphon.store.sqlite.retention import PURGE_EVERY_S
from antiphon.store.sqlite.store import SQLiteStore
from antiphon.store.turn import StoreLimits, Turn
from tests.support.turns import Clock, turn
from tests.support.waiting import LIMIT_S

pytestmark = pytest.mark.anyio

FOREGROUND = RunStart(holder="p1")
STREAMED = RunStart(holder="p1", is_background=True, is_streamed=True)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def store(tmp_path: Path, clock: Clock) -> AsyncIterator[SQLiteStore]:
    store = SQLiteStore(tmp_path / "turns.sqlite", now=clock, limits=StoreLimits(log_ttl_s=100))
    await store.open()
    yield store
    await store.close()


def count(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def started(id: str) -> Turn:
    return turn(id, status="in_progress", output=())


async def until_stored(store: SQLiteStore, id: str) -> Turn:
    async with asyncio.timeout(LIMIT_S):
        while (found := await store.load(id)) is None:
            pass
    return found


async def test_a_lease_lasts_its_whole_time_by_the_exact_clock(tmp_path: Path) -> None:
    time_s = 25.995
    store = SQLiteStore(
        tmp_path / "turns.sqlite", now=lambda: int(time_s), lease_now=lambda: time_s
    )
    await store.open()
    await store.runs.renew("p1", 3)
    await store.runs.begin(started("r1"), STREAMED)
    time_s = 28.99
    assert await store.runs.claim_expired("p2", 10) == []
    time_s = 29.0
    assert [run.turn.id for run in await store.runs.claim_expired("p2", 10)] == ["r1"]
    await store.close()


async def test_beginnings_that_wait_are_written_in_one_transaction(store: SQLiteStore) -> None:
    store.runs.begin_later(started("r1"), FOREGROUND)
    await asyncio.sleep(0)
    store.runs.begin_later(started("r2"), FOREGROUND)
    await until_stored(store, "r1")
    await until_stored(store, "r2")
    assert store.transactions == 1


async def test_a_short_response_costs_one_transaction(store: SQLiteStore, tmp_path: Path) -> None:
    for number in range(5):
        store.runs.begin_later(started(f"r{number}"), FOREGROUND)
        await store.runs.finish(turn(f"r{number}"), FIRST_TOKEN)
    assert store.transactions == 5
    assert count(tmp_path / "turns.sqlite", "run") == 0


async def test_longer_responses_are_written_while_they_run(
    store: SQLiteStore, tmp_path: Path
) -> None:
    await store.runs.renew("p1", 10)
    for number in range(3):
        store.runs.begin_later(started(f"r{number}"), FOREGROUND)
        await asyncio.sleep(0)
    for number in range(3):
        assert (await until_stored(store, f"r{number}")).status == "in_progress"
    assert store.transactions <= 4
    assert count(tmp_path / "turns.sqlite", "run") == 3
    for number in range(3):
        await store.runs.finish(turn(f"r{number}"), FIRST_TOKEN)
    assert count(tmp_path / "turns.sqlite", "run") == 0
    assert [(await until_stored(store, f"r{n}")).status for n in range(3)] == ["completed"] * 3


async def test_a_beginning_that_failed_does_not_prevent_the_end(
    store: SQLiteStore, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "turns.sqlite")) as connection:
        connection.execute("ALTER TABLE run RENAME TO elsewhere")
        store.runs.begin_later(started("r1"), FOREGROUND)
        await store.runs.begin_now("r1")
        assert await store.load("r1") is None
        connection.execute("ALTER TABLE elsewhere RENAME TO run")
    await store.runs.finish(turn("r1"), FIRST_TOKEN)
    assert (await until_stored(store, "r1")).status == "completed"


async def test_an_end_that_fails_changes_nothing(store: SQLiteStore, tmp_path: Path) -> None:
    path = tmp_path / "turns.sqlite"
    token = await store.runs.begin(started("r1"), STREAMED)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE item RENAME TO elsewhere")
        end = turn("r1", output=({"type": "reasoning", "id": "x", "summary": []},))
        with pytest.raises(StoreError):
            await store.runs.finish(end, token, [LoggedBatch(0, 0, b"data: {}\n\n")])
        connection.execute("ALTER TABLE elsewhere RENAME TO item")
    assert (await until_stored(store, "r1")).status == "in_progress"
    page = await store.runs.read_events("r1", -1)
    assert page == ("in_progress", -1, ())


async def test_logs_leases_and_deleted_runs_do_not_stay_for_ever(
    store: SQLiteStore, tmp_path: Path, clock: Clock
) -> None:
    tables = ("run", "event_batch", "lease", "deleted_run")
    path = tmp_path / "turns.sqlite"
    await store.runs.renew("p1", 10)
    for id in ("r1", "r2"):
        token = await store.runs.begin(started(id), STREAMED)
        await store.runs.append(id, token, [LoggedBatch(0, 0, b"data: {}\n\n")])
    await store.delete("r2")
    await store.runs.finish(turn("r1"), token)
    assert [count(path, table) for table in tables] == [1, 1, 1, 1]
    clock.now += 2 * 3600 + PURGE_EVERY_S
    await store.save(turn("later"))
    await store.close()  # maintenance follows each batch
    assert [count(path, table) for table in tables] == [0, 0, 0, 0]


async def test_closing_waits_for_what_is_being_written(tmp_path: Path, clock: Clock) -> None:
    store: Any = SQLiteStore(tmp_path / "turns.sqlite", now=clock)
    await store.open()
    store.runs.begin_later(started("r1"), FOREGROUND)
    writing = asyncio.ensure_future(store.runs.begin_now("r1"))
    await asyncio.sleep(0)
    await store.close()
    await writing
    assert count(tmp_path / "turns.sqlite", "run") == 1


async def test_a_response_that_is_evicted_when_it_ends_leaves_no_events_to_another_one(
    clock: Clock,
) -> None:
    """In memory, one that can expire goes first, and the next one gets its place in the table."""
    limits = StoreLimits(max_bytes=3000, max_turn_bytes=2500)
    store = SQLiteStore(None, now=clock, limits=limits)
    await store.open()
    large, *others = [started(id) for id in ("large", "evicted", "next")]
    await store.runs.begin(large, STREAMED)
    token = await store.runs.begin(others[0], STREAMED)
    await store.runs.append("large", token, [LoggedBatch(0, 0, b"x" * 2700)])
    await store.runs.finish(turn("evicted"), token, [LoggedBatch(0, 0, b"of the first")])
    assert await store.load("evicted") is None
    await store.runs.begin(others[1], STREAMED)
    page = await store.runs.read_events("next", -1)
    assert page is not None
    assert (page.last_seq, page.batches) == (-1, ())
    await store.close()
