"""A store in memory: bounded in number and bytes, what was used least recently is deleted first."""

from __future__ import annotations

import logging
import sqlite3
import threading
from functools import partial

import pytest

from antiphon.errors import StoreError, StoreRefused
from antiphon.store.conversation import Conversation
from antiphon.store.run_log import LoggedBatch, RunStart
from antiphon.store.sqlite.access import Bodies
from antiphon.store.sqlite.memory import MAX_BYTES, MAX_TURNS, MemoryAccess, bound_limits
from antiphon.store.sqlite.retention import PURGE_EVERY_S
from antiphon.store.sqlite.store import SQLiteStore
from antiphon.store.turn import StoreLimits
from tests.support.stores import OpenMemory
from tests.support.turns import Clock, chain_ids, turn

pytestmark = pytest.mark.anyio


async def present(store: SQLiteStore, *wanted: str) -> list[str]:
    return [id for id in wanted if await store.load(id) is not None]


# --- turns ----------------------------------------------------------------------------------------


async def test_expired_turns_are_removed_before_any_is_evicted(open_memory: OpenMemory) -> None:
    clock = Clock()
    store = await open_memory(now=clock, limits=StoreLimits(max_turns=2))
    await store.save(turn("oldest"))
    await store.save(turn("brief", expires_at=clock.now + 1))
    clock.now += PURGE_EVERY_S
    await store.save(turn("new"))
    assert await present(store, "oldest", "brief", "new") == ["oldest", "new"]


async def test_a_continued_chain_is_evicted_last(open_memory: OpenMemory) -> None:
    clock = Clock()
    store = await open_memory(now=clock, limits=StoreLimits(max_turns=3))
    for one in (turn("a"), turn("b", "a"), turn("lonely")):
        await store.save(one)
    clock.now += 1
    assert await chain_ids(store, "b") == ["a", "b"]
    await store.save(turn("c", "b"))
    assert await present(store, "a", "b", "lonely", "c") == ["a", "b", "c"]


async def test_turns_that_never_expire_are_evicted_in_their_order(open_memory: OpenMemory) -> None:
    store = await open_memory(limits=StoreLimits(max_turns=2, ttl_s=None))
    for id in ("a", "b", "c"):
        await store.save(turn(id))
    assert await present(store, "a", "b", "c") == ["b", "c"]


async def test_evicted_turns_leave_no_items(open_memory: OpenMemory) -> None:
    store = await open_memory(limits=StoreLimits(max_turns=2))
    for number in range(5):
        item = {"type": "message", "id": f"i{number}", "role": "assistant", "content": "Hi"}
        await store.save(turn(f"r{number}", output=(item,)))
    assert set(await store.load_items([f"i{number}" for number in range(5)])) == {"i3", "i4"}


async def test_event_logs_count_as_bytes_of_their_turns(open_memory: OpenMemory) -> None:
    clock = Clock()
    store = await open_memory(now=clock, limits=StoreLimits(max_bytes=20_000))
    token = await store.runs.begin(
        turn("logged", status="completed"), RunStart(holder="me", is_streamed=True)
    )
    clock.now += 1
    await store.save(turn("other"))
    await store.runs.append("logged", token, [LoggedBatch(0, 0, b"x" * 19_900)])
    clock.now += 1
    await store.save(turn("new"))
    assert await present(store, "logged", "other", "new") == ["other", "new"]


def test_the_store_is_bounded_by_default() -> None:
    limits = bound_limits(StoreLimits())
    assert (limits.max_turns, limits.max_bytes) == (MAX_TURNS, MAX_BYTES)
    assert bound_limits(StoreLimits(max_turns=2)).max_turns == 2


# --- conversations --------------------------------------------------------------------------------


async def create(store: SQLiteStore, id: str, size: int = 1) -> None:
    item = {"type": "message", "id": "i", "role": "user", "content": "x" * size}
    await store.conversations.create(Conversation(id=id, created_at=0), [item])


async def conversations(store: SQLiteStore, *wanted: str) -> list[str]:
    return [id for id in wanted if await store.conversations.load(id) is not None]


async def test_the_conversation_that_was_not_used_for_longest_is_removed_first(
    open_memory: OpenMemory,
) -> None:
    clock = Clock()
    store = await open_memory(now=clock, limits=StoreLimits(max_turns=2))
    await create(store, "a")
    await create(store, "b")
    clock.now += 1
    assert await store.conversations.lock("a", "resp_1", "me")
    await create(store, "c")
    assert await conversations(store, "a", "b", "c") == ["a", "c"]


async def test_conversations_are_bounded_in_bytes_and_deleted_items_do_not_count(
    open_memory: OpenMemory,
) -> None:
    clock = Clock()
    store = await open_memory(now=clock, limits=StoreLimits(max_bytes=10_000))
    for _ in range(9):
        await create(store, "a", 6000)
        assert await store.conversations.delete("a")
    await create(store, "a", 6000)
    await store.conversations.delete_item("a", "i")
    clock.now += 1
    await create(store, "b", 6000)
    assert await conversations(store, "a", "b") == ["a", "b"]
    clock.now += 1
    await create(store, "c", 6000)
    assert await conversations(store, "a", "b", "c") == ["c"]


# --- access ---------------------------------------------------------------------------------------


async def open_access() -> MemoryAccess:
    access = MemoryAccess(lambda connection: False)
    await access.open()
    await access.write(lambda connection: connection.execute("CREATE TABLE number (value)"))
    return access


def insert(connection: sqlite3.Connection, value: int) -> None:
    connection.execute("INSERT INTO number VALUES (?)", (value,))


async def count(access: MemoryAccess) -> int:
    query = "SELECT count(*) FROM number"
    return int(await access.read(lambda connection: connection.execute(query).fetchone()[0]))


async def test_a_job_that_raises_has_written_nothing() -> None:
    access = await open_access()

    def refuse(connection: sqlite3.Connection) -> None:
        insert(connection, 1)
        raise StoreRefused("too large")

    with pytest.raises(StoreRefused):
        await access.write(refuse)
    with pytest.raises(StoreError, match="memory: no such table: missing"):
        await access.write(lambda connection: connection.execute("DELETE FROM missing"))
    assert await count(access) == 0
    assert access.transactions == 1
    await access.close()


async def test_a_failure_of_a_job_without_a_caller_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    access = await open_access()
    access.post(partial(insert, value=1))
    with caplog.at_level(logging.WARNING, "antiphon.store"):
        access.post(lambda connection: connection.execute("DELETE FROM missing"))
    assert caplog.messages == ["memory: no such table: missing"]
    assert await count(access) == 1
    await access.close()


@pytest.mark.parametrize(("size", "in_thread"), [(1000, False), (1_000_000, True)])
async def test_only_large_bodies_are_decoded_in_a_thread(size: int, in_thread: bool) -> None:
    access = await open_access()

    def read(connection: sqlite3.Connection) -> Bodies[None]:
        return [(b"x" * size, None)]

    used = await access.read_bodies(read, lambda bodies: threading.current_thread())
    await access.close()
    assert (used is not threading.current_thread()) is in_thread


async def test_a_store_that_is_not_open_cannot_be_used() -> None:
    store = SQLiteStore(None, now=Clock())
    with pytest.raises(StoreError, match="memory: the store is not open"):
        await store.save(turn("a"))
    await store.open()
    await store.open()
    await store.save(turn("a"))
    assert await present(store, "a") == ["a"]
    await store.close()
    await store.close()
    with pytest.raises(StoreError, match="memory: the store is not open"):
        await store.load("a")


async def test_maintenance_runs_until_nothing_is_left() -> None:
    left = [True, True, False]
    access = MemoryAccess(lambda connection: left.pop(0))
    await access.open()
    await access.write(lambda connection: None)
    assert left == []
    await access.close()


def test_a_large_body_is_not_compressed() -> None:
    body = b"{" + b" " * 100_000
    assert MemoryAccess(lambda connection: False).compress(body) is body
