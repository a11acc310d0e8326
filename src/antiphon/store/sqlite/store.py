"""SQLite store of turns: write-ahead log, full durability, no disk access on the event loop.

One thread writes, in batches; a few others read, each with its own connection. A chain of any
length is one query, and an item is found by an index.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path

from antiphon.store.chain import check_finished, follow_chain
from antiphon.store.item_references import ItemCollector, ItemLocation, locate_items
from antiphon.store.sqlite.access import SQLiteAccess, compress, decompress
from antiphon.store.sqlite.conversations import SQLiteConversations, purge_conversations
from antiphon.store.sqlite.file import WatchedConnection, connect, snapshot, vacuum
from antiphon.store.sqlite.lock import disable_waiting, enable_waiting
from antiphon.store.sqlite.runs import SQLiteRuns, purge_runs
from antiphon.store.sqlite.schema import FOUND, SCHEMA, searchable_id
from antiphon.store.sqlite.writer import BatchWriter, Job, MakeWriter
from antiphon.store.turn import Clock, ExactClock, StoreLimits, Turn, decode_turn, encode_turn
from antiphon.store.usage.sqlite import SQLiteUsageTable
from antiphon.wire.items import Document

PURGE_EVERY_S = 60
PURGE_TURNS = 500  # per transaction, so that no save waits long
VACUUM_PAGES = 1000

_SAVE = """
    INSERT INTO turn (id, previous_response_id, expires_at, owner, body) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET previous_response_id = excluded.previous_response_id,
        expires_at = excluded.expires_at, owner = excluded.owner, body = excluded.body
"""
_DELETE = f"DELETE FROM turn WHERE id = :id AND {FOUND}"
_UNLOCK = "UPDATE conversation SET locked_by = NULL, lock_holder = NULL WHERE locked_by = ?"
_LOAD = f"SELECT body, expires_at FROM turn WHERE id = :id AND {FOUND}"
# UNION drops duplicates, so a cycle terminates; `follow_chain` then reports it.
_CHAIN = f"""
    WITH RECURSIVE link (seq, parent) AS (
        SELECT seq, previous_response_id FROM turn WHERE id = :id AND {FOUND}
        UNION
        SELECT turn.seq, turn.previous_response_id
        FROM link JOIN turn ON turn.id = link.parent WHERE {FOUND}
        LIMIT :limit
    )
    SELECT turn.id, turn.body, turn.expires_at FROM link JOIN turn ON turn.seq = link.seq
"""
_SAVE_ITEM = """
    INSERT INTO item (id, is_input, turn, position)
    VALUES (?, ?, (SELECT seq FROM turn WHERE id = ?), ?)
"""
FIND_ITEM = f"""
    SELECT turn.seq, item.is_input, item.position FROM item JOIN turn ON turn.seq = item.turn
    WHERE item.id = :id AND {FOUND}
        AND (turn.owner IS NOT NULL OR turn.client IN ('', :client) OR NOT item.is_input)
    ORDER BY item.is_input, item.turn DESC LIMIT 1
"""
_BODY = "SELECT body FROM turn WHERE seq = ?"
_WRITE_SOMETHING = "UPDATE total SET turns = turns + ?"
_RENEW = "UPDATE turn SET expires_at = ? WHERE id = ?"
_OLDEST = "SELECT seq, length(body) FROM turn ORDER BY seq LIMIT ?"
_PURGE = """
    DELETE FROM turn WHERE seq IN (
        SELECT seq FROM turn WHERE expires_at <= ? ORDER BY expires_at LIMIT ?
    )
"""


class SQLiteStore:
    """A `Store` in one SQLite file, which several processes may share."""

    def __init__(
        self,
        path: Path,
        *,
        now: Clock,
        lease_now: ExactClock | None = None,
        limits: StoreLimits | None = None,
        make_writer: MakeWriter = BatchWriter,
    ) -> None:
        """`lease_now` is the clock of leases, `now` if it is missing."""
        self._limits = limits or StoreLimits()
        self._now = now
        self._purged_at: int | None = None
        file = WatchedConnection(
            path, lambda: disable_waiting(connect(path, SCHEMA, synchronous="FULL"))
        )
        self._access = access = SQLiteAccess(path, make_writer(path, file, self._purge))
        lease_now = lease_now or now
        self._conversations = SQLiteConversations(
            access, now=now, lease_now=lease_now, limits=self._limits
        )
        self._runs = SQLiteRuns(
            access,
            self._save_job,
            self._conversations.add_job,
            now=now,
            lease_now=lease_now,
            limits=self._limits,
        )
        self.usage = SQLiteUsageTable(access.write, access.read)

    @property
    def transactions(self) -> int:
        """Number of transactions committed for saves and deletions."""
        return self._access.writer.transactions

    @property
    def name(self) -> str:
        return self._access.path.name

    @property
    def runs(self) -> SQLiteRuns:
        return self._runs

    @property
    def conversations(self) -> SQLiteConversations:
        return self._conversations

    async def open(self) -> None:
        await self._access.open()

    async def close(self) -> None:
        await self._runs.close()
        await self._access.close()

    async def save(self, turn: Turn, *, conversation_id: str | None = None) -> None:
        save = self._save_job(turn)
        if conversation_id is None:
            return await self._access.write(save)
        add = self._conversations.add_job(conversation_id, turn)

        def job(connection: sqlite3.Connection) -> None:
            save(connection)
            add(connection)

        return await self._access.write(job)

    def _save_job(self, turn: Turn) -> Job[None]:
        """Encode a turn, and return the job that saves it."""
        body = encode_turn(turn, self._limits)
        expires_at = turn.expires_at
        if expires_at is None:
            expires_at = self._limits.expiry(self._now())
        owner = turn.client or None
        items = [
            (id, location.is_input, turn.id, location.position)
            for id, location in locate_items(turn).items()
        ]

        def job(connection: sqlite3.Connection) -> None:
            row = (turn.id, turn.previous_response_id, expires_at, owner, compress(body))
            connection.execute(_SAVE, row)
            connection.executemany(_SAVE_ITEM, items)
            _evict(connection, self._limits)

        return job

    async def check(self) -> None:
        # Only a write shows that the disk is neither full nor read-only.
        changes = [(1,), (-1,)]
        await self._access.write(
            lambda connection: connection.executemany(_WRITE_SOMETHING, changes)
        )

    async def load(self, response_id: str, *, client: str = "") -> Turn | None:
        key = {"id": searchable_id(response_id), "client": client, "now": self._now()}

        def job(connection: sqlite3.Connection) -> Turn | None:
            row = connection.execute(_LOAD, key).fetchone()
            return None if row is None else decode_turn(decompress(row[0]), row[1])

        return await self._access.read(job)

    async def delete(self, response_id: str, *, client: str = "") -> bool:
        await self._runs.begin_now(response_id)  # so that its end is refused
        key = {"id": searchable_id(response_id), "client": client, "now": self._now()}

        def job(connection: sqlite3.Connection) -> bool:
            is_deleted = connection.execute(_DELETE, key).rowcount > 0
            if is_deleted:
                connection.execute(_UNLOCK, (key["id"],))
            return is_deleted

        return await self._access.write(job)

    async def chain(self, response_id: str, *, client: str = "") -> list[Turn]:
        limit, now = self._limits.max_chain, self._now()
        max_rows = -1 if limit is None else limit
        key = {"id": searchable_id(response_id), "client": client, "now": now, "limit": max_rows}

        def job(connection: sqlite3.Connection) -> list[Turn]:
            turns = {
                id: decode_turn(decompress(body), expires_at)
                for id, body, expires_at in connection.execute(_CHAIN, key)
            }
            return list(follow_chain(response_id, turns.get, limit).values())

        turns = await self._access.read(job)
        self._renew(turns, now)
        check_finished(turns)
        return turns

    async def load_items(
        self, item_ids: Collection[str], *, client: str = ""
    ) -> dict[str, Document]:
        ids = [searchable_id(item_id) for item_id in item_ids]
        key = {"client": client, "now": self._now()}

        def job(connection: sqlite3.Connection) -> dict[str, Document]:
            wanted: defaultdict[int, dict[str, ItemLocation]] = defaultdict(dict)
            collector = ItemCollector()
            with snapshot(connection):
                for id in ids:
                    for seq, *location in connection.execute(FIND_ITEM, {"id": id, **key}):
                        wanted[seq][id] = ItemLocation(*location)
                for seq, locations in wanted.items():
                    (body,) = connection.execute(_BODY, (seq,)).fetchone()
                    collector.add(decompress(body), locations)
            return collector.items

        return await self._access.read(job)

    def _renew(self, turns: list[Turn], now: int) -> None:
        """Extend the lifetime of a chain that is in use, at most once per half a lifetime."""
        expiry = self._limits.expiry(now)
        needs_renewal = self._limits.needs_renewal
        rows = [(expiry, turn.id) for turn in turns if needs_renewal(turn.expires_at, now)]
        if rows:
            self._access.post(lambda connection: connection.executemany(_RENEW, rows))

    # --- in the writer thread ---------------------------------------------------------------------

    def _purge(self, connection: sqlite3.Connection) -> bool:
        """Delete some expired turns, once a minute; True if there may be more."""
        now = self._now()
        if self._purged_at is not None and now - self._purged_at < PURGE_EVERY_S:
            return False
        with enable_waiting(connection):
            for purge in (purge_turns, purge_runs, purge_conversations):
                if purge(connection, now, PURGE_TURNS):
                    return True
            self._purged_at = now
            vacuum(connection, VACUUM_PAGES)
        return False


def purge_turns(connection: sqlite3.Connection, now: int, limit: int) -> bool:
    """Delete some expired turns; True if there may be more."""
    return connection.execute(_PURGE, (now, limit)).rowcount == limit


def _evict(connection: sqlite3.Connection, limits: StoreLimits) -> None:
    """Delete the oldest turns while a limit is exceeded, a bounded number at a time."""
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
        last, over_turns, over_bytes = seq, over_turns - 1, over_bytes - freed
    connection.execute("DELETE FROM turn WHERE seq <= ?", (last,))
