"""The trace's tables: schema, inserts, and deletion of rows by age and size."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Sequence
from itertools import chain

from msgspec import Struct

from antiphon.store.sqlite.file import DatabaseSchema, vacuum
from antiphon.store.trace.rows import KINDS, TraceRequest, TraceRow
from antiphon.store.trace.summary import (
    MIGRATION,
    REJECTED_ARE_NOT_FAILED,
    SESSION_MIGRATION,
    delete_summaries,
    update_summaries,
)

RETAIN_ROWS = 500  # per round, so that no flush waits long
VACUUM_PAGES = 10_000

SCHEMA = DatabaseSchema(
    application_id=0x416E7472,
    migrations=(
        (
            """
            CREATE TABLE fact (
                seq INTEGER PRIMARY KEY,
                at_ms INTEGER NOT NULL,
                kind TEXT NOT NULL,
                request_id TEXT NOT NULL,
                response_id TEXT,  -- of requests only
                body TEXT NOT NULL,  -- the row as JSON
                blob BLOB  -- of streams only, compressed by zlib
            )
            """,
            "CREATE INDEX fact_request ON fact (request_id)",
            "CREATE INDEX fact_response ON fact (response_id) WHERE response_id IS NOT NULL",
            "CREATE INDEX fact_listing ON fact (seq) WHERE kind = 'request'",
        ),
        MIGRATION,
        REJECTED_ARE_NOT_FAILED,
        SESSION_MIGRATION,
    ),
)

_COLUMNS = "INSERT INTO fact (at_ms, kind, request_id, response_id, body, blob) VALUES "
_ROW = "(?, ?, ?, nullif(?, ''), ?, nullif(?, ''))"
# Python's sqlite3 needs five times as long to bind None as an empty text.
_AT_ONCE = 8  # rows in one statement: for each row, that takes three quarters of the time
_INSERT = _COLUMNS + _ROW
_INSERT_SEVERAL = _COLUMNS + ", ".join([_ROW] * _AT_ONCE)
_OLDEST = "SELECT seq, at_ms, length(body) + ifnull(length(blob), 0) FROM fact ORDER BY seq LIMIT ?"


class EncodedRow(Struct, frozen=True):
    """A row with its JSON and, for streams, the payload stored beside it."""

    at_ms: int
    row: TraceRow
    body: bytes
    blob: bytes = b""


def insert_rows(connection: sqlite3.Connection, records: Sequence[EncodedRow]) -> None:
    rows = [_values(record) for record in records]
    rest = len(rows) - len(rows) % _AT_ONCE
    several = [[*chain.from_iterable(rows[at : at + _AT_ONCE])] for at in range(0, rest, _AT_ONCE)]
    connection.executemany(_INSERT_SEVERAL, several)
    connection.executemany(_INSERT, rows[rest:])
    update_summaries(connection, [(record.at_ms, record.row) for record in records])


def _values(record: EncodedRow) -> tuple[int, str, str, str, str, bytes | str]:
    row = record.row
    return (
        record.at_ms,
        KINDS[type(row)],
        row.request_id,
        (row.response_id or "") if type(row) is TraceRequest else "",
        record.body.decode(),
        zlib.compress(record.blob, 1) if record.blob else "",
    )


def delete_excess_rows(
    connection: sqlite3.Connection, now_ms: int, max_age_s: int | None, max_bytes: int | None
) -> bool:
    """Delete some of the oldest rows if they exceed the age or size limit; False if none did."""
    before_ms = 0 if max_age_s is None else now_ms - max_age_s * 1000
    excess = 0 if max_bytes is None else _used_bytes(connection) - max_bytes
    last = None
    for seq, at_ms, size in connection.execute(_OLDEST, (RETAIN_ROWS,)).fetchall():
        if at_ms >= before_ms and excess <= 0:
            break
        last = seq
        excess -= size
    if last is None:
        return False
    delete_summaries(connection, last)
    connection.execute("DELETE FROM fact WHERE seq <= ?", (last,))
    vacuum(connection, VACUUM_PAGES)
    return True


def _used_bytes(connection: sqlite3.Connection) -> int:
    pages, free, size = (
        int(connection.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size
