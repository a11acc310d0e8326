"""Conversations in the SQLite store: tables `conversation` and `conversation_item`."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from antiphon.core.items import Document
from antiphon.store.conversation import (
    Conversation,
    ItemPage,
    count_page,
    duplicate_item,
    encode_items,
    encode_turn_items,
    page_size,
    unknown_after,
)
from antiphon.store.sqlite.access import SQLiteAccess, decompress
from antiphon.store.sqlite.file import snapshot
from antiphon.store.sqlite.schema import SIZE, searchable_id
from antiphon.store.sqlite.writer import Job
from antiphon.store.turn import Clock, ExactClock, StoreLimits, Turn

_FIND = """
    SELECT seq, id, owner, created_at, metadata, expires_at FROM conversation
    WHERE id = :id AND owner IN ('', :client) AND (expires_at IS NULL OR expires_at > :now)
"""
_CREATE = """
    INSERT INTO conversation (id, owner, created_at, expires_at, metadata) VALUES (?, ?, ?, ?, ?)
"""
_ADD_ITEM = """
    INSERT INTO conversation_item (conversation, id, body, size) VALUES (?, ?, ?, ?)
    ON CONFLICT (conversation, id) DO NOTHING
"""
_ITEM = "SELECT seq, body FROM conversation_item WHERE conversation = ? AND id = ?"
FIND_CONVERSATION_ITEM = """
    SELECT conversation_item.body FROM conversation_item
    JOIN conversation ON conversation.seq = conversation_item.conversation
    WHERE conversation_item.id = :id AND owner IN ('', :client)
        AND (expires_at IS NULL OR expires_at > :now)
    ORDER BY conversation_item.seq DESC LIMIT 1
"""
_LIST = f"""
    SELECT seq, {SIZE} FROM conversation_item
    WHERE conversation = :conversation AND seq {{}} :after ORDER BY seq {{}} LIMIT :limit
"""
_LIST_ASCENDING, _LIST_DESCENDING = _LIST.format(">", "ASC"), _LIST.format("<", "DESC")
_BODY = "SELECT body FROM conversation_item WHERE seq = ?"
_LAST = 1 << 62  # above every seq
_LOCKED_BY_OTHER = """
    SELECT 1 FROM conversation
    LEFT JOIN lease ON lease.holder = conversation.lock_holder
    LEFT JOIN turn ON turn.id = conversation.locked_by
    LEFT JOIN run ON run.turn = turn.seq
    WHERE conversation.seq = ? AND conversation.locked_by <> ?
        AND (lease.expires_at > ? OR run.status = 'queued')
"""
_LOCK = "UPDATE conversation SET locked_by = ?, lock_holder = ? WHERE seq = ?"
_UNLOCK = """
    UPDATE conversation SET locked_by = NULL, lock_holder = NULL WHERE id = ? AND locked_by = ?
"""
_RENEW = "UPDATE conversation SET expires_at = ? WHERE seq = ?"
_PURGE = """
    DELETE FROM conversation WHERE seq IN (
        SELECT seq FROM conversation WHERE expires_at <= ? ORDER BY expires_at LIMIT ?
    )
"""


class SQLiteConversations:
    """A `ConversationStore` in the file of a store."""

    def __init__(
        self,
        access: SQLiteAccess,
        evict: Job[None],
        *,
        now: Clock,
        lease_now: ExactClock,
        limits: StoreLimits,
    ) -> None:
        """`evict` deletes conversations that are over a limit."""
        self._access = access
        self._evict = evict
        self._now = now
        self._lease_now = lease_now
        self._limits = limits

    async def create(self, conversation: Conversation, items: Sequence[Document]) -> None:
        bodies = encode_items(items, self._limits)
        row = (
            conversation.id,
            conversation.client,
            conversation.created_at,
            self._limits.expiry(self._now()),
            msgspec.json.encode(conversation.metadata),
        )

        def job(connection: sqlite3.Connection) -> None:
            self._insert_items(connection, connection.execute(_CREATE, row).lastrowid, bodies)

        await self._access.write(job)

    async def load(self, conversation_id: str, *, client: str = "") -> Conversation | None:
        key = self._key(conversation_id, client)
        row = await self._access.read(lambda connection: connection.execute(_FIND, key).fetchone())
        return None if row is None else _read_row(row)

    async def update(
        self, conversation_id: str, metadata: Mapping[str, str], *, client: str = ""
    ) -> Conversation | None:
        key = self._key(conversation_id, client)
        body = msgspec.json.encode(metadata)

        def job(connection: sqlite3.Connection) -> Conversation | None:
            row = self._use(connection, key)
            if row is None:
                return None
            query = "UPDATE conversation SET metadata = ? WHERE seq = ?"
            connection.execute(query, (body, row[0]))
            return msgspec.structs.replace(_read_row(row), metadata=dict(metadata))

        return await self._access.write(job)

    async def delete(self, conversation_id: str, *, client: str = "") -> bool:
        key = self._key(conversation_id, client)

        def job(connection: sqlite3.Connection) -> bool:
            row = connection.execute(_FIND, key).fetchone()
            if row is None:
                return False
            connection.execute("DELETE FROM conversation WHERE seq = ?", (row[0],))
            return True

        return await self._access.write(job)

    async def append_items(
        self, conversation_id: str, items: Sequence[Document], *, client: str = ""
    ) -> Conversation | None:
        key = self._key(conversation_id, client)
        bodies = encode_items(items, self._limits)

        def job(connection: sqlite3.Connection) -> Conversation | None:
            row = connection.execute(_FIND, key).fetchone()
            if row is None:
                return None
            for id in bodies:
                if connection.execute(_ITEM, (row[0], id)).fetchone() is not None:
                    raise duplicate_item(id)
            self._use(connection, key)
            self._insert_items(connection, row[0], bodies)
            return _read_row(row)

        return await self._access.write(job)

    async def list_items(
        self,
        conversation_id: str,
        *,
        after: str | None = None,
        is_descending: bool = False,
        limit: int | None = None,
        client: str = "",
    ) -> ItemPage | None:
        key = self._key(conversation_id, client)
        max_rows = page_size(limit, self._limits) + 1
        query = _LIST_DESCENDING if is_descending else _LIST_ASCENDING

        def job(connection: sqlite3.Connection) -> ItemPage | None:
            with snapshot(connection):
                row = connection.execute(_FIND, key).fetchone()
                if row is None:
                    return None
                seq = _LAST if is_descending else -1
                if after is not None:
                    seq = _find_item(connection, row[0], after)
                values = {"conversation": row[0], "after": seq, "limit": max_rows}
                found = connection.execute(query, values).fetchall()
                count = count_page([size for _, size in found], limit, self._limits)
                bodies = [connection.execute(_BODY, row[:1]).fetchone() for row in found[:count]]
            return ItemPage([_decode(body) for (body,) in bodies], count < len(found))

        return await self._access.read(job)

    async def load_item(
        self, conversation_id: str, item_id: str, *, client: str = ""
    ) -> Document | None:
        key = self._key(conversation_id, client)
        id = searchable_id(item_id)

        def job(connection: sqlite3.Connection) -> Document | None:
            with snapshot(connection):
                row = connection.execute(_FIND, key).fetchone()
                found = row and connection.execute(_ITEM, (row[0], id)).fetchone()
                return _decode(found[1]) if found else None

        return await self._access.read(job)

    async def delete_item(
        self, conversation_id: str, item_id: str, *, client: str = ""
    ) -> Conversation | None:
        key = self._key(conversation_id, client)
        id = searchable_id(item_id)

        def job(connection: sqlite3.Connection) -> Conversation | None:
            row = connection.execute(_FIND, key).fetchone()
            found = row and connection.execute(_ITEM, (row[0], id)).fetchone()
            if not found:
                return None
            connection.execute("DELETE FROM conversation_item WHERE seq = ?", (found[0],))
            return _read_row(row)

        return await self._access.write(job)

    async def lock(
        self, conversation_id: str, response_id: str, holder: str, *, client: str = ""
    ) -> bool | None:
        key = self._key(conversation_id, client)
        lease_now = self._lease_now()

        def job(connection: sqlite3.Connection) -> bool | None:
            row = self._use(connection, key)
            if row is None:
                return None
            other = (row[0], response_id, lease_now)
            if connection.execute(_LOCKED_BY_OTHER, other).fetchone() is not None:
                return False
            connection.execute(_LOCK, (response_id, holder, row[0]))
            return True

        return await self._access.write(job)

    async def unlock(self, conversation_id: str, response_id: str) -> None:
        key = (searchable_id(conversation_id), response_id)
        await self._access.write(lambda connection: connection.execute(_UNLOCK, key).rowcount)

    async def add_turn(self, conversation_id: str, turn: Turn) -> None:
        await self._access.write(self.add_job(conversation_id, turn))

    def add_job(self, conversation_id: str, turn: Turn) -> Job[None]:
        """Return the job that appends a finished turn to a conversation, if that still exists, and
        unlocks it."""
        bodies = encode_turn_items(turn, self._limits)
        key = self._key(conversation_id, turn.client)

        def job(connection: sqlite3.Connection) -> None:
            row = self._use(connection, key)
            if row is not None:
                self._insert_items(connection, row[0], bodies)
                connection.execute(_UNLOCK, (key["id"], turn.id))

        return job

    def _insert_items(
        self,
        connection: sqlite3.Connection,
        conversation: int | None,
        bodies: Mapping[str, bytes],
    ) -> None:
        compress = self._access.compress
        rows = [(conversation, id, compress(body), len(body)) for id, body in bodies.items()]
        connection.executemany(_ADD_ITEM, rows)
        self._evict(connection)

    def _key(self, conversation_id: str, client: str) -> dict[str, Any]:
        return {"id": searchable_id(conversation_id), "client": client, "now": self._now()}

    def _use(
        self, connection: sqlite3.Connection, key: Mapping[str, Any]
    ) -> tuple[Any, ...] | None:
        """Return the row of a conversation; extends its lifetime when half of it is over."""
        row: tuple[Any, ...] | None = connection.execute(_FIND, key).fetchone()
        now = key["now"]
        if row is not None and self._limits.needs_renewal(row[5], now):
            connection.execute(_RENEW, (self._limits.expiry(now), row[0]))
        return row


def purge_conversations(connection: sqlite3.Connection, now: int, limit: int) -> bool:
    """Delete some expired conversations; True if there may be more."""
    return connection.execute(_PURGE, (now, limit)).rowcount == limit


def _find_item(connection: sqlite3.Connection, conversation: int, item_id: str) -> int:
    row = connection.execute(_ITEM, (conversation, searchable_id(item_id))).fetchone()
    if row is None:
        raise unknown_after(item_id)
    return int(row[0])


def _read_row(row: Sequence[Any]) -> Conversation:
    _, id, owner, created_at, metadata, _ = row
    return Conversation(
        id=id, created_at=created_at, metadata=msgspec.json.decode(metadata), client=owner
    )


def _decode(body: bytes) -> Document:
    item: Document = msgspec.json.decode(decompress(body))
    return item
