"""Conversations in the PostgreSQL store: tables `conversation` and `conversation_item`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

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
from antiphon.store.decode_thread import DecodeThread
from antiphon.store.postgres.batches import BatchedStatement
from antiphon.store.postgres.connections import Connections
from antiphon.store.postgres.text import encode_text
from antiphon.store.turn import Clock, StoreLimits, Turn

LeaseClock: TypeAlias = Callable[[], float | None]
"""Returns the time of leases; None is the time of the database, the same for all gateways."""

_CREATE = "SELECT create_conversation($1, $2, $3, $4, $5, $6, $7, $8)"
_UPDATE = "SELECT * FROM update_conversation($1, $2, $3, $4, $5, $6)"
_APPEND = "SELECT * FROM append_items($1, $2, $3, $4, $5, $6, $7)"
_ADD_TURN = "SELECT add_turn($1, $2, $3, $4, $5, $6, $7, $8)"
_LOCK = "SELECT lock_conversation($1, $2, $3, $4, $5, $6, $7, $8) AS is_locked"
_FOUND = """
    conversation.id = $1 AND conversation.owner IN ('', $2)
        AND (conversation.expires_at IS NULL OR conversation.expires_at > $3)
"""
_LOAD = f"SELECT owner, created_at, metadata FROM conversation WHERE {_FOUND}"
_DELETE = f"DELETE FROM conversation WHERE {_FOUND} RETURNING id"
_ITEM = f"""
    SELECT item.body FROM conversation JOIN conversation_item AS item
        ON item.conversation = conversation.seq AND item.id = $4 WHERE {_FOUND}
"""
_DELETE_ITEM = f"""
    DELETE FROM conversation_item AS item USING conversation
    WHERE {_FOUND} AND item.conversation = conversation.seq AND item.id = $4
    RETURNING conversation.owner, conversation.created_at, conversation.metadata
"""
# `after_seq` is NULL if the item after which the list begins is not in the conversation.
_LIST = f"""
    WITH found AS (
        SELECT conversation.seq, CASE WHEN $4::text IS NULL THEN {{start}} ELSE (
            SELECT item.seq FROM conversation_item AS item
            WHERE item.conversation = conversation.seq AND item.id = $4
        ) END AS after_seq
        FROM conversation WHERE {_FOUND}
    )
    SELECT found.after_seq, item.size, CASE WHEN {{fits}} THEN item.body END AS body
    FROM found LEFT JOIN LATERAL (
        SELECT seq, body, octet_length(body) AS size, sum(octet_length(body)) OVER () AS whole,
            sum(octet_length(body)) OVER (ORDER BY seq {{order}}) AS total,
            row_number() OVER (ORDER BY seq {{order}}) AS place
        FROM (
            SELECT seq, body FROM conversation_item
            WHERE conversation = found.seq AND conversation_item.seq {{relation}} found.after_seq
            ORDER BY conversation_item.seq {{order}} LIMIT $5
        ) AS listed
    ) AS item ON true ORDER BY item.seq {{order}}
"""
_PART = "item.total <= $6 OR item.place = 1"
_ASCENDING = {"start": -1, "relation": ">", "order": "ASC"}
_LIST_ALL = _LIST.format(**_ASCENDING, fits="item.whole <= $6")
_LIST_ASCENDING = _LIST.format(**_ASCENDING, fits=_PART)
_LIST_DESCENDING = _LIST.format(start=1 << 62, relation="<", order="DESC", fits=_PART)
_UNLOCK = """
    UPDATE conversation SET locked_by = NULL, lock_holder = NULL WHERE id = $1 AND locked_by = $2
"""


class PostgresConversations:
    """A `ConversationStore` in the database of a store."""

    def __init__(
        self,
        connections: Connections,
        decoding: DecodeThread,
        *,
        now: Clock,
        lease_now: LeaseClock,
        limits: StoreLimits,
    ) -> None:
        self._connections = connections
        self._decoding = decoding
        self._now = now
        self._lease_now = lease_now
        self._limits = limits
        self._create = BatchedStatement(connections, _CREATE)
        self._update = BatchedStatement(connections, _UPDATE, ordered_by=0)
        self._append = BatchedStatement(connections, _APPEND, ordered_by=0)
        self._add_turn = BatchedStatement(connections, _ADD_TURN, ordered_by=0)
        self._lock = BatchedStatement(connections, _LOCK, ordered_by=0)

    async def create(self, conversation: Conversation, items: Sequence[Document]) -> None:
        bodies = encode_items(items, self._limits)
        await self._create.run(
            encode_text(conversation.id),
            encode_text(conversation.client),
            conversation.created_at,
            self._limits.expiry(self._now()),
            msgspec.json.encode(conversation.metadata),
            *_columns(bodies),
        )

    async def load(self, conversation_id: str, *, client: str = "") -> Conversation | None:
        row = await self._connections.fetch_row(_LOAD, *self._key(conversation_id, client))
        return _read_row(row, conversation_id, client)

    async def update(
        self, conversation_id: str, metadata: Mapping[str, str], *, client: str = ""
    ) -> Conversation | None:
        body = msgspec.json.encode(metadata)
        row = await self._update.run(*self._use_key(conversation_id, client), body)
        return _read_row(row, conversation_id, client)

    async def delete(self, conversation_id: str, *, client: str = "") -> bool:
        key = self._key(conversation_id, client)

        async def work(connection: Any, is_repeated: bool) -> bool:
            return bool(await connection.fetch(_DELETE, *key)) or is_repeated

        return await self._connections.run(work)

    async def append_items(
        self, conversation_id: str, items: Sequence[Document], *, client: str = ""
    ) -> Conversation | None:
        bodies = encode_items(items, self._limits)
        row = await self._append.run(*self._use_key(conversation_id, client), *_columns(bodies))
        if row["duplicate"] is not None:
            raise duplicate_item(next(id for id in bodies if encode_text(id) == row["duplicate"]))
        return _read_row(row, conversation_id, client)

    async def list_items(
        self,
        conversation_id: str,
        *,
        after: str | None = None,
        is_descending: bool = False,
        limit: int | None = None,
        client: str = "",
    ) -> ItemPage | None:
        ascending = _LIST_ALL if limit is None else _LIST_ASCENDING
        rows = await self._connections.fetch(
            _LIST_DESCENDING if is_descending else ascending,
            *self._key(conversation_id, client),
            None if after is None else encode_text(after),
            page_size(limit, self._limits) + 1,
            self._limits.max_history_bytes,
        )
        if not rows:
            return None
        if after is not None and rows[0]["after_seq"] is None:
            raise unknown_after(after)
        sizes = [row["size"] for row in rows if row["size"] is not None]
        count = count_page(sizes, limit, self._limits)
        bodies = [row["body"] for row in rows[:count]]
        items = await self._decoding.run(lambda: [*map(msgspec.json.decode, bodies)], sum(sizes))
        return ItemPage(items, count < len(sizes))

    async def load_item(
        self, conversation_id: str, item_id: str, *, client: str = ""
    ) -> Document | None:
        key = (*self._key(conversation_id, client), encode_text(item_id))
        row = await self._connections.fetch_row(_ITEM, *key)
        return None if row is None else msgspec.json.decode(row["body"])

    async def delete_item(
        self, conversation_id: str, item_id: str, *, client: str = ""
    ) -> Conversation | None:
        key = (*self._key(conversation_id, client), encode_text(item_id))
        row = await self._connections.fetch_row(_DELETE_ITEM, *key)
        return _read_row(row, conversation_id, client)

    async def lock(
        self, conversation_id: str, response_id: str, holder: str, *, client: str = ""
    ) -> bool | None:
        key = self._use_key(conversation_id, client)
        row = await self._lock.run(*key, encode_text(response_id), holder, self._lease_now())
        is_locked: bool | None = row["is_locked"]
        return is_locked

    async def unlock(self, conversation_id: str, response_id: str) -> None:
        key = (encode_text(conversation_id), encode_text(response_id))
        await self._connections.fetch(_UNLOCK, *key)

    async def add_turn(self, conversation_id: str, turn: Turn) -> None:
        await self._add_turn.run(*self.turn_values(conversation_id, turn))

    def turn_values(self, conversation_id: str, turn: Turn) -> tuple[Any, ...]:
        """Return the parameters of `add_turn`, which appends a finished turn to a conversation, if
        that still exists, and unlocks it."""
        bodies = encode_turn_items(turn, self._limits)
        key = self._use_key(conversation_id, turn.client)
        return (*key, encode_text(turn.id), *_columns(bodies))

    async def close(self) -> None:
        """Finish pending writes."""
        for each in (self._create, self._update, self._append, self._add_turn, self._lock):
            await each.close()

    def _key(self, conversation_id: str, client: str) -> tuple[str, str, int]:
        return encode_text(conversation_id), encode_text(client), self._now()

    def _use_key(self, conversation_id: str, client: str) -> tuple[str, str, int, int | None]:
        now = self._now()
        expires_at = self._limits.expiry(now)
        return encode_text(conversation_id), encode_text(client), now, expires_at


def _columns(bodies: Mapping[str, bytes]) -> tuple[list[str], list[bytes]]:
    return [encode_text(id) for id in bodies], [*bodies.values()]


def _read_row(row: Any, conversation_id: str, client: str) -> Conversation | None:
    """Return the conversation that a client has asked for: its own, or one without an owner."""
    if row is None or row["created_at"] is None:
        return None
    return Conversation(
        id=conversation_id,
        created_at=row["created_at"],
        metadata=msgspec.json.decode(row["metadata"]),
        client=client if row["owner"] else "",
    )
