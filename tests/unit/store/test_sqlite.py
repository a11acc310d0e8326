"""The SQLite store: its file, its threads, and what happens when either fails."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import StoreError
from antiphon.store.sqlite import PURGE_EVERY_S, PURGE_TURNS, SCHEMA, SQLiteStore
from antiphon.store.sqlite_file import connect
from antiphon.store.store import StoreLimits
from tests.support.turns import Clock, ids, turn

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
def raw(path: Path) -> Iterator[sqlite3.Connection]:
    """The file itself, behind the store's back."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


# --- SQLite: files --------------------------------------------------------------------------------


async def test_turns_are_there_after_closing_and_opening(path: Path, clock: Clock) -> None:
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
from antiphon.store.sqlite import SQLiteStore
from antiphon.store.store import Turn

async def main():
    store = SQLiteStore(Path(sys.argv[1]), now=lambda: 0)
    await store.open()
    for id in ("a", "b"):
        await store.save(Turn(id=id, created_at=0, status="completed", model="m", provider="p",
                              response={}))
    os._exit(3)

asyncio.run(main())
"""


async def test_a_saved_turn_outlives_a_process_that_just_dies(path: Path) -> None:
    command = [sys.executable, "-c", SAVE_AND_DIE, str(path)]
    died = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=False)
    assert died.returncode == 3, died.stderr
    store = SQLiteStore(path, now=lambda: 0)
    await store.open()
    assert await store.load("a") is not None
    assert await store.load("b") is not None
    await store.close()


async def test_two_stores_share_a_file(sqlite: SQLiteStore, path: Path, clock: Clock) -> None:
    other = SQLiteStore(path, now=clock)
    await other.open()
    await sqlite.save(turn("a"))
    await asyncio.gather(
        *(store.save(turn(f"{n}{id(store)}", "a")) for n in range(50) for store in (sqlite, other))
    )
    assert await ids(other, f"7{id(sqlite)}") == ["a", f"7{id(sqlite)}"]
    await other.close()


async def test_the_file_is_private_and_keeps_a_durable_log(sqlite: SQLiteStore, path: Path) -> None:
    await sqlite.save(turn("a"))
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    with raw(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    writing = connect(path, SCHEMA, synchronous="FULL")
    assert writing.execute("PRAGMA synchronous").fetchone() == (2,)
    assert writing.execute("PRAGMA busy_timeout").fetchone() == (5000,)
    assert writing.execute("PRAGMA auto_vacuum").fetchone() == (2,)
    writing.close()


def _garbage(path: Path) -> None:
    path.write_bytes(b"this is no database at all, " * 100)


def _directory(path: Path) -> None:
    path.mkdir()


def _foreign(path: Path) -> None:
    with raw(path) as connection:
        connection.execute("CREATE TABLE precious (x)")


def _newer(path: Path) -> None:
    with raw(path) as connection:
        connection.execute(f"PRAGMA application_id = {SCHEMA.application_id}")
        connection.execute("PRAGMA user_version = 1000")


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (_garbage, "file is not a database"),
        (_directory, "Is a directory"),
        (_foreign, "database of another application"),
        (_newer, "newer version"),
    ],
)
async def test_a_file_that_cannot_be_used_is_named_and_left_alone(
    tmp_path: Path, clock: Clock, spoil: Callable[[Path], None], word: str
) -> None:
    path = tmp_path / "turns.sqlite"
    spoil(path)
    before = path.read_bytes() if path.is_file() else None
    store = SQLiteStore(path, now=clock)
    with pytest.raises(StoreError) as caught:
        await store.open()
    assert caught.value.message.startswith(f"{path}: ")
    assert word in caught.value.message
    assert (path.read_bytes() if path.is_file() else None) == before
    await store.close()


async def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "file").write_text("in the way")
    path = tmp_path / "file" / "turns.sqlite"
    store = SQLiteStore(path, now=clock)
    with pytest.raises(StoreError, match=r"turns\.sqlite"):
        await store.open()


async def test_a_store_that_is_not_open_says_so(path: Path, clock: Clock) -> None:
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


async def test_a_failing_disk_fails_the_save_and_not_the_store(
    sqlite: SQLiteStore, path: Path
) -> None:
    with raw(path) as connection:
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


async def test_when_nothing_can_be_written_every_save_is_told(
    sqlite: SQLiteStore, path: Path
) -> None:
    with raw(path) as connection:
        connection.execute("DROP TABLE turn")
    saves = (sqlite.save(turn(f"r{number}")) for number in range(5))
    results = await asyncio.gather(*saves, return_exceptions=True)
    assert {str(result) for result in results} == {f"{path}: no such table: turn"}
    assert sqlite.transactions == 0


async def test_a_chain_that_cannot_be_renewed_is_still_a_chain(
    sqlite: SQLiteStore, path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    await sqlite.save(turn("a"))
    with raw(path) as connection:
        connection.execute(
            "CREATE TRIGGER stuck BEFORE UPDATE ON turn BEGIN SELECT RAISE(ABORT, 'stuck'); END"
        )
    clock.now += 60
    assert await ids(sqlite, "a") == ["a"]
    await sqlite.save(turn("b"))
    assert f"{path}: stuck" in caplog.messages


async def test_an_unreadable_row_is_an_error_with_a_name(sqlite: SQLiteStore, path: Path) -> None:
    await sqlite.save(turn("a"))
    for spoiled in (b"{", b"", b"\x78\x9c garbage", b'{"id": 1}'):
        with raw(path) as connection:
            connection.execute("UPDATE turn SET body = ?", (spoiled,))
        with pytest.raises(StoreError, match=r"turns\.sqlite"):
            await sqlite.load("a")


# --- SQLite: the threads --------------------------------------------------------------------------


async def test_saves_of_a_moment_share_a_transaction(sqlite: SQLiteStore) -> None:
    await asyncio.gather(*(sqlite.save(turn(f"r{number}")) for number in range(500)))
    assert sqlite.transactions <= 50
    one = sqlite.transactions
    await sqlite.save(turn("alone"))
    assert sqlite.transactions == one + 1


@contextmanager
def watched_for_sqlite() -> Iterator[list[str]]:
    """Every call into SQLite that this thread makes."""
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


async def test_the_loop_never_touches_sqlite_and_goes_on_while_turns_are_saved(
    path: Path, clock: Clock
) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    with watched_for_sqlite() as seen:
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


def test_the_watch_itself_would_see_a_call() -> None:
    with watched_for_sqlite() as seen:
        sqlite3.connect(":memory:").close()
    assert "close" in seen


async def test_a_cancelled_save_disturbs_nobody(sqlite: SQLiteStore) -> None:
    tasks = [asyncio.create_task(sqlite.save(turn(f"r{number}"))) for number in range(20)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [result is None for result in results] == [False, True] * 10
    await sqlite.save(turn("after"))
    assert await sqlite.load("after") is not None


async def test_closing_finishes_what_was_begun(path: Path, clock: Clock) -> None:
    store = SQLiteStore(path, now=clock)
    await store.open()
    saving = [asyncio.create_task(store.save(turn(f"r{number}"))) for number in range(50)]
    await asyncio.sleep(0)
    await store.close()
    await asyncio.gather(*saving)
    with raw(path) as connection:
        assert connection.execute("SELECT count(*) FROM turn").fetchone() == (50,)


async def test_expired_rows_are_deleted_once_a_minute(
    sqlite: SQLiteStore, path: Path, clock: Clock
) -> None:
    async def kept() -> int:
        """How many rows there are once the writer has kept house after a batch or three."""
        for number in range(4):
            await sqlite.save(turn(f"new{number}", expires_at=2**40))
        with raw(path) as connection:
            (rows,) = connection.execute("SELECT count(*) FROM turn").fetchone()
            assert connection.execute("SELECT turns FROM total").fetchone() == (rows,)
        return int(rows) - 4

    many = 2 * PURGE_TURNS + 7
    soon = clock.now + 10
    await asyncio.gather(*(sqlite.save(turn(f"r{n}", expires_at=soon)) for n in range(many)))
    assert await kept() == many
    clock.now += PURGE_EVERY_S - 1
    assert await kept() == many
    clock.now += 1
    assert await kept() == 0


async def test_a_purge_that_fails_is_logged_and_saving_goes_on(
    sqlite: SQLiteStore, path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    await sqlite.save(turn("a"))
    with raw(path) as connection:
        connection.execute(
            "CREATE TRIGGER stuck BEFORE DELETE ON turn WHEN old.id = 'a'"
            " BEGIN SELECT RAISE(ABORT, 'cannot delete'); END"
        )
    clock.now += 100
    for id in ("b", "c"):
        await sqlite.save(turn(id))
    assert await sqlite.load("c") is not None
    assert f"{path}: maintenance failed, will be retried: cannot delete" in caplog.messages


async def test_large_turns_take_less_room_than_they_are_long(
    sqlite: SQLiteStore, path: Path
) -> None:
    large = turn("a", text="all work and no play " * 10_000, expires_at=2**40)
    await sqlite.save(large)
    assert await sqlite.load("a") == large
    with raw(path) as connection:
        (size,) = connection.execute("SELECT length(body) FROM turn").fetchone()
    assert size < 20_000
