"""The SQLite store: durability, threads, failures, and the index of items."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from antiphon.errors import HistoryTooLarge, StoreError
from antiphon.store.sqlite.file import DatabaseSchema, connect, create_directory
from antiphon.store.sqlite.retention import PURGE_EVERY_S, PURGE_TURNS
from antiphon.store.sqlite.schema import SCHEMA
from antiphon.store.sqlite.store import FIND_ITEM, SQLiteStore
from antiphon.store.store import StoreLimits
from tests.support.turns import Clock, chain_ids, turn

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "down" / "turns.sqlite"


@pytest.fixture
async def sqlite(path: Path, clock: Clock) -> AsyncIterator[SQLiteStore]:
    store = SQLiteStore(path, now=clock, limits=StoreLimits(ttl_s=100))
    await store.open()
    yield store
    await store.close()


@contextmanager
def open_database(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the file without the store."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


# --- files ----------------------------------------------------------------------------------------


async def test_turns_persist_after_closing_and_reopening(path: Path, clock: Clock) -> None:
    for number in range(3):
        store = SQLiteStore(path, now=clock)
        await store.open()
        await store.save(turn(f"r{number}", f"r{number - 1}" if number else None))
        assert len(await store.chain(f"r{number}")) == number + 1
        await store.close()
        await store.close()
    assert not path.with_name("turns.sqlite-wal").exists()


SAVE_AND_DIE = """
import asyncio, os, sys
from pathlib import Path
from msgspec import Raw
from antiphon.store.sqlite.store import SQLiteStore
from antiphon.store.store import Turn

async def main():
    store = SQLiteStore(Path(sys.argv[1]), now=lambda: 0)
    await store.open()
    for id in ("a", "b"):
        await store.save(Turn(id=id, created_at=0, status="completed", model="m", provider="p",
                              encoded=Raw(b'{}')))
    os._exit(3)

asyncio.run(main())
"""


async def test_a_saved_turn_survives_the_death_of_the_process(path: Path) -> None:
    command = [sys.executable, "-c", SAVE_AND_DIE, str(path)]
    died = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=False)
    assert died.returncode == 3, died.stderr
    store = SQLiteStore(path, now=lambda: 0)
    await store.open()
    assert await store.load("a") is not None
    assert await store.load("b") is not None
    await store.close()


async def test_two_stores_can_share_a_file(sqlite: SQLiteStore, path: Path, clock: Clock) -> None:
    other = SQLiteStore(path, now=clock)
    await other.open()
    await sqlite.save(turn("a"))
    await asyncio.gather(
        *(store.save(turn(f"{n}{id(store)}", "a")) for n in range(50) for store in (sqlite, other))
    )
    assert await chain_ids(other, f"7{id(sqlite)}") == ["a", f"7{id(sqlite)}"]
    await other.close()


async def test_a_file_that_cannot_be_used_is_named_when_the_store_is_opened(
    tmp_path: Path, clock: Clock
) -> None:
    path = tmp_path / "turns.sqlite"
    path.mkdir()
    store = SQLiteStore(path, now=clock)
    with pytest.raises(StoreError, match=r"turns\.sqlite: Is a directory"):
        await store.open()
    await store.close()


async def test_a_store_that_is_not_open_raises(path: Path, clock: Clock) -> None:
    store = SQLiteStore(path, now=clock)
    for attempt in (
        store.save(turn("a")),
        store.load("a"),
        store.chain("a"),
        store.delete("a"),
        store.load_items(["a"]),
    ):
        with pytest.raises(StoreError, match="is not open"):
            await attempt
    await store.close()
    assert not list(path.parent.glob("*"))


async def test_a_failed_write_fails_only_its_own_save(sqlite: SQLiteStore, path: Path) -> None:
    with open_database(path) as connection:
        connection.execute(
            "CREATE TRIGGER full BEFORE INSERT ON turn WHEN new.id LIKE 'bad%'"
            " BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
        )
    results = await asyncio.gather(
        *(sqlite.save(turn(id)) for id in ("a", "bad1", "b", "bad2", "c")), return_exceptions=True
    )
    assert [isinstance(result, StoreError) for result in results] == [
        False,
        True,
        False,
        True,
        False,
    ]
    assert str(results[1]) == f"{path}: disk is full"
    for id in ("a", "b", "c"):
        assert await sqlite.load(id) is not None


async def test_every_save_fails_when_nothing_can_be_written(
    sqlite: SQLiteStore, path: Path
) -> None:
    with open_database(path) as connection:
        connection.execute("DROP TABLE turn")
    saves = (sqlite.save(turn(f"r{number}")) for number in range(5))
    results = await asyncio.gather(*saves, return_exceptions=True)
    assert {str(result) for result in results} == {f"{path}: no such table: turn"}
    assert sqlite.transactions == 0


async def test_a_chain_is_returned_even_if_its_renewal_fails(
    sqlite: SQLiteStore, path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    await sqlite.save(turn("a"))
    with open_database(path) as connection:
        connection.execute(
            "CREATE TRIGGER stuck BEFORE UPDATE ON turn BEGIN SELECT RAISE(ABORT, 'stuck'); END"
        )
    clock.now += 60
    assert await chain_ids(sqlite, "a") == ["a"]
    await sqlite.save(turn("b"))
    assert f"{path}: stuck" in caplog.messages


async def test_an_unreadable_row_is_an_error_that_names_the_file(
    sqlite: SQLiteStore, path: Path
) -> None:
    await sqlite.save(turn("a"))
    for body in (b"{", b"", b"\x78\x9c garbage", b'{"id": 1}'):
        with open_database(path) as connection:
            connection.execute("UPDATE turn SET body = ?", (body,))
        with pytest.raises(StoreError, match=r"turns\.sqlite"):
            await sqlite.load("a")


# --- threads --------------------------------------------------------------------------------------


async def test_concurrent_saves_share_transactions(sqlite: SQLiteStore) -> None:
    await asyncio.gather(*(sqlite.save(turn(f"r{number}")) for number in range(500)))
    assert sqlite.transactions <= 50
    one = sqlite.transactions
    await sqlite.save(turn("alone"))
    assert sqlite.transactions == one + 1


@contextmanager
def watch_sqlite_calls() -> Iterator[list[str]]:
    """Collect every call into SQLite that this thread makes."""
    seen: list[str] = []

    def profile(frame: object, event: str, call: Any) -> None:
        if event == "c_call":
            owner = getattr(call, "__self__", None)
            if "sqlite3" in f"{type(owner).__module__} {getattr(call, '__module__', '')}":
                seen.append(call.__name__)

    sys.setprofile(profile)
    try:
        yield seen
    finally:
        sys.setprofile(None)


async def test_the_event_loop_never_calls_sqlite_and_is_not_blocked(
    path: Path, clock: Clock
) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    with watch_sqlite_calls() as seen:
        store = SQLiteStore(path, now=clock, limits=StoreLimits(ttl_s=100, max_turns=150))
        await store.open()
        ticking = asyncio.create_task(tick())
        text = "large " * 10_000
        await asyncio.gather(*(store.save(turn(f"r{n}", text=text)) for n in range(200)))
        clock.now += PURGE_EVERY_S
        assert await store.load("r199") is not None
        assert len(await store.chain("r199")) == 1
        assert await store.load_items(["r199"]) == {}
        assert await store.delete("r199")
        ticking.cancel()
        await store.close()
    assert seen == []
    assert ticks > 1


async def test_turns_that_wait_for_the_writer_are_not_encoded_yet(
    path: Path, sqlite: SQLiteStore
) -> None:
    turns = [turn(f"r{number}", text="large " * 200_000) for number in range(10)]
    with open_database(path) as other:
        other.execute("BEGIN IMMEDIATE")  # the writer waits for this transaction
        tracemalloc.start()
        saving = [asyncio.create_task(sqlite.save(each)) for each in turns]
        await asyncio.sleep(0)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        other.execute("ROLLBACK")
    await asyncio.gather(*saving)
    assert peak < 1_200_000  # the length of one
    assert await sqlite.load("r9") is not None


def test_the_watch_sees_sqlite_calls() -> None:
    with watch_sqlite_calls() as seen:
        sqlite3.connect(":memory:").close()
    assert "close" in seen


async def test_a_cancelled_save_does_not_affect_others(sqlite: SQLiteStore) -> None:
    tasks = [asyncio.create_task(sqlite.save(turn(f"r{number}"))) for number in range(20)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [result is None for result in results] == [False, True] * 10
    await sqlite.save(turn("after"))
    assert await sqlite.load("after") is not None


async def test_closing_completes_pending_saves(path: Path, clock: Clock) -> None:
    store = SQLiteStore(path, now=clock)
    await store.open()
    saving = [asyncio.create_task(store.save(turn(f"r{number}"))) for number in range(50)]
    await asyncio.sleep(0)
    await store.close()
    await asyncio.gather(*saving)
    with open_database(path) as connection:
        assert connection.execute("SELECT count(*) FROM turn").fetchone() == (50,)


async def test_expired_turns_are_deleted_once_a_minute(
    sqlite: SQLiteStore, path: Path, clock: Clock
) -> None:
    async def count_old_rows() -> int:
        """Number of rows after the writer had time for maintenance."""
        for number in range(4):
            await sqlite.save(turn(f"new{number}", expires_at=2**40))
        with open_database(path) as connection:
            (rows,) = connection.execute("SELECT count(*) FROM turn").fetchone()
            assert connection.execute("SELECT turns FROM total").fetchone() == (rows,)
        return int(rows) - 4

    many = 2 * PURGE_TURNS + 7
    soon = clock.now + 10
    await asyncio.gather(*(sqlite.save(turn(f"r{n}", expires_at=soon)) for n in range(many)))
    assert await count_old_rows() == many
    clock.now += PURGE_EVERY_S - 1
    assert await count_old_rows() == many
    clock.now += 1
    assert await count_old_rows() == 0


async def test_a_failed_purge_is_logged_and_saving_continues(
    sqlite: SQLiteStore, path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    await sqlite.save(turn("a"))
    with open_database(path) as connection:
        connection.execute(
            "CREATE TRIGGER stuck BEFORE DELETE ON turn WHEN old.id = 'a'"
            " BEGIN SELECT RAISE(ABORT, 'cannot delete'); END"
        )
    clock.now += 100
    for id in ("b", "c"):
        await sqlite.save(turn(id))
    assert await sqlite.load("c") is not None
    assert f"{path}: maintenance failed, will be retried: cannot delete" in caplog.messages


async def test_large_turns_are_compressed(sqlite: SQLiteStore, path: Path) -> None:
    large = turn("a", text="all work and no play " * 10_000, expires_at=2**40)
    await sqlite.save(large)
    assert await sqlite.load("a") == large
    with open_database(path) as connection:
        (size,) = connection.execute("SELECT length(body) FROM turn").fetchone()
    assert size < 20_000


# --- the index of items ---------------------------------------------------------------------------

ITEM = {"type": "message", "id": "x", "role": "assistant", "content": "Hi"}


async def test_an_item_in_an_unreadable_row_is_an_error_and_the_store_keeps_working(
    sqlite: SQLiteStore, path: Path
) -> None:
    await sqlite.save(turn("a", output=(ITEM,)))
    with open_database(path) as connection:
        connection.execute("DROP TRIGGER items_replaced")
        connection.execute("UPDATE turn SET body = x'789c00'")
    for _ in range(5):  # more often than there are readers
        with pytest.raises(StoreError, match=r"turns\.sqlite"):
            await sqlite.load_items(["x"])
    await sqlite.save(turn("b", output=({**ITEM, "id": "y"},)))
    assert set(await sqlite.load_items(["y"])) == {"y"}


async def test_finding_and_deleting_items_needs_no_table_scan(
    sqlite: SQLiteStore, path: Path
) -> None:
    statements: list[tuple[str, Any]] = [
        (FIND_ITEM, {"id": "x", "client": "", "now": 0}),
        ("DELETE FROM item WHERE turn = ?", (1,)),
    ]
    with open_database(path) as connection:
        for statement, values in statements:
            plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall()
            steps = [row[3] for row in plan]
            assert steps
            assert [step for step in steps if not step.startswith("SEARCH")] == []


async def test_turns_of_the_version_before_owners_are_found_by_every_client(path: Path) -> None:
    before = DatabaseSchema(SCHEMA.application_id, SCHEMA.migrations[:3])
    create_directory(path)
    old = connect(path, before, synchronous="FULL")
    said = {**ITEM, "id": "y"}
    body = msgspec.json.encode(turn("old", client="me", input=(ITEM,), output=(said,)))
    old.execute("INSERT INTO turn (id, client, body) VALUES ('old', 'me', ?)", (body,))
    old.execute("INSERT INTO item VALUES ('x', 1, 1, 0), ('y', 0, 1, 0)")
    old.close()
    store = SQLiteStore(path, now=Clock())
    await store.open()
    for client in ("me", "them"):
        assert await store.load("old", client=client) is not None
        assert len(await store.chain("old", client=client)) == 1
    # Clients choose the ids of input items, so these stay with the client that sent them.
    assert await store.load_items(["x", "y"], client="me") == {"x": ITEM, "y": said}
    assert await store.load_items(["x", "y"], client="them") == {"y": said}
    await store.close()


async def test_a_file_of_the_first_version_is_migrated(path: Path) -> None:
    before = DatabaseSchema(SCHEMA.application_id, SCHEMA.migrations[:1])
    create_directory(path)
    old = connect(path, before, synchronous="FULL")
    body = msgspec.json.encode(turn("old"))
    old.execute("INSERT INTO turn (id, body) VALUES ('old', ?)", (body,))
    old.close()
    store = SQLiteStore(path, now=Clock())
    await store.open()
    await store.save(turn("new", "old", output=(ITEM,)))
    assert await chain_ids(store, "new") == ["old", "new"]
    assert await store.load_items(["x"]) == {"x": ITEM}
    await store.delete("new")
    await store.close()
    with open_database(path) as connection:
        assert connection.execute("SELECT count(*) FROM item").fetchone() == (0,)


async def test_a_turn_of_an_earlier_version_is_measured_without_its_compression(
    path: Path,
) -> None:
    before = DatabaseSchema(SCHEMA.application_id, SCHEMA.migrations[:6])
    create_directory(path)
    old = connect(path, before, synchronous="FULL")
    body = zlib.compress(msgspec.json.encode(turn("old", text="x" * 100_000)))
    old.execute("INSERT INTO turn (id, body) VALUES ('old', ?)", (body,))
    old.close()
    store = SQLiteStore(path, now=Clock(), limits=StoreLimits(max_history_bytes=50_000))
    await store.open()
    with pytest.raises(HistoryTooLarge):
        await store.chain("old")
    await store.close()
