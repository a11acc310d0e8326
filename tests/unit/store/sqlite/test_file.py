"""SQLite files: permissions, ownership, migrations, and errors that name the file."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from antiphon.errors import StoreDamaged, StoreError
from antiphon.store.sqlite.file import (
    DatabaseSchema,
    WatchedConnection,
    connect,
    connect_reader,
    create_directory,
    is_damaged,
    set_aside,
    snapshot,
    transaction,
    vacuum,
)

FIRST = ("CREATE TABLE thing (name TEXT)", "INSERT INTO thing VALUES ('old')")
SECOND = ("ALTER TABLE thing ADD COLUMN size INTEGER NOT NULL DEFAULT 7",)
BROKEN = ("INSERT INTO thing (name) VALUES ('half')", "CREATE TABLE thing (name TEXT)")


def things(path: Path, *migrations: tuple[str, ...]) -> list[tuple[object, ...]]:
    with closing(
        connect(path, DatabaseSchema(1234, migrations), synchronous="NORMAL")
    ) as connection:
        return connection.execute("SELECT * FROM thing").fetchall()


def test_only_new_migrations_are_applied(tmp_path: Path) -> None:
    path = tmp_path / "things.sqlite"
    assert things(path, FIRST) == [("old",)]
    assert things(path, FIRST) == [("old",)]
    assert things(path, FIRST, SECOND) == [("old", 7)]
    assert things(path, FIRST, SECOND) == [("old", 7)]


def test_a_failed_migration_leaves_the_file_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "things.sqlite"
    things(path, FIRST)
    with pytest.raises(StoreError, match=r"things\.sqlite: table thing already exists"):
        things(path, FIRST, SECOND, BROKEN)
    assert things(path, FIRST) == [("old",)]


def test_a_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "things.sqlite"
    things(path, FIRST, SECOND)
    with pytest.raises(StoreError, match=r"newer version of Antiphon \(schema 2, known up to 1\)"):
        things(path, FIRST)


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    path = tmp_path / "odd ?name#.sqlite"
    things(path, FIRST)
    with closing(connect_reader(path)) as connection:
        assert connection.execute("SELECT * FROM thing").fetchall() == [("old",)]
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            connection.execute("DELETE FROM thing")


def test_vacuum_returns_free_pages_to_the_file_system(tmp_path: Path) -> None:
    path = tmp_path / "things.sqlite"
    with closing(connect(path, DatabaseSchema(1234, (FIRST,)), synchronous="NORMAL")) as connection:
        with transaction(connection):
            connection.executemany("INSERT INTO thing VALUES (?)", [("x" * 5000,)] * 100)
        (full,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute("DELETE FROM thing")
        vacuum(connection, 50)
        (some,) = connection.execute("PRAGMA page_count").fetchone()
        vacuum(connection, 1000)
        (rest,) = connection.execute("PRAGMA page_count").fetchone()
    assert some == full - 50
    assert rest < 10


def test_the_files_are_private_and_commits_are_durable(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "down" / "things.sqlite"
    schema = DatabaseSchema(1234, (FIRST,))
    create_directory(path)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    with closing(connect(path, schema, synchronous="FULL")) as connection:
        for file in path.parent.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA busy_timeout").fetchone() == (5000,)
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)


def write_garbage(path: Path) -> None:
    path.write_bytes(b"this is no database at all, " * 100)


def make_directory(path: Path) -> None:
    path.mkdir()


def make_foreign_database(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE precious (x)")


def make_newer_version(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA application_id = 1234")
        connection.execute("PRAGMA user_version = 1000")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (write_garbage, "file is not a database"),
        (make_directory, "Is a directory"),
        (make_foreign_database, "database of another application"),
        (make_newer_version, "newer version"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_and_not_changed(
    tmp_path: Path, make: Callable[[Path], None], reason: str
) -> None:
    path = tmp_path / "things.sqlite"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(StoreError) as caught:
        things(path, FIRST)
    assert caught.value.message.startswith(f"{path}: ")
    assert reason in caught.value.message
    assert (path.read_bytes() if path.is_file() else None) == before


def test_a_directory_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match=r"things\.sqlite"):
        create_directory(tmp_path / "file" / "things.sqlite")


def test_a_damaged_file_is_told_apart_and_the_message_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "things.sqlite"
    write_garbage(path)
    with pytest.raises(StoreDamaged, match="restore the file from a backup, or move it away"):
        things(path, FIRST)
    path.unlink()
    make_foreign_database(path)
    with pytest.raises(StoreError) as caught:
        things(path, FIRST)
    assert not isinstance(caught.value, StoreDamaged)


def test_a_file_is_damaged_only_if_it_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "things.sqlite"
    assert not is_damaged(path), "a missing file is not a damaged one"
    things(path, FIRST)
    assert not is_damaged(path)
    path.write_bytes(path.read_bytes()[:-2000] + bytes(2000))
    assert is_damaged(path)
    write_garbage(path)
    assert is_damaged(path)


# --- files that are moved, replaced or set aside --------------------------------------------------


def open_watched(path: Path) -> WatchedConnection:
    schema = DatabaseSchema(1234, (FIRST,))
    return WatchedConnection(path, lambda: connect(path, schema, synchronous="FULL"))


def test_a_connection_is_kept_while_its_file_is_in_place(tmp_path: Path) -> None:
    things(tmp_path / "things.sqlite", FIRST)
    with closing(open_watched(tmp_path / "things.sqlite")) as watched:
        assert watched.get() is watched.get()
        watched.close()
        assert watched.get().execute("SELECT count(*) FROM thing").fetchone() == (1,)


def test_a_connection_to_a_replaced_file_is_opened_again_without_touching_its_log(
    tmp_path: Path,
) -> None:
    path, moved = tmp_path / "data" / "things.sqlite", tmp_path / "moved"
    create_directory(path)
    with closing(open_watched(path)) as watched, closing(open_watched(path)) as other:
        watched.get().execute("INSERT INTO thing VALUES ('in the first file')")
        path.parent.rename(moved)
        create_directory(path)
        other.get().execute("INSERT INTO thing VALUES ('only in the log of the second file')")
        rows = watched.get().execute("SELECT name FROM thing").fetchall()
        assert rows == [("old",), ("only in the log of the second file",)]
        assert path.with_name("things.sqlite-wal").stat().st_size > 0
    assert things(moved / "things.sqlite", FIRST) == [("old",), ("in the first file",)]
    assert things(path, FIRST) == rows


def test_a_new_file_shares_nothing_with_connections_to_a_deleted_one(tmp_path: Path) -> None:
    path = tmp_path / "things.sqlite"
    with closing(open_watched(path)) as watched, closing(open_watched(path)) as other:
        old = watched.get()
        old.execute("INSERT INTO thing VALUES ('only in the log of the deleted file')")
        path.unlink()  # and its log stays
        other.get().execute("INSERT INTO thing VALUES ('in the new file')")
        assert old.execute("SELECT count(*) FROM thing").fetchone() == (2,)
        assert watched.get() is not old
        watched.get().execute("INSERT INTO thing VALUES ('in the new file, too')")
    rows = [("old",), ("in the new file",), ("in the new file, too",)]
    assert things(path, FIRST) == rows


def test_a_file_is_set_aside_together_with_its_log(tmp_path: Path) -> None:
    path = tmp_path / "things.sqlite"
    with closing(open_watched(path)) as watched:
        watched.get().execute("INSERT INTO thing VALUES ('only in the log')")
        aside = set_aside(path, "damaged-1")
        assert aside == tmp_path / "things.sqlite.damaged-1"
        names = {file.name for file in tmp_path.iterdir()}
        assert names == {f"things.sqlite.damaged-1{part}" for part in ("", "-wal", "-shm")}
    assert things(path, FIRST) == [("old",)]
    assert things(aside, FIRST) == [("old",), ("only in the log",)]


def test_a_snapshot_does_not_see_later_writes(tmp_path: Path) -> None:
    path = tmp_path / "things.sqlite"
    schema = DatabaseSchema(1234, (FIRST,))
    with (
        closing(connect(path, schema, synchronous="NORMAL")) as writing,
        closing(connect_reader(path)) as reading,
    ):
        with snapshot(reading):
            assert reading.execute("SELECT count(*) FROM thing").fetchone() == (1,)
            writing.execute("INSERT INTO thing VALUES ('new')")
            assert reading.execute("SELECT count(*) FROM thing").fetchone() == (1,)
        assert reading.execute("SELECT count(*) FROM thing").fetchone() == (2,)


def test_a_transaction_that_fails_is_rolled_back(tmp_path: Path) -> None:
    schema = DatabaseSchema(1234, (FIRST,))
    with closing(connect(tmp_path / "t.sqlite", schema, synchronous="NORMAL")) as connection:
        statements = ("DELETE FROM thing", "DELETE FROM nothing")
        with pytest.raises(sqlite3.OperationalError), transaction(connection):
            list(map(connection.execute, statements))
        assert connection.execute("SELECT count(*) FROM thing").fetchone() == (1,)
