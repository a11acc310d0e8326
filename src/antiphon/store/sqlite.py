"""SQLite store of turns: write-ahead log, full durability, no disk access on the event loop.

One thread writes, in batches; a few others read, each with its own connection. A chain of any
length is one query, and an item is found by an index.
"""

from __future__ import annotations

import asyncio
import sqlite3
import zlib
from collections import defaultdict
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from antiphon.errors import StoreError
from antiphon.store.chain import follow_chain
from antiphon.store.item_references import ItemCollector, ItemLocation, locate_items
from antiphon.store.sqlite_file import (
    DatabaseSchema,
    WatchedConnection,
    connect,
    connect_reader,
    convert_errors,
    create_directory,
    snapshot,
    vacuum,
)
from antiphon.store.sqlite_writer import BatchWriter, Job, MakeWriter, T
from antiphon.store.store import Clock, StoreLimits, Turn, decode_turn, encode_turn
from antiphon.wire.items import Document

READERS = 3
PURGE_EVERY_S = 60
PURGE_TURNS = 500  # per transaction, so that no save waits long
VACUUM_PAGES = 1000
_COMPRESS_FROM_BYTES = 16 * 1024  # from this size on, compression saves more than it costs

SCHEMA = DatabaseSchema(
    application_id=0x416E7469,
    migrations=(
        (
            """
            CREATE TABLE turn (
                seq INTEGER PRIMARY KEY,
                id TEXT NOT NULL UNIQUE,
                previous_response_id TEXT,
                expires_at INTEGER,
                body BLOB NOT NULL  -- the turn as JSON, perhaps compressed by zlib
            )
            """,
            "CREATE INDEX turn_expiry ON turn (expires_at) WHERE expires_at IS NOT NULL",
            # Maintained by triggers: checking a limit needs no scan, and a rollback undoes it.
            "CREATE TABLE total (turns INTEGER NOT NULL, bytes INTEGER NOT NULL)",
            "INSERT INTO total VALUES (0, 0)",
            """
            CREATE TRIGGER turn_saved AFTER INSERT ON turn BEGIN
                UPDATE total SET turns = turns + 1, bytes = bytes + length(new.body);
            END
            """,
            """
            CREATE TRIGGER turn_replaced AFTER UPDATE OF body ON turn BEGIN
                UPDATE total SET bytes = bytes + length(new.body) - length(old.body);
            END
            """,
            """
            CREATE TRIGGER turn_deleted AFTER DELETE ON turn BEGIN
                UPDATE total SET turns = turns - 1, bytes = bytes - length(old.body);
            END
            """,
        ),
        (
            # Location of an item in its turn. The key sorts by preference.
            """
            CREATE TABLE item (
                id TEXT NOT NULL,
                is_input INTEGER NOT NULL,
                turn INTEGER NOT NULL,
                position INTEGER NOT NULL,
                PRIMARY KEY (id, is_input, turn DESC)
            ) WITHOUT ROWID
            """,
            "CREATE INDEX item_turn ON item (turn)",
            """
            CREATE TRIGGER items_replaced AFTER UPDATE OF body ON turn BEGIN
                DELETE FROM item WHERE turn = old.seq;
            END
            """,
            """
            CREATE TRIGGER items_deleted AFTER DELETE ON turn BEGIN
                DELETE FROM item WHERE turn = old.seq;
            END
            """,
        ),
        # Who sent the turn: of turns without an owner, input items are found by this client only.
        ("ALTER TABLE turn ADD COLUMN client TEXT NOT NULL DEFAULT ''",),
        (
            # NULL: stored before turns had an owner, found by every client.
            "ALTER TABLE turn ADD COLUMN owner TEXT",
            "CREATE INDEX turn_without_owner ON turn (expires_at) WHERE owner IS NULL",
        ),
    ),
)

_ALIVE = "(turn.expires_at IS NULL OR turn.expires_at > :now)"
_FOUND = f"{_ALIVE} AND (turn.owner = :client OR turn.owner IS NULL)"
_SAVE = """
    INSERT INTO turn (id, previous_response_id, expires_at, owner, body) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET previous_response_id = excluded.previous_response_id,
        expires_at = excluded.expires_at, owner = excluded.owner, body = excluded.body
"""
_DELETE = f"DELETE FROM turn WHERE id = :id AND {_FOUND}"
_LOAD = f"SELECT body, expires_at FROM turn WHERE id = :id AND {_FOUND}"
# UNION drops duplicates, so a cycle terminates; `follow_chain` then reports it.
_CHAIN = f"""
    WITH RECURSIVE link (seq, parent) AS (
        SELECT seq, previous_response_id FROM turn WHERE id = :id AND {_FOUND}
        UNION
        SELECT turn.seq, turn.previous_response_id
        FROM link JOIN turn ON turn.id = link.parent WHERE {_FOUND}
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
    WHERE item.id = :id AND {_FOUND}
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
        limits: StoreLimits | None = None,
        make_writer: MakeWriter = BatchWriter,
    ) -> None:
        self._path = path
        self._limits = limits or StoreLimits()
        self._now = now
        self._purged_at: int | None = None
        file = WatchedConnection(path, lambda: connect(path, SCHEMA, synchronous="FULL"))
        self._writer = make_writer(path, file, self._purge)
        self._readers: ThreadPoolExecutor | None = None
        self._idle: list[WatchedConnection] = []  # reader connections that are not in use

    @property
    def transactions(self) -> int:
        """Number of transactions committed for saves and deletions."""
        return self._writer.transactions

    @property
    def name(self) -> str:
        return self._path.name

    async def open(self) -> None:
        await asyncio.to_thread(create_directory, self._path)
        await self._writer.open()
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="antiphon-store")

    async def close(self) -> None:
        readers, self._readers = self._readers, None
        if readers is not None:
            await asyncio.to_thread(self._close_readers, readers)
        await self._writer.close()

    async def save(self, turn: Turn) -> None:
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
            row = (turn.id, turn.previous_response_id, expires_at, owner, _compress(body))
            connection.execute(_SAVE, row)
            connection.executemany(_SAVE_ITEM, items)
            _evict(connection, self._limits)

        await self._writer.run(job)

    async def check(self) -> None:
        # Only a write shows that the disk is neither full nor read-only.
        changes = [(1,), (-1,)]
        await self._writer.run(lambda connection: connection.executemany(_WRITE_SOMETHING, changes))

    async def load(self, response_id: str, *, client: str = "") -> Turn | None:
        key = {"id": _searchable_id(response_id), "client": client, "now": self._now()}

        def job(connection: sqlite3.Connection) -> Turn | None:
            row = connection.execute(_LOAD, key).fetchone()
            return None if row is None else decode_turn(_decompress(row[0]), row[1])

        return await self._read(job)

    async def delete(self, response_id: str, *, client: str = "") -> bool:
        key = {"id": _searchable_id(response_id), "client": client, "now": self._now()}
        return await self._writer.run(
            lambda connection: connection.execute(_DELETE, key).rowcount > 0
        )

    async def chain(self, response_id: str, *, client: str = "") -> list[Turn]:
        limit, now = self._limits.max_chain, self._now()
        max_rows = -1 if limit is None else limit
        key = {"id": _searchable_id(response_id), "client": client, "now": now, "limit": max_rows}

        def job(connection: sqlite3.Connection) -> list[Turn]:
            turns = {
                id: decode_turn(_decompress(body), expires_at)
                for id, body, expires_at in connection.execute(_CHAIN, key)
            }
            return list(follow_chain(response_id, turns.get, limit).values())

        turns = await self._read(job)
        self._renew(turns, now)
        return turns

    async def load_items(
        self, item_ids: Collection[str], *, client: str = ""
    ) -> dict[str, Document]:
        ids = [_searchable_id(item_id) for item_id in item_ids]
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
                    collector.add(_decompress(body), locations)
            return collector.items

        return await self._read(job)

    def _renew(self, turns: list[Turn], now: int) -> None:
        """Extend the lifetime of a chain that is in use, at most once per half a lifetime."""
        expiry = self._limits.expiry(now)
        needs_renewal = self._limits.needs_renewal
        rows = [(expiry, turn.id) for turn in turns if needs_renewal(turn.expires_at, now)]
        if rows:
            self._writer.post(lambda connection: connection.executemany(_RENEW, rows))

    async def _read(self, job: Job[T]) -> T:
        if self._readers is None:
            raise StoreError(f"{self._path}: the store is not open")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, self._run_reader, job)

    # --- in the threads ---------------------------------------------------------------------------

    def _run_reader(self, job: Job[T]) -> T:
        with convert_errors(self._path):
            try:
                file = self._idle.pop()
            except IndexError:
                file = WatchedConnection(self._path, lambda: connect_reader(self._path))
            try:
                return job(file.get())
            finally:
                self._idle.append(file)

    def _close_readers(self, readers: ThreadPoolExecutor) -> None:
        readers.shutdown()
        while self._idle:
            self._idle.pop().close()

    def _purge(self, connection: sqlite3.Connection) -> bool:
        """Delete some expired turns, once a minute; True if there may be more."""
        now = self._now()
        if self._purged_at is not None and now - self._purged_at < PURGE_EVERY_S:
            return False
        if connection.execute(_PURGE, (now, PURGE_TURNS)).rowcount == PURGE_TURNS:
            return True
        self._purged_at = now
        vacuum(connection, VACUUM_PAGES)
        return False


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


def _searchable_id(response_id: str) -> str:
    """Replace lone surrogates, which SQLite cannot bind; no stored id has any."""
    return response_id.encode("utf-8", "replace").decode()


def _compress(body: bytes) -> bytes:
    return body if len(body) < _COMPRESS_FROM_BYTES else zlib.compress(body, 1)


def _decompress(body: bytes) -> bytes:
    """Return the JSON body. JSON starts with a brace, zlib data never does."""
    return body if body.startswith(b"{") else zlib.decompress(body)
