"""SQLite store of turns: write-ahead log, full durability, no disk access on the event loop.

In a file, one thread writes, in batches; a few others read, each with its own connection. In memory
(`memory://`), everything runs on the event loop. A chain of any length is one query, and an item is
found by an index.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Collection, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from antiphon.core.items import Document
from antiphon.store.call_states import CallStates
from antiphon.store.chain import check_finished, decode_chain, max_links, measure_chain
from antiphon.store.item_references import ItemCollector, OutputCollector
from antiphon.store.sqlite.access import Bodies, FileAccess, SQLiteAccess, decompress
from antiphon.store.sqlite.call_states import SQLiteCallStates
from antiphon.store.sqlite.conversations import FIND_CONVERSATION_ITEM, SQLiteConversations
from antiphon.store.sqlite.file import WatchedConnection, connect, snapshot
from antiphon.store.sqlite.lock import disable_waiting
from antiphon.store.sqlite.memory import MemoryAccess, MemoryRetention, bound_limits
from antiphon.store.sqlite.retention import Retention
from antiphon.store.sqlite.runs import SQLiteRuns
from antiphon.store.sqlite.schema import FOUND, SCHEMA, SIZE, searchable_id
from antiphon.store.sqlite.writer import BatchWriter, Job, MakeWriter
from antiphon.store.turn import (
    Clock,
    ExactClock,
    ItemLocation,
    StoreLimits,
    Turn,
    decode_turn,
    encode_turn,
    key_of_call,
    locate_items,
)
from antiphon.store.usage.sqlite import SQLiteUsageTable
from antiphon.store.usage.usage_table import UsageTable

_SAVE = """
    INSERT INTO turn (id, previous_response_id, expires_at, owner, body, size)
    VALUES (?, nullif(?, ''), ?, nullif(?, ''), ?, ?)
    ON CONFLICT (id) DO UPDATE SET previous_response_id = excluded.previous_response_id,
        expires_at = excluded.expires_at, owner = excluded.owner, body = excluded.body,
        size = excluded.size
"""  # Python's sqlite3 needs five times as long to bind None as an empty text.
_DELETE = f"DELETE FROM turn WHERE id = :id AND {FOUND}"
_UNLOCK = "UPDATE conversation SET locked_by = NULL, lock_holder = NULL WHERE locked_by = ?"
_LOAD = f"SELECT body, expires_at FROM turn WHERE id = :id AND {FOUND}"
# UNION drops duplicates, so a cycle terminates; `follow_chain` then reports it.
_CHAIN = f"""
    WITH RECURSIVE link (id, seq, parent, expires_at, size) AS (
        SELECT id, seq, previous_response_id, expires_at, {SIZE} FROM turn
        WHERE id = :id AND {FOUND}
        UNION
        SELECT turn.id, turn.seq, turn.previous_response_id, turn.expires_at,
            coalesce(turn.size, json_length(turn.body))
        FROM link JOIN turn ON turn.id = link.parent WHERE {FOUND}
        LIMIT :limit
    )
    SELECT id, seq, parent, expires_at, size FROM link
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


class _Link(NamedTuple):
    """A turn of a chain, without its body."""

    seq: int
    previous_response_id: str | None
    expires_at: int | None
    size: int


class SQLiteStore:
    """A `Store` in one SQLite file, which several processes may share, or in memory."""

    def __init__(
        self,
        path: Path | None,
        *,
        now: Clock,
        lease_now: ExactClock | None = None,
        limits: StoreLimits | None = None,
        make_writer: MakeWriter = BatchWriter,
    ) -> None:
        """Without a path, the store is in memory. `lease_now` is the clock of leases, `now` if it
        is missing."""
        limits = limits or StoreLimits()
        self._limits = limits if path is not None else bound_limits(limits)
        self._now = now
        self._retention: Retention
        self._access: SQLiteAccess
        if path is None:
            self._retention = MemoryRetention(now, bound_limits(limits))
            self._access = MemoryAccess(self._retention.purge)
        else:
            self._retention = Retention(now, limits)
            self._access = _open_file(path, self._retention.purge, make_writer)
        lease_now = lease_now or now
        self._conversations = SQLiteConversations(
            self._access,
            self._retention.evict_conversations,
            now=now,
            lease_now=lease_now,
            limits=self._limits,
        )
        self._runs = SQLiteRuns(
            self._access,
            self._save_job,
            self._conversations.add_job,
            now=now,
            lease_now=lease_now,
            limits=self._limits,
        )
        self.call_states: CallStates = SQLiteCallStates(self._access, now=now, limits=self._limits)
        self.usage: UsageTable = SQLiteUsageTable(self._access.write, self._access.read)

    @property
    def transactions(self) -> int:
        """Number of transactions committed for saves and deletions."""
        return self._access.transactions

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

    def save(self, turn: Turn, *, conversation_id: str | None = None) -> Coroutine[Any, Any, None]:
        save = self._save_job(turn)
        if conversation_id is None:
            return self._access.write(save)
        add = self._conversations.add_job(conversation_id, turn)

        def job(connection: sqlite3.Connection) -> None:
            save(connection)
            add(connection)

        return self._access.write(job)

    def _save_job(self, turn: Turn) -> Job[None]:
        """Return the job that encodes and saves a turn: turns that wait for the writer are not held
        twice, and a large one does not keep the event loop busy."""
        expires_at = self._limits.expiry_of(turn, self._now())
        parent_id = turn.previous_response_id or ""
        items = [
            (id, int(is_input), turn.id, position)  # Python's sqlite3 binds a bool like None
            for id, (is_input, position) in locate_items(turn).items()
        ]

        def job(connection: sqlite3.Connection) -> None:
            body = encode_turn(turn, self._limits)
            stored = self._access.compress(body)
            row = (turn.id, parent_id, expires_at, turn.client, stored, len(body))
            connection.execute(_SAVE, row)
            connection.executemany(_SAVE_ITEM, items)
            self._retention.evict_turns(connection)

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

    async def chain(
        self, response_id: str, *, client: str = "", truncate: bool = False
    ) -> list[Turn]:
        limits = self._limits
        now = self._now()
        key: dict[str, Any] = {"id": searchable_id(response_id), "client": client, "now": now}
        key["limit"] = max_links(limits)

        def job(connection: sqlite3.Connection) -> Bodies[int | None]:
            with snapshot(connection):
                links = {id: _Link(*rest) for id, *rest in connection.execute(_CHAIN, key)}
                kept = measure_chain(response_id, links.get, limits, truncate=truncate)
                return [(_read_body(connection, each), each.expires_at) for each in kept.values()]

        decode = partial(decode_chain, limits=limits, truncate=truncate)
        turns = await self._access.read_bodies(job, decode)
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
                for id in ids:
                    if id not in collector.items:
                        for (body,) in connection.execute(
                            FIND_CONVERSATION_ITEM, {"id": id, **key}
                        ):
                            collector.add_item(id, decompress(body))
            return collector.items

        return await self._access.read(job)

    async def load_outputs(
        self, call_ids: Collection[str], *, client: str = ""
    ) -> dict[str, list[Document]]:
        keys = {id: searchable_id(key_of_call(id)) for id in call_ids}
        owner = {"client": client, "now": self._now()}

        def job(connection: sqlite3.Connection) -> dict[str, list[Document]]:
            wanted: defaultdict[int, list[str]] = defaultdict(list)
            collector = OutputCollector()
            with snapshot(connection):
                for id, key in keys.items():
                    for seq, is_input, _ in connection.execute(FIND_ITEM, {"id": key, **owner}):
                        wanted[seq] += [] if is_input else [id]
                for seq, ids in wanted.items():
                    (body,) = connection.execute(_BODY, (seq,)).fetchone()
                    collector.add(decompress(body), ids)
            return collector.outputs

        return await self._access.read(job)

    def _renew(self, turns: list[Turn], now: int) -> None:
        """Extend the lifetime of a chain that is in use, at most once per half a lifetime."""
        expiry = self._limits.expiry(now)
        needs_renewal = self._limits.needs_renewal
        rows = [(expiry, turn.id) for turn in turns if needs_renewal(turn.expires_at, now)]
        if rows:
            self._access.post(lambda connection: connection.executemany(_RENEW, rows))


def _open_file(path: Path, maintain: Job[bool], make_writer: MakeWriter) -> FileAccess:
    file = WatchedConnection(
        path, lambda: disable_waiting(connect(path, SCHEMA, synchronous="FULL"))
    )
    return FileAccess(path, make_writer(path, file, maintain))


def _read_body(connection: sqlite3.Connection, link: _Link) -> bytes:
    (body,) = connection.execute(_BODY, (link.seq,)).fetchone()
    return decompress(body)
