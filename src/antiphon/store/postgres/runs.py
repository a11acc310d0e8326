"""Runs and event logs in the PostgreSQL store: tables `run`, `event_batch` and `lease`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from antiphon.errors import StoreError, StoreUnavailable
from antiphon.store.postgres.batches import BatchedStatement
from antiphon.store.postgres.claims import RunClaims
from antiphon.store.postgres.connections import Connections
from antiphon.store.postgres.conversations import LeaseClock, PostgresConversations
from antiphon.store.postgres.retention import Retention
from antiphon.store.postgres.run_writer import RunWriter
from antiphon.store.postgres.text import decode_text, encode_text
from antiphon.store.postgres.wakeups import NotifiedWatch, Wakeups
from antiphon.store.run_log import (
    FIRST_TOKEN,
    PAGE_BATCHES,
    ClaimedRun,
    EventPage,
    LaterRuns,
    LoggedBatch,
    RenewedRuns,
    RunStart,
)
from antiphon.store.turn import Clock, StoreLimits, Turn, decode_turn

_RENEW = "SELECT cancelled, deleted FROM renew_lease($1, $2, $3, $4)"
# A beginning that was given up may be committed while the end of its response is written, which
# does not see it then.
_DELETE_BEGINNING = """
    DELETE FROM run USING turn WHERE turn.id = $1 AND run.turn = turn.seq
        AND run.token = $2 AND run.log_expires_at IS NULL
"""
_FOUND = """
    turn.id = $1 AND (turn.owner = $2 OR turn.owner IS NULL)
        AND (turn.expires_at IS NULL OR turn.expires_at > $3)
"""
_KEPT = "(run.log_expires_at IS NULL OR run.log_expires_at > $3)"
_EVENTS = f"""
    SELECT run.status, run.last_seq AS end_seq, batch.first_seq, batch.last_seq, batch.frames
    FROM turn JOIN run ON run.turn = turn.seq AND run.is_streamed AND {_KEPT}
    LEFT JOIN LATERAL (
        SELECT first_seq, last_seq, frames FROM event_batch
        WHERE event_batch.turn = turn.seq AND event_batch.last_seq > $4
        ORDER BY event_batch.last_seq LIMIT {PAGE_BATCHES}
    ) AS batch ON true
    WHERE {_FOUND} ORDER BY batch.last_seq
"""
_CANCEL = f"""
    WITH found AS (
        SELECT turn.body, run.turn, run.status
        FROM turn LEFT JOIN run ON run.turn = turn.seq AND {_KEPT} WHERE {_FOUND}
    ), flagged AS (
        UPDATE run SET is_cancel_requested = true FROM found
        WHERE run.turn = found.turn AND run.status IN ('queued', 'in_progress')
    )
    SELECT status, CASE WHEN status IS NULL THEN body END AS body FROM found
"""


class PostgresRuns:
    """A `RunStore` in the database of a store."""

    def __init__(
        self,
        connections: Connections,
        conversations: PostgresConversations,
        retention: Retention,
        *,
        now: Clock,
        lease_now: LeaseClock,
        limits: StoreLimits,
        grace_s: float,
    ) -> None:
        self._connections = connections
        self._retention = retention
        self._now = now
        self._lease_now = lease_now
        self._writer = RunWriter(connections, conversations, now=now, limits=limits)
        self._claims = RunClaims(connections, lease_now=lease_now, limits=limits, grace_s=grace_s)
        self._later = LaterRuns(self._begin_once)
        self._wakeups = Wakeups(connections.address)
        self._renew = BatchedStatement(connections, _RENEW)

    @property
    def transactions(self) -> int:
        """Number of transactions committed for turns and events."""
        return self._writer.transactions

    async def save(self, turn: Turn, conversation_id: str | None) -> None:
        """Save a turn that has no run."""
        await self._writer.save(self._writer.encode(turn, conversation_id))
        await self._evict()

    async def begin(self, turn: Turn, start: RunStart) -> int:
        """Begin a run. If the database is away for too long it must not be generated, and is
        deleted when the database is back, in case that it was written."""
        try:
            return await self._begin_once(turn, start)
        except StoreUnavailable:
            self._claims.abandon(turn.id)
            raise

    async def _begin_once(self, turn: Turn, start: RunStart) -> int:
        await self._writer.begin(turn, start)
        await self._evict()
        return FIRST_TOKEN

    def begin_later(self, turn: Turn, start: RunStart) -> None:
        self._later.add(turn, start)

    async def begin_now(self, response_id: str) -> None:
        """Write a run of `begin_later`, if it is one, without further delay."""
        await self._later.begin_now(response_id)

    async def claim(
        self, holder: str, limit: int, *, response_id: str | None = None
    ) -> list[ClaimedRun]:
        return await self._claims.claim(holder, limit, response_id=response_id)

    async def claim_expired(self, holder: str, limit: int) -> list[ClaimedRun]:
        return await self._claims.claim_expired(holder, limit)

    async def append(self, response_id: str, token: int, batches: Sequence[LoggedBatch]) -> None:
        await self._writer.append(response_id, token, batches)

    async def finish(
        self,
        turn: Turn,
        token: int,
        batches: Sequence[LoggedBatch] = (),
        *,
        conversation_id: str | None = None,
    ) -> None:
        encoded = self._writer.encode(turn, conversation_id)
        has_run = await self._later.end(turn.id)
        if has_run is False and conversation_id is None:
            await self._writer.save(encoded)
        else:
            await self._writer.finish(encoded, has_run, token, batches)
        if has_run is None:
            with suppress(StoreError):  # a process that finds the run sees the stored response
                await self._connections.fetch(_DELETE_BEGINNING, encode_text(turn.id), token)
        await self._evict()

    async def read_events(
        self, response_id: str, after: int, *, client: str = ""
    ) -> EventPage | None:
        rows = await self._connections.fetch(_EVENTS, *self._key(response_id, client), after)
        if not rows:
            return None
        batches = tuple(
            LoggedBatch(row["first_seq"], row["last_seq"], row["frames"])
            for row in rows
            if row["frames"] is not None
        )
        return EventPage(rows[0]["status"], rows[0]["end_seq"], batches)

    async def renew(self, holder: str, lease_s: float) -> RenewedRuns:
        row = await self._renew.run(holder, lease_s, self._lease_now())
        return RenewedRuns(
            tuple(decode_text(id) for id in row["cancelled"] or ()),
            tuple(decode_text(id) for id in row["deleted"] or ()),
        )

    def watch(self, response_id: str) -> NotifiedWatch:
        return self._wakeups.watch(response_id)

    async def request_cancel(self, response_id: str, *, client: str = "") -> str | None:
        row = await self._connections.fetch_row(_CANCEL, *self._key(response_id, client))
        if row is None:
            return None
        return str(row["status"] or decode_turn(row["body"], None).status)

    async def close(self) -> None:
        """Finish pending writes."""
        await self._later.close()
        await self._wakeups.close()
        await self._writer.close()
        await self._renew.close()

    async def _evict(self) -> None:
        if self._retention.has_limits:
            with suppress(StoreError):  # the turn is saved; the next one tries again
                await self._retention.evict()

    def _key(self, response_id: str, client: str) -> tuple[str, str, int]:
        return encode_text(response_id), encode_text(client), self._now()
