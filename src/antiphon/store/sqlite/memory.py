"""SQLite database in memory: the store of `memory://`, lost when the process ends.

It has one connection, and its jobs run on the event loop: none of them waits for a disk. What is
stored is bounded in number and bytes. The turn or conversation that was used least recently is
deleted first: each use extends its lifetime, so it is the one that would expire first.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from msgspec import structs

from antiphon.errors import StoreError
from antiphon.store.decode_thread import DecodeThread
from antiphon.store.sqlite.access import Bodies, K, add_functions
from antiphon.store.sqlite.file import convert_errors, migrate, transaction
from antiphon.store.sqlite.retention import Retention
from antiphon.store.sqlite.schema import SCHEMA
from antiphon.store.sqlite.writer import Job, T
from antiphon.store.turn import Clock, StoreLimits

MAX_TURNS = 10_000
MAX_BYTES = 256 * 1024 * 1024
MAX_CALL_STATES = 1_000
"""Of each client."""

# Maintained by triggers, as `total` is.
_TOTALS = (
    "CREATE TABLE memory_total (logs INTEGER, conversations INTEGER, items INTEGER)",
    "INSERT INTO memory_total VALUES (0, 0, 0)",
    """
    CREATE TRIGGER batch_added AFTER INSERT ON event_batch BEGIN
        UPDATE memory_total SET logs = logs + length(new.frames);
    END
    """,
    """
    CREATE TRIGGER batch_deleted AFTER DELETE ON event_batch BEGIN
        UPDATE memory_total SET logs = logs - length(old.frames);
    END
    """,
    """
    CREATE TRIGGER conversation_added AFTER INSERT ON conversation BEGIN
        UPDATE memory_total SET conversations = conversations + 1;
    END
    """,
    """
    CREATE TRIGGER conversation_removed AFTER DELETE ON conversation BEGIN
        UPDATE memory_total SET conversations = conversations - 1;
    END
    """,
    """
    CREATE TRIGGER item_added AFTER INSERT ON conversation_item BEGIN
        UPDATE memory_total SET items = items + length(new.body);
    END
    """,
    """
    CREATE TRIGGER item_removed AFTER DELETE ON conversation_item BEGIN
        UPDATE memory_total SET items = items - length(old.body);
    END
    """,
)
_TURN_TOTALS = "SELECT turns, bytes + logs FROM total, memory_total"
_CONVERSATION_TOTALS = "SELECT conversations, items FROM memory_total"
# Two queries each, so that both find their rows in an index, without sorting.
_UNUSED_TURNS = tuple(
    f"""
    SELECT seq, length(body) + coalesce(
        (SELECT sum(length(frames)) FROM event_batch WHERE event_batch.turn = turn.seq), 0
    ) FROM turn WHERE {condition}
    """
    for condition in ("expires_at IS NOT NULL ORDER BY expires_at", "expires_at IS NULL")
)
_UNUSED_CONVERSATIONS = tuple(
    f"""
    SELECT seq, coalesce((
        SELECT sum(length(body)) FROM conversation_item WHERE conversation = conversation.seq
    ), 0) FROM conversation WHERE {condition}
    """
    for condition in ("expires_at IS NOT NULL ORDER BY expires_at", "expires_at IS NULL")
)

_log = logging.getLogger("antiphon.store")


class MemoryLimits(StoreLimits, frozen=True, kw_only=True):
    """Limits of a store in memory, which is always bounded."""

    def needs_renewal(self, expires_at: int | None, now: int) -> bool:
        """Whether a turn has not been used in this second: each use extends its lifetime."""
        return self.ttl_s is not None and expires_at is not None and expires_at - now < self.ttl_s


def bound_limits(limits: StoreLimits) -> MemoryLimits:
    """Return limits with those that a store in memory always has."""
    max_turns = MAX_TURNS if limits.max_turns is None else limits.max_turns
    max_bytes = MAX_BYTES if limits.max_bytes is None else limits.max_bytes
    states = min(MAX_CALL_STATES, limits.max_call_states)
    given = structs.asdict(limits) | {
        "max_turns": max_turns,
        "max_bytes": max_bytes,
        "max_call_states": states,
    }
    return MemoryLimits(**given)


class MemoryRetention(Retention):
    """Deletes what was used least recently while a limit is exceeded."""

    def __init__(self, now: Clock, limits: MemoryLimits) -> None:
        super().__init__(now, limits)
        self._max_rows = limits.max_turns or 0
        self._max_bytes = limits.max_bytes or 0

    def evict_turns(self, connection: sqlite3.Connection) -> None:
        self._evict(connection, "turn", _TURN_TOTALS, _UNUSED_TURNS)

    def evict_conversations(self, connection: sqlite3.Connection) -> None:
        self._evict(connection, "conversation", _CONVERSATION_TOTALS, _UNUSED_CONVERSATIONS)

    def _evict(
        self, connection: sqlite3.Connection, table: str, totals: str, unused: Sequence[str]
    ) -> None:
        rows, size = connection.execute(totals).fetchone()
        evicted = []
        for query in unused:
            for seq, freed in connection.execute(query):
                if rows <= self._max_rows and size <= self._max_bytes:
                    break
                evicted.append((seq,))
                rows -= 1
                size -= freed
        connection.executemany(f"DELETE FROM {table} WHERE seq = ?", evicted)


class MemoryAccess:
    """Runs jobs on the connection of one database in memory. `maintain` runs before each
    transaction; True asks for another run at once."""

    def __init__(self, maintain: Job[bool]) -> None:
        self.path = Path("memory")
        """Its name, for messages."""
        self.transactions = 0
        self._maintain = maintain
        self._connection: sqlite3.Connection | None = None
        self._decoding = DecodeThread()

    async def open(self) -> None:
        if self._connection is None:
            with convert_errors(self.path):
                connection = sqlite3.connect(":memory:", isolation_level=None)
                add_functions(connection)
                migrate(connection, SCHEMA)
                for statement in _TOTALS:
                    connection.execute(statement)
            self._connection = connection

    async def close(self) -> None:
        self._decoding.close()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def write(self, job: Job[T]) -> T:
        """Run a job in a transaction, which is taken back if the job raises."""
        with convert_errors(self.path):
            connection = self._require_connection()
            while self._maintain(connection):
                pass
            with transaction(connection):
                result = job(connection)
        self.transactions += 1
        return result

    def post(self, job: Job[object]) -> None:
        """Run a job; a failure is only logged."""
        try:
            with convert_errors(self.path):
                connection = self._require_connection()
                with transaction(connection):
                    job(connection)
        except StoreError as error:
            _log.warning("%s", error)

    async def read(self, job: Job[T]) -> T:
        with convert_errors(self.path):
            return job(self._require_connection())

    async def read_bodies(self, job: Job[Bodies[K]], decode: Callable[[Bodies[K]], T]) -> T:
        bodies = await self.read(job)
        size = sum(len(body) for body, _ in bodies)
        with convert_errors(self.path):
            return await self._decoding.run(partial(decode, bodies), size)

    def compress(self, body: bytes) -> bytes:
        """Keep a body as it is: compressing it would take longer than everything else."""
        return body

    def _require_connection(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StoreError(f"{self.path}: the store is not open")
        return self._connection
