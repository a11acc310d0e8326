"""SQLite files: private permissions, ownership check, migrations, errors that name the file."""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from antiphon.errors import StoreError

BUSY_S = 5.0  # how long to wait for a lock held by another process
_WAL_BYTES = 16 * 1024 * 1024  # size of the write-ahead log file after a checkpoint


class DatabaseSchema(Struct, frozen=True):
    """Application id and migrations. Migration n leads from version n to n + 1; never edit one."""

    application_id: int
    migrations: tuple[tuple[str, ...], ...]


@contextmanager
def convert_errors(path: Path) -> Iterator[None]:
    """Convert every error of the file to a `StoreError` that names it."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}") from error
    except (sqlite3.Error, msgspec.MsgspecError, zlib.error) as error:
        raise StoreError(f"{path}: {error}") from error


def connect(
    path: Path, schema: DatabaseSchema, *, synchronous: Literal["FULL", "NORMAL"]
) -> sqlite3.Connection:
    """Open a read-write connection; creates the file and its directory if missing."""
    with convert_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # SQLite creates its -wal and -shm files with the mode of the main file.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
        try:
            _check_ownership(connection, path, schema)
            # Takes effect only in an empty file, so it precedes everything that writes.
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
            connection.execute(f"PRAGMA synchronous = {synchronous}")
            _migrate(connection, schema)
        except BaseException:
            connection.close()
            raise
    return connection


def connect_reader(path: Path) -> sqlite3.Connection:
    """Open a read-only connection, usable from any thread but from one at a time."""
    with convert_errors(path):
        return sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro",
            uri=True,
            timeout=BUSY_S,
            isolation_level=None,
            check_same_thread=False,
        )


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """Read a consistent snapshot, unaffected by concurrent writes."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")


def vacuum(connection: sqlite3.Connection, max_pages: int) -> None:
    """Return up to `max_pages` free pages to the file system."""
    # `execute` would run a single step, which frees a single page.
    connection.executescript(f"PRAGMA incremental_vacuum({max_pages})")


def _check_ownership(connection: sqlite3.Connection, path: Path, schema: DatabaseSchema) -> None:
    """Refuse a database of another application, or of a newer version."""
    application_id = _read_pragma(connection, "application_id")
    version = _read_pragma(connection, "user_version")
    used = application_id or version or _count_tables(connection)
    if application_id != schema.application_id and used:
        raise StoreError(
            f"{path}: the file is a SQLite database of another application."
            " Use another path, or move the file away."
        )
    if version > len(schema.migrations):
        raise StoreError(
            f"{path}: the file was written by a newer version of Antiphon (schema {version},"
            f" known up to {len(schema.migrations)}). Upgrade Antiphon, or use another path."
        )


def _migrate(connection: sqlite3.Connection, schema: DatabaseSchema) -> None:
    if _read_pragma(connection, "user_version") == len(schema.migrations):
        return
    with transaction(connection):
        # Read again under the lock: another process may have migrated it meanwhile.
        for statements in schema.migrations[_read_pragma(connection, "user_version") :]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {schema.application_id}")
        connection.execute(f"PRAGMA user_version = {len(schema.migrations)}")


def _read_pragma(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])


def _count_tables(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
