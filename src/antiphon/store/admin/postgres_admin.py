"""Work on a PostgreSQL store as a whole."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec

from antiphon.store.admin.tables import (
    PAGE,
    TABLES,
    USAGE_COLUMNS,
    BatchRow,
    CallStateRow,
    ConversationItemRow,
    ConversationRow,
    Row,
    RunRow,
    StoredUsage,
    StoreState,
    TurnRow,
    read_usage,
)
from antiphon.store.postgres.address import PostgresAddress
from antiphon.store.postgres.connections import Connections
from antiphon.store.postgres.migrate import connecting, migrate, read_version
from antiphon.store.postgres.retention import Retention
from antiphon.store.postgres.schema import MIGRATIONS
from antiphon.store.postgres.text import decode_text, encode_optional_text, encode_text
from antiphon.store.turn import StoreLimits, decode_turn, locate_items

_COLUMNS: dict[type[Any], tuple[str, tuple[str, ...]]] = {
    TurnRow: (
        "turn",
        ("seq", "id", "previous_response_id", "expires_at", "owner", "client", "body"),
    ),
    RunRow: ("run", RunRow._fields),
    BatchRow: ("event_batch", BatchRow._fields),
    ConversationRow: ("conversation", ConversationRow._fields),
    ConversationItemRow: ("conversation_item", ("seq", "conversation", "id", "body")),
    CallStateRow: ("call_state", CallStateRow._fields),
    StoredUsage: ("usage", USAGE_COLUMNS),
}
_READ: dict[type[Any], str] = {
    TurnRow: "SELECT seq, expires_at, owner, client, body FROM turn ORDER BY seq",
    RunRow: f"SELECT {', '.join(RunRow._fields)} FROM run ORDER BY turn",
    BatchRow: "SELECT turn, first_seq, last_seq, frames FROM event_batch ORDER BY turn, last_seq",
    ConversationRow: f"SELECT {', '.join(ConversationRow._fields)} FROM conversation ORDER BY seq",
    ConversationItemRow: "SELECT seq, conversation, body FROM conversation_item ORDER BY seq",
    CallStateRow: f"SELECT {', '.join(CallStateRow._fields)} FROM call_state ORDER BY seq",
    StoredUsage: f"SELECT {', '.join(USAGE_COLUMNS)} FROM usage ORDER BY 1, 2, 3, 4",
}
_COUNTS = """
    SELECT (SELECT count(*) FROM turn) AS responses,
        (SELECT count(*) FROM conversation) AS conversations,
        (SELECT count(*) FROM run WHERE log_expires_at IS NULL) AS running,
        (SELECT count(*) FROM usage) AS usage_rows
"""
# Rows keep their numbers, so the next ones must be larger.
_SET_SEQUENCE = """
    SELECT setval(pg_get_serial_sequence('{0}', 'seq'), (SELECT coalesce(max(seq), 0) FROM {0}) + 1,
        false)
"""
_WAIT_S = 30.0


class PostgresAdmin:
    """A `StoreAdmin` of a database."""

    def __init__(self, address: PostgresAddress) -> None:
        self._address = address

    async def read_state(self) -> StoreState:
        version = await read_version(self._address)
        newest = len(MIGRATIONS)
        counts: dict[str, int] = {}
        if 0 < version <= newest:
            async with connecting(self._address) as connection:
                counts = dict(await connection.fetchrow(_COUNTS))
        name = self._address.name
        return StoreState(name=name, version=version, newest_version=newest, **counts)

    async def migrate(self) -> tuple[int, int]:
        return await migrate(self._address)

    async def prune(self, now: int) -> int:
        await migrate(self._address)
        connections = Connections(self._address, wait_s=_WAIT_S, pool_size=1)
        await connections.open()
        try:
            return await Retention(connections, now=lambda: now, limits=StoreLimits()).purge()
        finally:
            await connections.close()

    async def read_pages(self) -> AsyncIterator[Sequence[Row]]:
        await migrate(self._address)
        async with (
            connecting(self._address) as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            for table in TABLES:
                cursor = await connection.cursor(_READ[table])
                while rows := await cursor.fetch(PAGE):
                    yield [_read_row(table, row) for row in rows]

    async def write_pages(self, pages: AsyncIterator[Sequence[Row]]) -> int:
        await migrate(self._address)
        count = 0
        async with connecting(self._address) as connection, connection.transaction():
            async for rows in pages:
                await self._write(connection, rows)
                count += len(rows)
            for table in ("turn", "conversation", "conversation_item", "call_state"):
                await connection.execute(_SET_SEQUENCE.format(table))
        return count

    async def _write(self, connection: Any, rows: Sequence[Any]) -> None:
        kind = type(rows[0])
        await self._insert(connection, *_COLUMNS[kind], [_WRITE[kind](row) for row in rows])
        if kind is TurnRow:
            items = [place for row in rows for place in _locate(row)]
            await self._insert(connection, "item", ("id", "is_input", "turn", "position"), items)

    async def _insert(
        self, connection: Any, table: str, columns: Sequence[str], rows: Sequence[Any]
    ) -> None:
        if rows:
            schema = self._address.schema
            await connection.copy_records_to_table(
                table, records=rows, columns=columns, schema_name=schema
            )


def _read_row(table: type[Any], row: Any) -> Row:
    values = [decode_text(value) if isinstance(value, str) else value for value in row]
    read: Row = read_usage(values) if table is StoredUsage else table(*values)
    return read


def _turn_values(row: TurnRow) -> tuple[Any, ...]:
    turn = decode_turn(row.body, row.expires_at)
    return (
        row.seq,
        encode_text(turn.id),
        encode_optional_text(turn.previous_response_id),
        row.expires_at,
        encode_optional_text(row.owner),
        encode_text(row.client),
        row.body,
    )


def _locate(row: TurnRow) -> list[tuple[str, bool, int, int]]:
    items = locate_items(decode_turn(row.body, row.expires_at))
    return [
        (encode_text(id), place.is_input, row.seq, place.position) for id, place in items.items()
    ]


def _conversation_values(row: ConversationRow) -> tuple[Any, ...]:
    return (row.seq, encode_text(row.id), encode_text(row.owner), *row[3:])


def _call_state_values(row: CallStateRow) -> tuple[Any, ...]:
    return (row.seq, encode_text(row.owner), encode_text(row.call), *row[3:])


def _usage_values(row: StoredUsage) -> tuple[Any, ...]:
    return (row.key.hour, *map(encode_text, row.key[1:]), *row.counts)


def _item_values(row: ConversationItemRow) -> tuple[Any, ...]:
    id = encode_text(msgspec.json.decode(row.body)["id"])
    return (row.seq, row.conversation, id, row.body)


_WRITE: dict[type[Any], Callable[[Any], tuple[Any, ...]]] = {
    TurnRow: _turn_values,
    RunRow: tuple,
    BatchRow: tuple,
    ConversationRow: _conversation_values,
    ConversationItemRow: _item_values,
    CallStateRow: _call_state_values,
    StoredUsage: _usage_values,
}
