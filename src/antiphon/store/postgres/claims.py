"""Claims of runs in the PostgreSQL store: those that wait, and those whose holder is gone."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

from antiphon.errors import StoreRefused
from antiphon.store.postgres.connections import Connections
from antiphon.store.postgres.conversations import LeaseClock
from antiphon.store.postgres.text import encode_text
from antiphon.store.run_log import ClaimedRun, RunStart, with_status
from antiphon.store.turn import StoreLimits, Turn, decode_turn, encode_turn

GRACE_S = 3.0
"""How long after the database was away no run is taken over: its holder could not renew its lease,
and does so now."""
_GAP_S = 3.0
"""Silence of all gateways after which the database counts as having been away: each of them writes
every second."""
_SPARE = 256
_ABANDONED_S = 60.0
"""How long a beginning that was given up may still be written by a server that was away."""

_CLAIMABLE = """
    SELECT run.turn, turn.body, turn.expires_at, run.token, run.last_seq, run.is_cancel_requested,
        run.is_background, run.is_streamed, run.request
    FROM run JOIN turn ON turn.seq = run.turn
"""
_CLAIMED = f"{_CLAIMABLE} WHERE run.holder = $1 AND run.claim = $2 ORDER BY run.turn"
_QUEUED = f"""
    {_CLAIMABLE} WHERE run.status = 'queued' AND run.holder IS NULL AND turn.id = $1
    FOR UPDATE OF run SKIP LOCKED
"""
# The first of each client before the second of any; what a client has running counts as before.
# Of several clients, the one that was served longest ago comes first.
# Some more than the limit are listed: other gateways claim at the same time.
_NEXT = f"""
    WITH busy AS MATERIALIZED (
        SELECT owner, count(*) AS runs FROM run
        WHERE holder IS NOT NULL AND is_background GROUP BY owner
    ), next AS MATERIALIZED (
        SELECT run.turn, coalesce(served.number, 0) AS served, coalesce(busy.runs, 0)
            + row_number() OVER (PARTITION BY run.owner ORDER BY run.turn) AS place
        FROM run LEFT JOIN busy ON busy.owner IS NOT DISTINCT FROM run.owner
            LEFT JOIN served_client AS served ON served.owner = coalesce(run.owner, '')
        WHERE run.status = 'queued' AND run.holder IS NULL ORDER BY place, served, run.turn
        LIMIT $1::bigint + {_SPARE}
    )
    {_CLAIMABLE} JOIN next ON next.turn = run.turn
    WHERE run.status = 'queued' AND run.holder IS NULL
    ORDER BY next.place, next.served, run.turn LIMIT $1 FOR UPDATE OF run SKIP LOCKED
"""
# Sorted, and last in its transaction: claims of two gateways never wait for each other in a circle.
_SERVE = """
    INSERT INTO served_client (owner, number)
    SELECT served.owner, nextval('served_client_number') FROM (
        SELECT DISTINCT coalesce(owner, '') AS owner FROM run WHERE turn = ANY ($1) ORDER BY 1
    ) AS served
    ON CONFLICT (owner) DO UPDATE SET number = excluded.number
"""
_EXPIRED = f"""
    {_CLAIMABLE} WHERE run.holder IS NOT NULL AND NOT EXISTS (
        SELECT FROM lease WHERE lease.holder = run.holder AND lease.expires_at > lease_time($1)
    )
    ORDER BY run.turn LIMIT $2 FOR UPDATE OF run SKIP LOCKED
"""
_ABANDON = """
    DELETE FROM turn USING run WHERE turn.id = ANY ($1) AND run.turn = turn.seq
        AND run.token = 1 AND run.status IN ('queued', 'in_progress')
"""
_REACHABLE = "SELECT note_reachability($1, $2)"
_TAKE = "SELECT take_run($1, $2, $3, $4)"


class RunClaims:
    """Takes runs over for a holder, and deletes those whose beginning was given up."""

    def __init__(
        self,
        connections: Connections,
        *,
        lease_now: LeaseClock,
        limits: StoreLimits,
        grace_s: float,
    ) -> None:
        self._connections = connections
        self._lease_now = lease_now
        self._limits = limits
        self._grace_s = grace_s
        self._abandoned: dict[str, float] = {}
        """Runs that may have begun although no reply arrived: until when they are looked for."""
        self._claims: dict[tuple[str, str | None], str] = {}
        """Ids of the claims that may have been written although they failed."""
        self._claiming = asyncio.Lock()

    def abandon(self, response_id: str) -> None:
        """Have a run deleted that must not be generated, in case that it was written."""
        now = asyncio.get_running_loop().time()
        self._abandoned[encode_text(response_id)] = now + _ABANDONED_S

    async def claim(
        self, holder: str, limit: int, *, response_id: str | None = None
    ) -> list[ClaimedRun]:
        if response_id is None:
            return await self._claim(("queued", None), holder, _NEXT, (limit,))
        id = encode_text(response_id)
        return await self._claim(("queued", id), holder, _QUEUED, (id,))

    async def claim_expired(self, holder: str, limit: int) -> list[ClaimedRun]:
        await self._delete_abandoned()
        if not await self._is_steady():
            return []
        return await self._claim(("expired", None), holder, _EXPIRED, (self._lease_now(), limit))

    async def _delete_abandoned(self) -> None:
        """Delete runs whose beginning was reported as failed, and was written."""
        if self._abandoned:
            await self._connections.fetch(_ABANDON, [*self._abandoned])
            now = asyncio.get_running_loop().time()
            self._abandoned = {id: end for id, end in self._abandoned.items() if end > now}

    async def _is_steady(self) -> bool:
        """Whether all gateways could renew their leases: the database was away neither for this
        process, nor for all of them before this one was started."""
        reachable_s = (await self._connections.fetch_row(_REACHABLE, self._lease_now(), _GAP_S))[0]
        failed_at = self._connections.failed_at
        now = asyncio.get_running_loop().time()
        is_known = failed_at is None or now >= failed_at + self._grace_s
        return is_known and bool(reachable_s >= self._grace_s)

    async def _claim(
        self, key: tuple[str, str | None], holder: str, query: str, values: tuple[Any, ...]
    ) -> list[ClaimedRun]:
        """Claim runs. If it is not known whether an earlier claim was written, its runs are
        returned first: no other process will run them."""
        async with self._claiming:
            is_known = key not in self._claims
            claim = self._claims.setdefault(key, uuid4().hex)

            async def work(connection: Any, is_repeated: bool) -> list[ClaimedRun]:
                if is_repeated or not is_known:
                    rows = await connection.fetch(_CLAIMED, holder, claim)
                    if rows:
                        return [_claimed_run(row, holder, row["token"])[0] for row in rows]
                async with connection.transaction():
                    return await self._take(connection, query, values, holder, claim)

            claimed = await self._connections.run(work)
            del self._claims[key]
            return claimed

    async def _take(
        self, connection: Any, query: str, values: tuple[Any, ...], holder: str, claim: str
    ) -> list[ClaimedRun]:
        rows = await connection.fetch(query, *values)
        found = [_claimed_run(row, holder, row["token"] + 1) for row in rows]
        taken = [
            (row["turn"], holder, claim, self._body(run.turn) if is_changed else None)
            for row, (run, is_changed) in zip(rows, found, strict=True)
        ]
        if taken:
            await connection.executemany(_TAKE, taken)
            if query is _NEXT:
                await connection.execute(_SERVE, [row["turn"] for row in rows])
        return [run for run, _ in found]

    def _body(self, turn: Turn) -> bytes | None:
        try:
            return encode_turn(turn, self._limits)
        except StoreRefused:  # too large by the length of the word: it stays as it was
            return None


def _claimed_run(row: Any, holder: str, token: int) -> tuple[ClaimedRun, bool]:
    """Return a run as its new holder gets it, and whether its turn must be changed."""
    turn = decode_turn(row["body"], row["expires_at"])
    is_queued = turn.status == "queued"
    if is_queued:
        turn = with_status(turn, "in_progress")
    start = RunStart(
        holder=holder,
        is_background=row["is_background"],
        is_streamed=row["is_streamed"],
        request=row["request"],
    )
    run = ClaimedRun(turn, start, token, row["last_seq"], row["is_cancel_requested"])
    return run, is_queued
