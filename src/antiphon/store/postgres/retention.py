"""Retention in the PostgreSQL store: deletes what has expired, and turns beyond a limit."""

from __future__ import annotations

from antiphon.store.postgres.connections import Connections
from antiphon.store.turn import Clock, StoreLimits

PAGE = 500  # rows per transaction, so that no other write waits long
_FORGET_LEASE_S = 3600  # a lease that expired so long ago is deleted
_EXPIRED = """
    WITH gone AS (DELETE FROM {table} WHERE {key} IN (
        SELECT {key} FROM {table} WHERE {expiry} <= $1 ORDER BY {expiry} LIMIT {limit}
        FOR UPDATE SKIP LOCKED
    ) RETURNING 1) SELECT count(*) FROM gone
"""
_TABLES = (
    ("turn", "seq", "expires_at"),
    ("run", "turn", "log_expires_at"),
    ("conversation", "seq", "expires_at"),
)
_PURGES = tuple(
    _EXPIRED.format(table=table, key=key, expiry=expiry, limit=PAGE)
    for table, key, expiry in _TABLES
)
_LEASES = """
    DELETE FROM lease
    WHERE expires_at <= extract(epoch FROM clock_timestamp()) - $1::double precision
"""
_DELETED = "DELETE FROM deleted_run WHERE holder NOT IN (SELECT holder FROM lease)"
_COUNT = "SELECT count(*) FROM turn"
_EVICT = """
    DELETE FROM turn WHERE seq <= (SELECT seq FROM turn ORDER BY seq DESC OFFSET $1 LIMIT 1)
"""
_EVICT_BYTES = """
    DELETE FROM turn WHERE seq <= (
        SELECT max(seq) FROM (
            SELECT seq, sum(octet_length(body)) OVER (ORDER BY seq DESC) AS size FROM turn
        ) AS newer WHERE size > $1
    )
"""


class Retention:
    """Deletes rows of a store."""

    def __init__(self, connections: Connections, *, now: Clock, limits: StoreLimits) -> None:
        self._connections = connections
        self._now = now
        self._limits = limits
        self._room = 0
        """How many turns may be saved before they are counted again."""
        self.has_limits = limits.max_turns is not None or limits.max_bytes is not None

    async def purge(self) -> int:
        """Delete what has expired; return the number of turns, logs and conversations."""
        now, count = self._now(), 0
        for query in _PURGES:
            while deleted := (await self._connections.fetch_row(query, now))[0]:
                count += deleted
                if deleted < PAGE:
                    break
        await self._connections.fetch(_LEASES, float(_FORGET_LEASE_S))
        await self._connections.fetch(_DELETED)
        return count

    async def evict(self) -> None:
        """Delete the oldest turns beyond a limit; called after each saving of a turn. Counting is
        expensive: it is done again when half of the room that was left is used."""
        max_turns, max_bytes = self._limits.max_turns, self._limits.max_bytes
        if max_bytes is not None:
            await self._connections.fetch(_EVICT_BYTES, max_bytes)
        self._room -= 1
        if max_turns is not None and self._room <= 0:
            count = (await self._connections.fetch_row(_COUNT))[0]
            if count > max_turns:
                count = max_turns - max_turns // 100
                await self._connections.fetch(_EVICT, count)
            self._room = (max_turns - count) // 2
