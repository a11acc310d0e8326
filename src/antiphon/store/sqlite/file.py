"""SQLite files: private permissions, ownership check, migrations, errors that name the file.

A file may be moved, deleted or replaced while it is open. SQLite would go on with a file
that has no path, so a `WatchedConnection` is opened again if another file is at its path.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from antiphon.errors import StoreDamaged, StoreError

BUSY_S = 5.0  # how long to wait for a lock held by another process
_WAL_BYTES = 16 * 1024 * 1024  # size of the write-ahead log file after a checkpoint
_READ_BYTES = 1024 * 1024
_CACHE_KB = 1024
"""Pages that a connection keeps, half of what SQLite would: it is no slower, because the operating
system has the others."""


class DatabaseSchema(Struct, frozen=True):
    """Application id and migrations. Migration n leads from version n to n + 1; never edit one."""

    application_id: int
    migrations: tuple[tuple[str, ...], ...]


@contextmanager
def convert_errors(path: Path) -> Iterator[None]:
    """Convert every error of the file to a `StoreError` that names it."""
    try:
        yield
    except (OSError, sqlite3.Error, msgspec.MsgspecError, zlib.error) as error:
        raise to_store_error(path, error) from error


def to_store_error(path: Path, error: Exception) -> StoreError:
    """Return an error as one that names the file."""
    if isinstance(error, StoreError):
        return error
    if is_damage(error):
        return StoreDamaged(
            f"{path}: the file is damaged, or its disk cannot be read ({error}). If the disk works,"
            " restore the file from a backup, or move it away together with its -wal and -shm"
            " files: a new one is created."
        )
    return StoreError(f"{path}: {getattr(error, 'strerror', None) or error}")


def is_damage(error: Exception) -> bool:
    """Whether SQLite reports damage, rather than a file out of reach.

    It reports damage for a read error of the disk, too: see `is_damaged`.
    """
    return _result_code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_file_failure(error: Exception) -> bool:
    """Whether the file is damaged, full, read-only or out of reach, rather than locked or used in
    a wrong way: a new connection may work when the file does again."""
    return is_damage(error) or _result_code(error) in (
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
    )


def _result_code(error: Exception) -> int:
    """Return the primary result code of SQLite; 0 for an error that is not of SQLite itself."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def is_damaged(path: Path) -> bool:
    """Whether the content of a file is damaged, rather than unreadable just now or at all.

    Reads the whole file. Call it only while this process has no connection to the file: closing it
    releases their locks.
    """
    try:
        with path.open("rb") as file:
            while file.read(_READ_BYTES):
                pass
        location = f"{path.absolute().as_uri()}?mode=rw"  # not created; its log is removed
        with closing(sqlite3.connect(location, uri=True, timeout=BUSY_S)) as connection:
            return bool(connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",))
    except OSError:
        return False
    except sqlite3.Error as error:
        return is_damage(error)


def set_aside(path: Path, suffix: str) -> Path:
    """Rename a file together with the files SQLite keeps beside it; return its new path.

    The log is renamed first: SQLite would apply a log that is left behind to the next file.
    """
    aside = path.with_name(f"{path.name}.{suffix}")
    with convert_errors(path):
        for part in ("-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.rename(f"{path}{part}", f"{aside}{part}")
        os.rename(path, aside)
    return aside


def create_directory(path: Path) -> None:
    """Create the directory of a file, when it is opened for the first time.

    While the gateway runs, a directory that vanished is not created again: it may be the place of
    a file system that is not mounted.
    """
    with convert_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)


def connect(
    path: Path, schema: DatabaseSchema, *, synchronous: Literal["FULL", "NORMAL"]
) -> sqlite3.Connection:
    """Open a read-write connection; creates the file if it is missing."""
    with convert_errors(path):
        _create_private(path)
        connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
        try:
            _check_ownership(connection, path, schema)
            # Takes effect only in an empty file, so it precedes everything that writes.
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
            connection.execute(f"PRAGMA synchronous = {synchronous}")
            migrate(connection, schema)
            connection.execute(f"PRAGMA cache_size = -{_CACHE_KB}")
        except BaseException:
            connection.close()
            raise
    return connection


def _create_private(path: Path) -> None:
    """Create a missing file that only its owner can access.

    SQLite creates its -wal and -shm files with the mode of the main file. An existing file is not
    opened: closing it would release the locks of other connections of this process.
    """
    _remove_leftovers(path)
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)) from None
        if not os.access(path, os.R_OK | os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) from None


def _remove_leftovers(path: Path) -> None:
    """Remove the -wal and -shm files of a database that is gone: a new one must not share them
    with connections to the old one that are still open."""
    leftovers = [Path(f"{path}{part}") for part in ("-wal", "-shm")]
    leftovers = [each for each in leftovers if each.exists()]
    if leftovers and not path.exists():  # in this order: a file is older than its log
        for each in leftovers:
            each.unlink(missing_ok=True)


class WatchedConnection:
    """A connection to the file that is at a path now. Used by one thread at a time."""

    def __init__(self, path: Path | str, connect: Callable[[], sqlite3.Connection]) -> None:
        self._path = os.fspath(path)
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None

    def get(self) -> sqlite3.Connection:
        """Return the connection, a new one if another file is at the path; raises `StoreError`."""
        identity = _read_identity(self._path)
        if self._connection is None or identity is None or identity != self._identity:
            self.close()
            self._connection = self._connect()
            # A file that was created or replaced just now may not be the one that was opened.
            opened = _read_identity(self._path)
            self._identity = opened if opened == identity else None
        return self._connection

    def last(self) -> sqlite3.Connection:
        """Return the connection that `get` has returned last, without a look at the file, if it is
        still open."""
        return self._connection or self.get()

    def close(self) -> None:
        """Close the connection; `get` opens a new one. SQLite does not touch the files at the path
        if they are not those that it opened."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _read_identity(path: str) -> tuple[int, int] | None:
    """Return device and inode of a file, None if it cannot be found."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


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
    """Run a write transaction."""
    with finish_transaction(connection):
        connection.execute("BEGIN IMMEDIATE")
        yield


@contextmanager
def finish_transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit the transaction that is begun inside, or take it back after an error."""
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


def migrate(connection: sqlite3.Connection, schema: DatabaseSchema) -> None:
    """Create the tables, or change them to the newest version."""
    if _read_pragma(connection, "user_version") == len(schema.migrations):
        return
    with transaction(connection):
        # Read again under the lock: another process may have migrated it since.
        for statements in schema.migrations[_read_pragma(connection, "user_version") :]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {schema.application_id}")
        connection.execute(f"PRAGMA user_version = {len(schema.migrations)}")


def _read_pragma(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])


def _count_tables(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
