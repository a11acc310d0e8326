"""The write lock of a file: waiting for it, and leaving it to others."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from antiphon.store.sqlite.file import BUSY_S
from antiphon.store.sqlite.lock import (
    LOOK_S,
    PAUSE_S,
    SHARED_S,
    WriteLock,
    disable_waiting,
    enable_waiting,
)


class Clock:
    """A clock that moves while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []
        self.on_sleep: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)
        self.on_sleep()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "numbers.sqlite"
    with closing(connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE number (value INTEGER)")
    return path


def connect(path: Path) -> sqlite3.Connection:
    return disable_waiting(sqlite3.connect(path, isolation_level=None, timeout=BUSY_S))


@pytest.fixture
def connection(file: Path) -> Iterator[sqlite3.Connection]:
    with closing(connect(file)) as connection:
        yield connection


@pytest.fixture
def other(file: Path) -> Iterator[sqlite3.Connection]:
    with closing(connect(file)) as connection:
        yield connection


def write(lock: WriteLock, connection: sqlite3.Connection, *more: str) -> None:
    with lock.transaction(connection):
        for statement in ("INSERT INTO number VALUES (1)", *more):
            connection.execute(statement)


def count(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM number").fetchone()[0])


def meet(clock: Clock, lock: WriteLock, *connections: sqlite3.Connection) -> None:
    """Write while another connection holds the lock, which it releases at the third look."""
    connection, other = connections
    other.execute("BEGIN IMMEDIATE")

    def release() -> None:
        if len(clock.slept) == 3:
            other.execute("COMMIT")

    clock.on_sleep = release
    write(lock, connection)


def test_a_writer_looks_often_until_the_lock_is_released(
    connection: sqlite3.Connection, other: sqlite3.Connection
) -> None:
    clock = Clock()
    meet(clock, WriteLock(clock.monotonic, clock.sleep), connection, other)
    assert (clock.slept, count(other)) == ([LOOK_S] * 3, 1)


def test_a_lock_that_is_held_for_too_long_is_an_error(
    connection: sqlite3.Connection, other: sqlite3.Connection
) -> None:
    clock = Clock()
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError, match="database is locked"):
        write(WriteLock(clock.monotonic, clock.sleep), connection)
    assert sum(clock.slept) == pytest.approx(BUSY_S, abs=2 * LOOK_S)


def test_sqlite_waits_only_where_it_is_told_to(connection: sqlite3.Connection) -> None:
    def read_timeout() -> int:
        return int(connection.execute("PRAGMA busy_timeout").fetchone()[0])

    assert read_timeout() == 0
    with enable_waiting(connection):
        assert read_timeout() == BUSY_S * 1000
    assert read_timeout() == 0


def test_a_writer_that_is_alone_never_pauses(connection: sqlite3.Connection) -> None:
    clock = Clock()
    lock = WriteLock(clock.monotonic, clock.sleep)
    for _ in range(3):
        write(lock, connection)
    assert (clock.slept, count(connection)) == ([], 3)


def test_a_writer_that_has_met_another_pauses_after_each_transaction(
    connection: sqlite3.Connection, other: sqlite3.Connection
) -> None:
    clock = Clock()
    lock = WriteLock(clock.monotonic, clock.sleep)
    meet(clock, lock, connection, other)
    write(lock, connection)
    assert clock.slept[3:] == [pytest.approx(PAUSE_S)]
    clock.now += PAUSE_S  # it had other work
    write(lock, connection)
    assert len(clock.slept) == 4
    clock.now += SHARED_S
    write(lock, connection)
    write(lock, connection)
    assert len(clock.slept) == 4


def test_an_error_takes_the_transaction_back_and_is_not_waited_for(
    connection: sqlite3.Connection,
) -> None:
    clock = Clock()
    lock = WriteLock(clock.monotonic, clock.sleep)
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        write(lock, connection, "INSERT INTO missing VALUES (1)")
    connection.execute("BEGIN")
    with pytest.raises(sqlite3.OperationalError, match="within a transaction"):
        write(lock, connection)
    assert not connection.in_transaction
    assert (clock.slept, count(connection)) == ([], 0)
