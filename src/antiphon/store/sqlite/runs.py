"""Runs and event logs in the SQLite store: tables `run`, `event_batch`, `lease`, `deleted_run`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from antiphon.errors import StoreRefused
from antiphon.store.run_log import (
    BEFORE_FIRST,
    FIRST_TOKEN,
    LATER_S,
    PAGE_BATCHES,
    UNFINISHED,
    ClaimedRun,
    EventPage,
    LaterRuns,
    LoggedBatch,
    PollWatch,
    RenewedRuns,
    RunStart,
    check_order,
    check_token,
    with_status,
)
from antiphon.store.sqlite.access import SQLiteAccess, decompress
from antiphon.store.sqlite.file import snapshot
from antiphon.store.sqlite.schema import FOUND, searchable_id
from antiphon.store.sqlite.writer import Job
from antiphon.store.turn import Clock, ExactClock, StoreLimits, Turn, decode_turn

_FORGET_LEASE_S = 3600  # a lease that expired so long ago is deleted

_BEGIN = """
    INSERT INTO run
        (turn, status, holder, token, last_seq, is_background, is_streamed, request)
    VALUES ((SELECT seq FROM turn WHERE id = ?), ?, ?, ?, ?, ?, ?, ?)
"""
_CLAIMABLE = """
    SELECT run.turn, turn.body, turn.expires_at, run.token, run.last_seq, run.is_cancel_requested,
        run.is_background, run.is_streamed, run.request
    FROM run JOIN turn ON turn.seq = run.turn
"""
_QUEUED = f"{_CLAIMABLE} WHERE run.status = 'queued' AND run.holder IS NULL AND turn.id = ?"
# The first of each client before the second of any; what a client has running counts as before.
# Of several clients, the one that was served longest ago comes first.
_NEXT = f"""
    WITH busy AS (
        SELECT owner, count(*) AS runs FROM run
        WHERE holder IS NOT NULL AND is_background = 1 GROUP BY owner
    ), next AS (
        SELECT run.turn AS turn, coalesce(served.number, 0) AS served, coalesce(busy.runs, 0)
            + row_number() OVER (PARTITION BY run.owner ORDER BY run.turn) AS place
        FROM run LEFT JOIN busy ON busy.owner IS run.owner
            LEFT JOIN served_client AS served ON served.owner = coalesce(run.owner, '')
        WHERE run.status = 'queued' AND run.holder IS NULL
        ORDER BY place, served, run.turn LIMIT ?
    )
    {_CLAIMABLE} JOIN next ON next.turn = run.turn ORDER BY next.place, next.served, run.turn
"""
_SERVE = """
    INSERT INTO served_client (owner, number)
    SELECT coalesce(owner, ''), (SELECT coalesce(max(number), 0) + 1 FROM served_client)
    FROM run WHERE turn = ?
    ON CONFLICT (owner) DO UPDATE SET number = excluded.number
"""
_EXPIRED = f"""
    {_CLAIMABLE} LEFT JOIN lease ON lease.holder = run.holder
    WHERE run.holder IS NOT NULL AND (lease.holder IS NULL OR lease.expires_at <= :now)
    ORDER BY run.turn LIMIT :limit
"""
_TAKE = "UPDATE run SET status = ?, holder = ?, token = ? WHERE turn = ?"
_TAKE_LOCK = "UPDATE conversation SET lock_holder = ? WHERE locked_by = ?"
_RUN = """
    SELECT run.turn, run.token, run.last_seq, run.is_streamed
    FROM run JOIN turn ON turn.seq = run.turn WHERE turn.id = ?
"""
_APPEND = "INSERT INTO event_batch (turn, first_seq, last_seq, frames) VALUES (?, ?, ?, ?)"
_SET_LAST = "UPDATE run SET last_seq = ? WHERE turn = ?"
_END = """
    UPDATE run SET status = ?, holder = NULL, token = token + 1, request = x'', log_expires_at = ?
    WHERE turn = ?
"""
_STATUS = f"""
    SELECT turn.body, run.turn, run.status, run.last_seq, run.is_streamed
    FROM turn LEFT JOIN run ON run.turn = turn.seq
        AND (run.log_expires_at IS NULL OR run.log_expires_at > :now)
    WHERE turn.id = :id AND {FOUND}
"""
_EVENTS = """
    SELECT first_seq, last_seq, frames FROM event_batch
    WHERE turn = ? AND last_seq > ? ORDER BY last_seq LIMIT ?
"""
_RENEW = """
    INSERT INTO lease (holder, expires_at) VALUES (?, ?)
    ON CONFLICT (holder) DO UPDATE SET expires_at = excluded.expires_at
"""
_CANCELLED = """
    SELECT turn.id FROM run JOIN turn ON turn.seq = run.turn
    WHERE run.holder = ? AND run.is_cancel_requested = 1 ORDER BY run.turn
"""
_PURGE_LOGS = """
    DELETE FROM run WHERE turn IN (
        SELECT turn FROM run WHERE log_expires_at <= ? ORDER BY log_expires_at LIMIT ?
    )
"""
_PURGE_LEASES = "DELETE FROM lease WHERE expires_at <= ?"
_PURGE_DELETED = "DELETE FROM deleted_run WHERE holder NOT IN (SELECT holder FROM lease)"


class _ClaimableRow(NamedTuple):
    turn: int
    body: bytes
    expires_at: int | None
    token: int
    last_seq: int
    is_cancel_requested: int
    is_background: int
    is_streamed: int
    request: bytes


class _CurrentRun(NamedTuple):
    turn: int
    keeps_log: bool


class SQLiteRuns:
    """A `RunStore` in the file of a store. `save_job` makes the job that saves a turn, `add_job`
    the one that adds it to a conversation."""

    def __init__(
        self,
        access: SQLiteAccess,
        save_job: Callable[[Turn], Job[None]],
        add_job: Callable[[str, Turn], Job[None]],
        *,
        now: Clock,
        lease_now: ExactClock,
        limits: StoreLimits,
        later_s: float = LATER_S,
    ) -> None:
        self._access = access
        self._save_job = save_job
        self._add_job = add_job
        self._now = now
        self._lease_now = lease_now
        self._limits = limits
        self._later = LaterRuns(self.begin, later_s)

    async def begin(self, turn: Turn, start: RunStart) -> int:
        save = self._save_job(turn)
        row = (
            turn.id,
            turn.status,
            start.holder,
            FIRST_TOKEN,
            BEFORE_FIRST,
            start.is_background,
            start.is_streamed,
            start.request,
        )

        def job(connection: sqlite3.Connection) -> None:
            save(connection)
            connection.execute(_BEGIN, row)
            if start.holder is not None:
                connection.execute(_TAKE_LOCK, (start.holder, turn.id))

        await self._access.write(job)
        return FIRST_TOKEN

    def begin_later(self, turn: Turn, start: RunStart) -> None:
        self._later.add(turn, start)

    async def begin_now(self, response_id: str) -> None:
        """Write a run of `begin_later`, if it is one, without further delay."""
        await self._later.begin_now(response_id)

    async def claim(
        self, holder: str, limit: int, *, response_id: str | None = None
    ) -> list[ClaimedRun]:
        def job(connection: sqlite3.Connection) -> list[ClaimedRun]:
            if response_id is None:
                rows = connection.execute(_NEXT, (limit,)).fetchall()
                connection.executemany(_SERVE, [(_ClaimableRow(*row).turn,) for row in rows])
            else:
                rows = connection.execute(_QUEUED, (searchable_id(response_id),)).fetchall()
            return [self._take(connection, row, holder) for row in rows]

        return await self._access.write(job)

    async def claim_expired(self, holder: str, limit: int) -> list[ClaimedRun]:
        key = {"now": self._lease_now(), "limit": limit}

        def job(connection: sqlite3.Connection) -> list[ClaimedRun]:
            rows = connection.execute(_EXPIRED, key).fetchall()
            return [self._take(connection, row, holder) for row in rows]

        return await self._access.write(job)

    async def append(self, response_id: str, token: int, batches: Sequence[LoggedBatch]) -> None:
        def job(connection: sqlite3.Connection) -> None:
            run = self._require(connection, response_id, token, batches)
            _insert_batches(connection, run.turn, batches)

        await self._access.write(job)

    async def finish(
        self,
        turn: Turn,
        token: int,
        batches: Sequence[LoggedBatch] = (),
        *,
        conversation_id: str | None = None,
    ) -> None:
        save = self._save_job(turn)
        add = None if conversation_id is None else self._add_job(conversation_id, turn)
        has_run = await self._later.end(turn.id)
        log_expires_at = self._now() + self._limits.log_ttl_s

        def job(connection: sqlite3.Connection) -> None:
            run = self._require(connection, turn.id, token, batches) if has_run else None
            save(connection)  # before anything else is written: it may refuse
            if run is not None and _is_stored(connection, run.turn):  # else evicted for its size
                _insert_batches(connection, run.turn, batches)
                if run.keeps_log:
                    connection.execute(_END, (turn.status, log_expires_at, run.turn))
                else:
                    connection.execute("DELETE FROM run WHERE turn = ?", (run.turn,))
            if add is not None:
                add(connection)

        await self._access.write(job)

    async def read_events(
        self, response_id: str, after: int, *, client: str = ""
    ) -> EventPage | None:
        key = {"id": searchable_id(response_id), "client": client, "now": self._now()}

        def job(connection: sqlite3.Connection) -> EventPage | None:
            with snapshot(connection):
                row = connection.execute(_STATUS, key).fetchone()
                if row is None or not row[4]:
                    return None
                _, turn, status, last_seq, _ = row
                found = connection.execute(_EVENTS, (turn, after, PAGE_BATCHES)).fetchall()
            return EventPage(status, last_seq, tuple(LoggedBatch(*batch) for batch in found))

        return await self._access.read(job)

    async def renew(self, holder: str, lease_s: float) -> RenewedRuns:
        expires_at = self._lease_now() + lease_s

        def job(connection: sqlite3.Connection) -> RenewedRuns:
            connection.execute(_RENEW, (holder, expires_at))
            cancelled = connection.execute(_CANCELLED, (holder,)).fetchall()
            query = "SELECT response_id FROM deleted_run WHERE holder = ?"
            deleted = connection.execute(query, (holder,)).fetchall()
            if deleted:
                connection.execute("DELETE FROM deleted_run WHERE holder = ?", (holder,))
            return RenewedRuns(tuple(id for (id,) in cancelled), tuple(id for (id,) in deleted))

        return await self._access.write(job)

    async def request_cancel(self, response_id: str, *, client: str = "") -> str | None:
        key = {"id": searchable_id(response_id), "client": client, "now": self._now()}

        def job(connection: sqlite3.Connection) -> str | None:
            row = connection.execute(_STATUS, key).fetchone()
            if row is None:
                return None
            body, turn, status, *_ = row
            if status in UNFINISHED:
                set_flag = "UPDATE run SET is_cancel_requested = 1 WHERE turn = ?"
                connection.execute(set_flag, (turn,))
            return str(status or decode_turn(decompress(body), None).status)

        return await self._access.write(job)

    def watch(self, response_id: str) -> PollWatch:
        return PollWatch()

    async def close(self) -> None:
        await self._later.close()

    # --- in the threads ---------------------------------------------------------------------------

    def _take(self, connection: sqlite3.Connection, row: Sequence[Any], holder: str) -> ClaimedRun:
        run = _ClaimableRow(*row)
        turn = decode_turn(decompress(run.body), run.expires_at)
        token = run.token + 1
        if turn.status == "queued":
            turn = self._save_in_progress(connection, turn)
        connection.execute(_TAKE, ("in_progress", holder, token, run.turn))
        connection.execute(_TAKE_LOCK, (holder, turn.id))
        start = RunStart(
            holder=holder,
            is_background=bool(run.is_background),
            is_streamed=bool(run.is_streamed),
            request=run.request,
        )
        return ClaimedRun(turn, start, token, run.last_seq, bool(run.is_cancel_requested))

    def _save_in_progress(self, connection: sqlite3.Connection, turn: Turn) -> Turn:
        turn = with_status(turn, "in_progress")
        with suppress(StoreRefused):  # too large by the length of the word: it stays as it was
            self._save_job(turn)(connection)
        return turn

    def _require(
        self,
        connection: sqlite3.Connection,
        response_id: str,
        token: int,
        batches: Sequence[LoggedBatch],
    ) -> _CurrentRun:
        """Return a run; raises if the token is old, or the batches do not follow its log."""
        row = connection.execute(_RUN, (searchable_id(response_id),)).fetchone()
        check_token(response_id, token, None if row is None else row[1])
        turn, _, last_seq, is_streamed = row
        last_seq = check_order(response_id, last_seq, batches, self._access.path)
        return _CurrentRun(turn, keeps_log=bool(is_streamed) and last_seq > BEFORE_FIRST)


def _is_stored(connection: sqlite3.Connection, turn: int) -> bool:
    query = "SELECT 1 FROM run WHERE turn = ?"
    return connection.execute(query, (turn,)).fetchone() is not None


def _insert_batches(
    connection: sqlite3.Connection, turn: int, batches: Sequence[LoggedBatch]
) -> None:
    if batches:
        connection.executemany(_APPEND, [(turn, *batch) for batch in batches])
        connection.execute(_SET_LAST, (batches[-1].last_seq, turn))


def purge_runs(connection: sqlite3.Connection, now: int, limit: int) -> bool:
    """Delete some logs that are kept no longer, and old leases; True if there may be more."""
    connection.execute(_PURGE_LEASES, (now - _FORGET_LEASE_S,))
    connection.execute(_PURGE_DELETED)
    return connection.execute(_PURGE_LOGS, (now, limit)).rowcount == limit
