"""Retention in the PostgreSQL store: deletes what has expired, and turns beyond a limit."""

from __future__ import annotations

from typing import Any

from antiphon.store.postgres.connections import SLOW_S, Connections
from antiphon.store.turn import Clock, StoreLimits

PAGE = 500  # rows per transaction, so that no other write waits long
_FORGET_LEASE_S = 3600  # a lease that expired so long ago is deleted
_EXPIRED = """
    WITH gone AS (DELETE FROM {table} WHERE {key} = ANY (ARRAY(
        SELECT {key} FROM {table} WHERE {expiry} <= $1 ORDER BY {expiry} LIMIT {limit}
        FOR UPDATE SKIP LOCKED
    )) RETURNING 1) SELECT count(*) FROM gone
"""
_TABLES = (
    ("turn", "seq", "expires_at"),
    ("run", "turn", "log_expires_at"),
    ("conversation", "seq", "expires_at"),
    ("call_state", "seq", "expires_at"),
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
_NEWEST_TO_EVICT = "SELECT seq FROM turn ORDER BY seq DESC OFFSET $1 LIMIT 1"
_EVICT = f"""
    WITH gone AS (DELETE FROM turn WHERE seq = ANY (ARRAY(
        SELECT seq FROM turn WHERE seq <= $1 ORDER BY seq LIMIT {PAGE} FOR UPDATE SKIP LOCKED
    )) RETURNING 1) SELECT count(*) FROM gone
"""
_EVICT_PAGES = 4  # for one saving, which waits for it; the rest is deleted with the next ones
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
        self._newest_to_evict: int | None = None
        """Up to this one, turns are being deleted."""
        self.has_limits = limits.max_turns is not None or limits.max_bytes is not None

    async def purge(self) -> int:
        """Delete what has expired; return the number of turns, logs and conversations."""
        now = self._now()
        count = 0
        for query in _PURGES:
            while deleted := (await self._fetch_row(query, now))[0]:
                count += deleted
                if deleted < PAGE:
                    break
        await self._fetch_row(_LEASES, float(_FORGET_LEASE_S))
        await self._fetch_row(_DELETED)
        return count

    async def evict(self) -> None:
        """Delete the oldest turns beyond a limit; called after each saving of a turn. Counting is
        expensive: it is done again when half of the room that was left is used."""
        max_turns = self._limits.max_turns
        max_bytes = self._limits.max_bytes
        if max_bytes is not None:
            await self._fetch_row(_EVICT_BYTES, max_bytes)
        self._room -= 1
        if max_turns is not None and self._newest_to_evict is None and self._room <= 0:
            await self._count(max_turns)
        if self._newest_to_evict is not None:
            await self._delete_oldest(self._newest_to_evict)

    async def _count(self, max_turns: int) -> None:
        """Count the turns, and decide which ones are to be deleted."""
        count = (await self._fetch_row(_COUNT))[0]
        if count > max_turns:
            count = max_turns - max_turns // 100
            found = await self._fetch_row(_NEWEST_TO_EVICT, count)
            self._newest_to_evict = found and found[0]
        self._room = (max_turns - count) // 2

    async def _delete_oldest(self, newest: int) -> None:
        for _ in range(_EVICT_PAGES):
            if (await self._fetch_row(_EVICT, newest))[0] < PAGE:
                self._newest_to_evict = None
                return

    async def _fetch_row(self, query: str, *values: float) -> Any:
        return await self._connections.fetch_row(query, *values, timeout_s=SLOW_S)
