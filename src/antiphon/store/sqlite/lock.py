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

from antiphon.store.sqlite.file import BUSY_S, finish_transaction

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

    @contextmanager
    def transaction(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Run a transaction; raises `sqlite3.OperationalError` if the lock is held for too long."""
        self._let_others_write()
        try:
            with finish_transaction(connection):
                self._begin(connection)
                yield
        finally:
            self._ended_at = self._monotonic()

    def _let_others_write(self) -> None:
        now = self._monotonic()
        pause_s = self._ended_at + PAUSE_S - now
        if now < self._shared_until and pause_s > 0:
            self._sleep(pause_s)

    def _begin(self, connection: sqlite3.Connection) -> None:
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


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection holds the lock."""
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
