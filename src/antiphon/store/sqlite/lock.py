"""Write lock of a SQLite file that several processes share.

SQLite waits for the lock with pauses of up to 100 ms, and a process that writes all the time takes
the lock again in between. So a writer that waits looks often, and one that has met another writer
lately pauses after each transaction for long enough to be noticed.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from antiphon.store.sqlite.file import BUSY_S

LOOK_S = 0.0005
"""Time between two looks at the lock."""
PAUSE_S = 3 * LOOK_S
SHARED_S = 1.0
"""How long a file counts as shared after another process held its lock."""


def disable_waiting(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Have statements of a connection fail at once while the lock is held: see `WriteLock`."""
    connection.execute("PRAGMA busy_timeout = 0")
    return connection


@contextmanager
def enable_waiting(connection: sqlite3.Connection) -> Iterator[None]:
    """Let SQLite wait for the lock, for statements outside of a transaction."""
    connection.execute(f"PRAGMA busy_timeout = {BUSY_S * 1000:.0f}")
    try:
        yield
    finally:
        disable_waiting(connection)


class WriteLock:
    """Takes the lock for the transactions of one writer, on connections that do not wait. Used by
    one thread."""

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._monotonic = monotonic
        self._sleep = sleep
        self._shared_until = 0.0
        self._ended_at = 0.0

    def transaction(self, connection: sqlite3.Connection) -> _Transaction:
        """Run a transaction; raises `sqlite3.OperationalError` if the lock is held for too long."""
        return _Transaction(self, connection)

    def let_others_write(self) -> None:
        """Pause before a transaction if another process waits for the lock."""
        now = self._monotonic()
        pause_s = self._ended_at + PAUSE_S - now
        if now < self._shared_until and pause_s > 0:
            self._sleep(pause_s)

    def begin(self, connection: sqlite3.Connection) -> None:
        """Take the lock."""
        deadline = self._monotonic() + BUSY_S
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if not is_busy(error) or self._monotonic() >= deadline:
                    raise
            else:
                return
            self._sleep(LOOK_S)
            self._shared_until = self._monotonic() + SHARED_S

    def end(self) -> None:
        """Note that a transaction is over."""
        self._ended_at = self._monotonic()


class _Transaction:
    """A transaction within the lock: committed in the end, or taken back after an error. Written
    out, because each stored response passes it: a generator costs four times as much."""

    __slots__ = ("_connection", "_lock")

    def __init__(self, lock: WriteLock, connection: sqlite3.Connection) -> None:
        self._lock = lock
        self._connection = connection

    def __enter__(self) -> None:
        self._lock.let_others_write()
        try:
            self._lock.begin(self._connection)
        except BaseException:
            self._take_back()
            raise

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        try:
            if error_type is None:
                self._connection.execute("COMMIT")
        finally:
            self._take_back()

    def _take_back(self) -> None:
        """Roll back a transaction that is not committed."""
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        finally:
            self._lock.end()


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection holds the lock."""
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
