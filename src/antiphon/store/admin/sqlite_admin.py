"""Work on a SQLite store as a whole."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

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
from antiphon.store.sqlite.access import compress, decompress
from antiphon.store.sqlite.call_states import purge_call_states
from antiphon.store.sqlite.conversations import purge_conversations
from antiphon.store.sqlite.file import (
    connect,
    connect_reader,
    convert_errors,
    create_directory,
    snapshot,
    transaction,
)
from antiphon.store.sqlite.retention import purge_turns
from antiphon.store.sqlite.runs import purge_runs
from antiphon.store.sqlite.schema import SCHEMA
from antiphon.store.turn import decode_turn, locate_items

_READ: dict[type[Any], str] = {
    TurnRow: "SELECT seq, expires_at, owner, client, body FROM turn ORDER BY seq",
    RunRow: """
        SELECT turn, status, holder, token, last_seq, is_background, is_streamed,
            is_cancel_requested, request, log_expires_at FROM run ORDER BY turn
    """,
    BatchRow: "SELECT turn, first_seq, last_seq, frames FROM event_batch ORDER BY turn, last_seq",
    ConversationRow: """
        SELECT seq, id, owner, created_at, expires_at, metadata FROM conversation ORDER BY seq
    """,
    ConversationItemRow: "SELECT seq, conversation, body FROM conversation_item ORDER BY seq",
    CallStateRow: "SELECT seq, owner, call, expires_at, body FROM call_state ORDER BY seq",
    StoredUsage: f"SELECT {', '.join(USAGE_COLUMNS)} FROM usage ORDER BY 1, 2, 3, 4",
}
_USAGE = f"""
    INSERT INTO usage ({", ".join(USAGE_COLUMNS)}) VALUES ({", ".join("?" * len(USAGE_COLUMNS))})
"""
_TURN = """
    INSERT INTO turn (seq, id, previous_response_id, expires_at, owner, client, body, size)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_ITEM = "INSERT INTO item (id, is_input, turn, position) VALUES (?, ?, ?, ?)"
_RUN = """
    INSERT INTO run (turn, status, holder, token, last_seq, is_background, is_streamed,
        is_cancel_requested, request, log_expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_BATCH = "INSERT INTO event_batch (turn, first_seq, last_seq, frames) VALUES (?, ?, ?, ?)"
_CONVERSATION = """
    INSERT INTO conversation (seq, id, owner, created_at, expires_at, metadata)
    VALUES (?, ?, ?, ?, ?, ?)
"""
_CONVERSATION_ITEM = """
    INSERT INTO conversation_item (seq, conversation, id, body, size) VALUES (?, ?, ?, ?, ?)
"""
_CALL_STATE = "INSERT INTO call_state (seq, owner, call, expires_at, body) VALUES (?, ?, ?, ?, ?)"
_COUNTS = """
    SELECT (SELECT count(*) FROM turn), (SELECT count(*) FROM conversation),
        (SELECT count(*) FROM run WHERE log_expires_at IS NULL), (SELECT count(*) FROM usage)
"""
_ROWS = """
    SELECT (SELECT count(*) FROM turn) + (SELECT count(*) FROM conversation)
        + (SELECT count(*) FROM run WHERE log_expires_at IS NOT NULL)
"""
_PURGE_ROWS = 500


class SQLiteAdmin:
    """A `StoreAdmin` of a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def read_state(self) -> StoreState:
        version = 0
        counts = (0, 0, 0, 0)
        newest = len(SCHEMA.migrations)
        if self._path.exists():
            with convert_errors(self._path), closing(connect_reader(self._path)) as connection:
                version = int(connection.execute("PRAGMA user_version").fetchone()[0])
                if version == newest:
                    counts = connection.execute(_COUNTS).fetchone()
                elif version:
                    counts = (*connection.execute("SELECT count(*) FROM turn").fetchone(), 0, 0, 0)
        responses, conversations, running, usage_rows = counts
        return StoreState(
            name=str(self._path),
            version=version,
            newest_version=newest,
            responses=responses,
            running=running,
            conversations=conversations,
            usage_rows=usage_rows,
        )

    async def migrate(self) -> tuple[int, int]:
        before = (await self.read_state()).version
        self._connect().close()
        return before, len(SCHEMA.migrations)

    async def prune(self, now: int) -> int:
        with convert_errors(self._path), closing(self._connect()) as connection:
            before = _count_rows(connection)
            for purge in (purge_turns, purge_runs, purge_conversations, purge_call_states):
                while purge(connection, now, _PURGE_ROWS):
                    pass
            return before - _count_rows(connection)

    async def read_pages(self) -> AsyncIterator[Sequence[Row]]:
        self._connect().close()  # an older schema is migrated first
        with (
            convert_errors(self._path),
            closing(connect_reader(self._path)) as connection,
            snapshot(connection),
        ):
            for table in TABLES:
                cursor = connection.execute(_READ[table])
                while rows := cursor.fetchmany(PAGE):
                    yield [_read_row(table, row) for row in rows]

    async def write_pages(self, pages: AsyncIterator[Sequence[Row]]) -> int:
        count = 0
        with (
            convert_errors(self._path),
            closing(self._connect()) as connection,
            transaction(connection),
        ):
            async for rows in pages:
                _WRITERS[type(rows[0])](connection, rows)
                count += len(rows)
        return count

    def _connect(self) -> sqlite3.Connection:
        create_directory(self._path)
        return connect(self._path, SCHEMA, synchronous="FULL")


def _count_rows(connection: sqlite3.Connection) -> int:
    return int(connection.execute(_ROWS).fetchone()[0])


def _read_row(table: type[Any], row: Sequence[Any]) -> Row:
    if table in (TurnRow, ConversationItemRow):
        row = (*row[:-1], decompress(row[-1]))
    if table is RunRow:
        row = (*row[:5], *map(bool, row[5:8]), *row[8:])
    if table is StoredUsage:
        return read_usage(row)
    read: Row = table(*row)
    return read


def _write_turns(connection: sqlite3.Connection, rows: Sequence[Any]) -> None:
    turns = []
    items = []
    for row in rows:
        turn = decode_turn(row.body, row.expires_at)
        key = (row.seq, turn.id, turn.previous_response_id, row.expires_at, row.owner, row.client)
        turns.append((*key, compress(row.body), len(row.body)))
        items += [(id, *place[:1], row.seq, place[1]) for id, place in locate_items(turn).items()]
    connection.executemany(_TURN, turns)
    connection.executemany(_ITEM, items)


def _write_conversation_items(connection: sqlite3.Connection, rows: Sequence[Any]) -> None:
    keys = [(row.seq, row.conversation, msgspec.json.decode(row.body)["id"]) for row in rows]
    values = [
        (*key, compress(row.body), len(row.body)) for key, row in zip(keys, rows, strict=True)
    ]
    connection.executemany(_CONVERSATION_ITEM, values)


_WRITERS: dict[type[Any], Callable[[sqlite3.Connection, Sequence[Any]], object]] = {
    TurnRow: _write_turns,
    RunRow: lambda connection, rows: connection.executemany(_RUN, rows),
    BatchRow: lambda connection, rows: connection.executemany(_BATCH, rows),
    ConversationRow: lambda connection, rows: connection.executemany(_CONVERSATION, rows),
    ConversationItemRow: _write_conversation_items,
    CallStateRow: lambda connection, rows: connection.executemany(_CALL_STATE, rows),
    StoredUsage: lambda connection, rows: connection.executemany(
        _USAGE, [(*row.key, *row.counts) for row in rows]
    ),
}


# --- turns without an owner, in the file of a store that is not open ------------------------------

_COUNT_WITHOUT_OWNER = "SELECT count(*), max(ifnull(expires_at, 1 << 62)) FROM turn WHERE {} AND {}"
_ALIVE = "(expires_at IS NULL OR expires_at > ?)"
_NEVER = 1 << 62


class TurnsWithoutOwner(Struct, frozen=True):
    count: int = 0
    expire_at: int | None = None
    """When the last of them expires; None: never."""


def count_turns_without_owner(path: Path, now: int) -> TurnsWithoutOwner:
    """Count them in a store's file; in a file that does not exist there are none."""
    if not path.exists():
        return TurnsWithoutOwner()
    with convert_errors(path), closing(connect_reader(path)) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(turn)")]
        if not columns:  # created, and not used yet
            return TurnsWithoutOwner()
        condition = "owner IS NULL" if "owner" in columns else "1"
        count, last = connection.execute(
            _COUNT_WITHOUT_OWNER.format(condition, _ALIVE), (now,)
        ).fetchone()
    return TurnsWithoutOwner(count, None if last in (None, _NEVER) else last)
