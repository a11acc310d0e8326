"""Runs and event logs in the PostgreSQL store: tables `run`, `event_batch` and `lease`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from uuid import uuid4

from antiphon.errors import StoreError, StoreRefused, StoreUnavailable
from antiphon.store.item_references import locate_items
from antiphon.store.postgres.batches import BatchedStatement
from antiphon.store.postgres.connections import Connections
from antiphon.store.postgres.conversations import LeaseClock, PostgresConversations
from antiphon.store.postgres.retention import Retention
from antiphon.store.postgres.text import decode_text, encode_optional_text, encode_text
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
    check_order,
    check_token,
    with_status,
)
from antiphon.store.turn import Clock, StoreLimits, Turn, decode_turn, encode_turn

GRACE_S = 3.0
"""How long after the database was away no run is taken over: its holder could not renew its lease,
and does so now."""
_GAP_S = 3.0
"""Silence of all gateways after which the database counts as having been away: each of them writes
every second."""
_MAX_UNCERTAIN = 10_000
_SPARE = 256
_ABANDONED_S = 60.0
"""How long a beginning that was given up may still be written by a server that was away."""

_SAVE = "SELECT save_turn($1, $2, $3, $4, $5, $6, $7, $8, $9)"
_BEGIN = "SELECT begin_run($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)"
_APPEND = "SELECT current, last_seq FROM append_events($1, $2, $3, $4, $5, $6)"
_FINISH = """
    SELECT current, last_seq FROM finish_run($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,
        $14, $15, $16, $17, $18, $19, $20, $21, $22)
"""
_CONVERSATION = 15  # index of the parameter of finish_run that names the conversation
_RENEW = "SELECT cancelled, deleted FROM renew_lease($1, $2, $3, $4)"
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
# A beginning that was given up may be committed while the end of its response is written, which
# does not see it then.
_DELETE_BEGINNING = """
    DELETE FROM run USING turn WHERE turn.id = $1 AND run.turn = turn.seq
        AND run.token = $2 AND run.log_expires_at IS NULL
"""
_REACHABLE = "SELECT note_reachability($1, $2)"
_TAKE = "SELECT take_run($1, $2, $3, $4)"
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


class TurnEncoder:
    """Encodes turns as the first eight parameters of `save_turn`, `begin_run` and `finish_run`."""

    def __init__(self, now: Clock, limits: StoreLimits) -> None:
        self._now = now
        self._limits = limits

    def encode(self, turn: Turn) -> tuple[Any, ...]:
        """Raises `StoreRefused` if a turn is too large or not encodable."""
        body = encode_turn(turn, self._limits)
        expires_at = self._limits.expiry_of(turn, self._now())
        items = locate_items(turn)
        return (
            encode_text(turn.id),
            encode_optional_text(turn.previous_response_id),
            expires_at,
            encode_text(turn.client) or None,
            body,
            [encode_text(id) for id in items],
            [location.is_input for location in items.values()],
            [location.position for location in items.values()],
        )


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
        self._grace_s = grace_s
        self._conversations = conversations
        self._retention = retention
        self._now = now
        self._lease_now = lease_now
        self._limits = limits
        self._encode = TurnEncoder(now, limits).encode
        self._later = LaterRuns(self._begin_once)
        self._wakeups = Wakeups(connections.address)
        self._save = BatchedStatement(connections, _SAVE)
        self._begin = BatchedStatement(connections, _BEGIN)
        self._append = BatchedStatement(connections, _APPEND)
        self._finish = BatchedStatement(connections, _FINISH, ordered_by=_CONVERSATION)
        self._renew = BatchedStatement(connections, _RENEW)
        self._uncertain: dict[str, None] = {}
        """Response ids whose last write may have been written although it failed."""
        self._abandoned: dict[str, float] = {}
        """Runs that may have begun although no reply arrived: until when they are looked for."""
        self._claims: dict[tuple[str, str | None], str] = {}
        """Ids of the claims that may have been written although they failed."""
        self._claiming = asyncio.Lock()

    @property
    def transactions(self) -> int:
        """Number of transactions committed for turns and events."""
        statements = (self._save, self._begin, self._append, self._finish)
        return sum(each.transactions for each in statements)

    async def save(self, turn: Turn, conversation_id: str | None) -> None:
        """Save a turn that has no run."""
        values = self._encode(turn)
        if conversation_id is None:
            await self._save.run(*values)
        else:
            added = _added(self._conversations, conversation_id, turn)
            await self._finish.run(*values, *self._end_values(turn, False, 0, ()), *added)
        await self._evict()

    async def begin(self, turn: Turn, start: RunStart) -> int:
        """Begin a run. If the database is away for too long it must not be generated, and is
        deleted when the database is back, in case that it was written."""
        try:
            return await self._begin_once(turn, start)
        except StoreUnavailable:
            now = asyncio.get_running_loop().time()
            self._abandoned[encode_text(turn.id)] = now + _ABANDONED_S
            raise

    async def _begin_once(self, turn: Turn, start: RunStart) -> int:
        await self._begin.run(
            *self._encode(turn),
            turn.status,
            start.holder,
            start.is_background,
            start.is_streamed,
            start.request,
        )
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

    async def append(self, response_id: str, token: int, batches: Sequence[LoggedBatch]) -> None:
        values = (encode_text(response_id), token, *_columns(batches))
        row = await self._write_log(self._append, response_id, values)
        check_token(response_id, token, row["current"])
        check_order(response_id, row["last_seq"], batches, self._connections.address.name)

    async def finish(
        self,
        turn: Turn,
        token: int,
        batches: Sequence[LoggedBatch] = (),
        *,
        conversation_id: str | None = None,
    ) -> None:
        values = self._encode(turn)
        added = _added(self._conversations, conversation_id, turn)
        has_run = await self._later.end(turn.id)
        if has_run is False and conversation_id is None:
            await self._save.run(*values)
            await self._evict()
            return
        values = (*values, *self._end_values(turn, has_run, token, batches), *added)
        row = await self._write_log(self._finish, turn.id, values)
        check_token(turn.id, token, row["current"])
        check_order(turn.id, row["last_seq"], batches, self._connections.address.name)
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
        for each in (self._save, self._begin, self._append, self._finish, self._renew):
            await each.close()

    async def _evict(self) -> None:
        if self._retention.has_limits:
            with suppress(StoreError):  # the turn is saved; the next one tries again
                await self._retention.evict()

    def _key(self, response_id: str, client: str) -> tuple[str, str, int]:
        return encode_text(response_id), encode_text(client), self._now()

    def _end_values(
        self, turn: Turn, has_run: bool | None, token: int, batches: Sequence[LoggedBatch]
    ) -> tuple[Any, ...]:
        log_expires_at = self._now() + self._limits.log_ttl_s
        return (has_run, token, *_columns(batches), turn.status, log_expires_at)

    async def _write_log(
        self, statement: BatchedStatement, response_id: str, values: tuple[Any, ...]
    ) -> Any:
        """Run a statement of a run; remembers whether the next one may find it written."""
        is_repeated = response_id in self._uncertain
        try:
            row = await statement.run(*values, is_repeated=is_repeated)
        except StoreUnavailable:
            self._uncertain[response_id] = None
            if len(self._uncertain) > _MAX_UNCERTAIN:
                del self._uncertain[next(iter(self._uncertain))]
            raise
        self._uncertain.pop(response_id, None)
        return row

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


def _columns(batches: Sequence[LoggedBatch]) -> tuple[list[int], list[int], list[bytes]]:
    return (
        [batch.first_seq for batch in batches],
        [batch.last_seq for batch in batches],
        [batch.frames for batch in batches],
    )


def _added(
    conversations: PostgresConversations, conversation_id: str | None, turn: Turn
) -> tuple[Any, ...]:
    """Return the parameters that add a turn to its conversation, if it has one."""
    if conversation_id is None:
        return (None, "", 0, None, [], [])
    id, client, now, expires_at, _, ids, bodies = conversations.turn_values(conversation_id, turn)
    return (id, client, now, expires_at, ids, bodies)
