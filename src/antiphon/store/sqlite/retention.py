"""Retention in a SQLite store: turns that have expired, or that exceed a limit, are deleted."""

from __future__ import annotations

import sqlite3

from antiphon.store.sqlite.call_states import purge_call_states
from antiphon.store.sqlite.conversations import purge_conversations
from antiphon.store.sqlite.file import vacuum
from antiphon.store.sqlite.lock import enable_waiting
from antiphon.store.sqlite.runs import purge_runs
from antiphon.store.turn import Clock, StoreLimits

PURGE_EVERY_S = 60
PURGE_TURNS = 500  # per transaction, so that no save waits long
VACUUM_PAGES = 1000

_PURGE = """
    DELETE FROM turn WHERE seq IN (
        SELECT seq FROM turn WHERE expires_at <= ? ORDER BY expires_at LIMIT ?
    )
"""
_OLDEST = "SELECT seq, length(body) FROM turn ORDER BY seq LIMIT ?"


class Retention:
    """Deletes expired rows once a minute, and the oldest turns while a limit is exceeded."""

    def __init__(self, now: Clock, limits: StoreLimits) -> None:
        self._now = now
        self._limits = limits
        self._purged_at: int | None = None

    def purge(self, connection: sqlite3.Connection) -> bool:
        """Delete some expired rows, once a minute; True if there may be more."""
        now = self._now()
        if self._purged_at is not None and now - self._purged_at < PURGE_EVERY_S:
            return False
        with enable_waiting(connection):
            for purge in (purge_turns, purge_runs, purge_conversations, purge_call_states):
                if purge(connection, now, PURGE_TURNS):
                    return True
            self._purged_at = now
            vacuum(connection, VACUUM_PAGES)
        return False

    def evict_turns(self, connection: sqlite3.Connection) -> None:
        """Delete the oldest turns while a limit is exceeded, a bounded number at a time."""
        limits = self._limits
        if limits.max_turns is None and limits.max_bytes is None:
            return
        turns, size = connection.execute("SELECT turns, bytes FROM total").fetchone()
        over_turns = 0 if limits.max_turns is None else turns - limits.max_turns
        over_bytes = 0 if limits.max_bytes is None else size - limits.max_bytes
        if over_turns <= 0 and over_bytes <= 0:
            return
        last = None
        for seq, freed in connection.execute(_OLDEST, (PURGE_TURNS,)).fetchall():
            if over_turns <= 0 and over_bytes <= 0:
                break
            last = seq
            over_turns -= 1
            over_bytes -= freed
        connection.execute("DELETE FROM turn WHERE seq <= ?", (last,))

    def evict_conversations(self, connection: sqlite3.Connection) -> None:
        """Delete conversations while a limit is exceeded: in a file, they have none."""


def purge_turns(connection: sqlite3.Connection, now: int, limit: int) -> bool:
    """Delete some expired turns; True if there may be more."""
    return connection.execute(_PURGE, (now, limit)).rowcount == limit
