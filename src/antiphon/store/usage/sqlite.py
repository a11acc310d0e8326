"""Usage table in the SQLite file of a store."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

from antiphon.store.sqlite.file import connect_reader, convert_errors
from antiphon.store.usage.usage_table import COUNTS, Counts, UsageKey

RunJob: TypeAlias = Callable[[Callable[[sqlite3.Connection], Any]], Awaitable[Any]]
"""Runs a function with a connection, in the thread that the connection belongs to."""

_KEY = UsageKey._fields

MIGRATION: tuple[str, ...] = (
    f"""
    CREATE TABLE usage (
        hour INTEGER NOT NULL,  -- hours since the epoch
        client TEXT NOT NULL,
        model TEXT NOT NULL,  -- as its provider names it
        provider TEXT NOT NULL,
        {", ".join(f"{name} INTEGER NOT NULL" for name in COUNTS)},
        PRIMARY KEY ({", ".join(_KEY)})
    ) WITHOUT ROWID
    """,
)
_ADD = f"""
    INSERT INTO usage ({", ".join((*_KEY, *COUNTS))})
    VALUES ({", ".join("?" * (len(_KEY) + len(COUNTS)))})
    ON CONFLICT ({", ".join(_KEY)}) DO UPDATE SET
        {", ".join(f"{name} = {name} + excluded.{name}" for name in COUNTS)}
"""
_READ = f"SELECT {', '.join((*_KEY, *COUNTS))} FROM usage WHERE hour BETWEEN ? AND ?"
_DELETE = "DELETE FROM usage WHERE hour < ?"
_EXISTS = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'usage'"


class SQLiteUsageTable:
    """A `UsageTable` that writes through a store's writer, so that its rows share the commits of
    turns."""

    def __init__(self, write: RunJob, read: RunJob) -> None:
        self._write = write
        self._read = read

    async def add(self, rows: Mapping[UsageKey, Counts]) -> None:
        values = [(*key, *counts) for key, counts in rows.items()]
        await self._write(lambda connection: connection.executemany(_ADD, values))

    async def read(self, first_hour: int, last_hour: int) -> dict[UsageKey, Counts]:
        found: dict[UsageKey, Counts] = await self._read(
            lambda connection: read_rows(connection, first_hour, last_hour)
        )
        return found

    async def delete_before(self, hour: int) -> None:
        await self._write(lambda connection: connection.execute(_DELETE, (hour,)))


def read_rows(
    connection: sqlite3.Connection, first_hour: int, last_hour: int
) -> dict[UsageKey, Counts]:
    rows = connection.execute(_READ, (first_hour, last_hour)).fetchall()
    width = len(_KEY)
    return {UsageKey(*row[:width]): tuple(row[width:]) for row in rows}


def read_usage_file(path: Path, first_hour: int, last_hour: int) -> dict[UsageKey, Counts]:
    """Read the rows from a store's file, also while a gateway writes to it; a file of an earlier
    version has none."""
    with convert_errors(path), closing(connect_reader(path)) as connection:
        (exists,) = connection.execute(_EXISTS).fetchone()
        return read_rows(connection, first_hour, last_hour) if exists else {}
