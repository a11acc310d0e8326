"""A file of an older version is brought up to date, wholly or not at all."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from antiphon.errors import StoreError
from antiphon.store.sqlite_file import DatabaseSchema, connect, connect_reader, transaction, vacuum

FIRST = ("CREATE TABLE thing (name TEXT)", "INSERT INTO thing VALUES ('old')")
SECOND = ("ALTER TABLE thing ADD COLUMN size INTEGER NOT NULL DEFAULT 7",)
BROKEN = ("INSERT INTO thing (name) VALUES ('half')", "CREATE TABLE thing (name TEXT)")


def things(path: Path, *migrations: tuple[str, ...]) -> list[tuple[object, ...]]:
    with closing(
        connect(path, DatabaseSchema(1234, migrations), synchronous="NORMAL")
    ) as connection:
        return connection.execute("SELECT * FROM thing").fetchall()


def test_only_what_is_new_is_done(tmp_path: Path) -> None:
    path = tmp_path / "things.sqlite"
    assert things(path, FIRST) == [("old",)]
    assert things(path, FIRST) == [("old",)]
    assert things(path, FIRST, SECOND) == [("old", 7)]
    assert things(path, FIRST, SECOND) == [("old", 7)]


def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "things.sqlite"
    things(path, FIRST)
    with pytest.raises(StoreError, match=r"things\.sqlite: table thing already exists"):
        things(path, FIRST, SECOND, BROKEN)
    assert things(path, FIRST) == [("old",)]


def test_going_back_to_an_older_version_is_refused(tmp_path: Path) -> None:
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


def test_space_that_was_freed_is_given_back(tmp_path: Path) -> None:
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
