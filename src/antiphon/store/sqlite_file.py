"""SQLite files of ours: made private, recognised, brought up to date, and named in every error."""

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

BUSY_S = 5.0  # how long another process may hold the file before we give up
_WAL_BYTES = 16 * 1024 * 1024  # what the write-ahead log may keep on disk after a checkpoint


class Schema(Struct, frozen=True):
    """What a file holds. Migration n brings it from version n to n + 1; none is ever edited."""

    application_id: int
    migrations: tuple[tuple[str, ...], ...]


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Whatever goes wrong with the file is a `StoreError` that names it."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}") from error
    except (sqlite3.Error, msgspec.MsgspecError, zlib.error) as error:
        raise StoreError(f"{path}: {error}") from error


def connect(
    path: Path, schema: Schema, *, synchronous: Literal["FULL", "NORMAL"]
) -> sqlite3.Connection:
    """A connection that may write; the file and its directory are made when they are missing."""
    with naming(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # SQLite gives its side files the mode of the main one.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
        try:
            _recognise(connection, path, schema)
            # Only an empty file takes this, so it comes before anything that writes.
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
    """A connection that cannot write. Threads may hand it on, but not share it."""
    with naming(path):
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
    """All that is read within is of one moment, whatever is written meanwhile."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")


def vacuum(connection: sqlite3.Connection, max_pages: int) -> None:
    """Give pages that nothing needs any more back to the file system."""
    # A script, since `execute` would take one step, which is one page.
    connection.executescript(f"PRAGMA incremental_vacuum({max_pages})")


def _recognise(connection: sqlite3.Connection, path: Path, schema: Schema) -> None:
    """Leave alone what is not ours: a foreign database, or one of a newer version."""
    mark, version = _number(connection, "application_id"), _number(connection, "user_version")
    foreign = mark or version or _first(connection, "SELECT count(*) FROM sqlite_master")
    if mark != schema.application_id and foreign:
        raise StoreError(f"{path}: is a database of another kind")
    if version > len(schema.migrations):
        raise StoreError(
            f"{path}: was written by a newer version (schema {version},"
            f" known up to {len(schema.migrations)})"
        )


def _migrate(connection: sqlite3.Connection, schema: Schema) -> None:
    if _number(connection, "user_version") == len(schema.migrations):
        return
    with transaction(connection):
        # Asked again under the lock: another process may have come first.
        for statements in schema.migrations[_number(connection, "user_version") :]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {schema.application_id}")
        connection.execute(f"PRAGMA user_version = {len(schema.migrations)}")


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return _first(connection, f"PRAGMA {pragma}")


def _first(connection: sqlite3.Connection, query: str) -> int:
    return int(connection.execute(query).fetchone()[0])
