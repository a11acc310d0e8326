"""Retention in a SQLite store: expired rows are purged once a minute, excess turns evicted."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from antiphon.store.sqlite.file import connect
from antiphon.store.sqlite.retention import PURGE_EVERY_S, PURGE_TURNS, Retention
from antiphon.store.sqlite.schema import SCHEMA
from antiphon.store.turn import StoreLimits
from tests.support.turns import Clock


@pytest.fixture
def connection(tmp_path: Path) -> sqlite3.Connection:
    return connect(tmp_path / "turns.sqlite", SCHEMA, synchronous="NORMAL")


def add(connection: sqlite3.Connection, count: int, expires_at: int | None, body: bytes) -> None:
    query = "INSERT INTO turn (id, expires_at, body) VALUES (hex(randomblob(16)), ?, ?)"
    connection.executemany(query, [(expires_at, body)] * count)


def count(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM turn").fetchone()[0])


def test_some_expired_turns_are_deleted_at_a_time(connection: sqlite3.Connection) -> None:
    clock = Clock()
    retention = Retention(clock, StoreLimits())
    add(connection, PURGE_TURNS + 1, clock.now, b"{}")
    add(connection, 1, clock.now + 1, b"{}")
    assert retention.purge(connection)
    assert not retention.purge(connection)
    assert count(connection) == 1
    connection.close()


def test_expired_turns_are_looked_for_once_a_minute(connection: sqlite3.Connection) -> None:
    clock = Clock()
    retention = Retention(clock, StoreLimits())
    assert not retention.purge(connection)
    add(connection, 1, clock.now, b"{}")
    clock.now += PURGE_EVERY_S - 1
    assert not retention.purge(connection)
    assert count(connection) == 1
    clock.now += 1
    assert not retention.purge(connection)
    assert count(connection) == 0
    connection.close()


@pytest.mark.parametrize(
    ("limits", "left"),
    [
        (StoreLimits(), 10),
        (StoreLimits(max_turns=10), 10),
        (StoreLimits(max_turns=4), 4),
        (StoreLimits(max_bytes=100), 10),
        (StoreLimits(max_bytes=95), 9),
        (StoreLimits(max_turns=4, max_bytes=25), 2),
    ],
)
def test_turns_over_a_limit_are_evicted(
    connection: sqlite3.Connection, limits: StoreLimits, left: int
) -> None:
    add(connection, 10, None, b"x" * 10)
    Retention(Clock(), limits).evict_turns(connection)
    assert count(connection) == left
    oldest = connection.execute("SELECT min(seq) FROM turn").fetchone()[0]
    assert oldest == 11 - left
    connection.close()
