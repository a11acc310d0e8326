"""Call states in the SQLite database of a store."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping

from antiphon.store.sqlite.access import SQLiteAccess
from antiphon.store.turn import Clock, StoreLimits

MIGRATION: tuple[str, ...] = (
    # State of a provider, sealed, by the call that it belongs to.
    """
    CREATE TABLE call_state (
        seq INTEGER PRIMARY KEY,
        owner TEXT NOT NULL,
        call TEXT NOT NULL,
        expires_at INTEGER,
        body TEXT NOT NULL,
        UNIQUE (owner, call)
    )
    """,
    "CREATE INDEX call_state_order ON call_state (owner, seq)",
    "CREATE INDEX call_state_expiry ON call_state (expires_at) WHERE expires_at IS NOT NULL",
)
_SAVE = "INSERT OR REPLACE INTO call_state (owner, call, expires_at, body) VALUES (?, ?, ?, ?)"
_EVICT = """
    DELETE FROM call_state WHERE owner = :owner AND seq <= (
        SELECT seq FROM call_state WHERE owner = :owner ORDER BY seq DESC LIMIT 1 OFFSET :most
    )
"""
_LOAD = """
    SELECT body FROM call_state
    WHERE owner = ? AND call = ? AND (expires_at IS NULL OR expires_at > ?)
"""
_PURGE = """
    DELETE FROM call_state WHERE seq IN (
        SELECT seq FROM call_state WHERE expires_at <= ? ORDER BY expires_at LIMIT ?
    )
"""


class SQLiteCallStates:
    """`CallStates` that share the transactions of turns."""

    def __init__(self, access: SQLiteAccess, *, now: Clock, limits: StoreLimits) -> None:
        self._access = access
        self._now = now
        self._limits = limits

    async def save(self, states: Mapping[str, str], *, client: str) -> None:
        expires_at = self._limits.expiry(self._now())
        rows = [(client, call, expires_at, body) for call, body in states.items()]
        bounds = {"owner": client, "most": self._limits.max_call_states}

        def job(connection: sqlite3.Connection) -> None:
            connection.executemany(_SAVE, rows)
            connection.execute(_EVICT, bounds)

        await self._access.write(job)

    async def load(self, call_ids: Collection[str], *, client: str) -> dict[str, str]:
        now = self._now()

        def job(connection: sqlite3.Connection) -> dict[str, str]:
            rows = {
                call: connection.execute(_LOAD, (client, call, now)).fetchone() for call in call_ids
            }
            return {call: row[0] for call, row in rows.items() if row is not None}

        return await self._access.read(job)


def purge_call_states(connection: sqlite3.Connection, now: int, limit: int) -> bool:
    """Delete some expired states; True if there may be more."""
    return connection.execute(_PURGE, (now, limit)).rowcount == limit
