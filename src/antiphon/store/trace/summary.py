"""The trace's summary table: one short row per request, kept up to date as its trace rows arrive.

Lists of requests read this table alone, so that no list has to look at payloads.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeAlias

from antiphon.store.trace.rows import (
    TraceAttempt,
    TraceError,
    TraceFinish,
    TraceRequest,
    TraceRow,
    TraceUsage,
)

Values: TypeAlias = dict[str, Any]

COLUMNS: tuple[str, ...] = (
    *("request_id", "response_id", "received_at_ms", "client", "model", "stream"),
    *("provider", "provider_model", "dialect", "key_name", "status", "failed", "http_status"),
    *("code", "message", "attempts", "input_tokens", "cached_tokens", "output_tokens"),
    *("reasoning_tokens", "cost", "first_output_at_ms", "duration_ms", "events", "changed"),
    "session",
)
FAILED = "failed"
"""The status of a request that failed. One that was rejected reached no provider: it is neither a
request nor a failure in usage, metrics and charts."""
REJECTED = "rejected"
_BACKFILLED = 10_000  # requests; more would delay the start of the gateway
_SHAPES = 256  # statements that are kept, one for each set of columns
_MAX_MESSAGE = 300  # characters; the trace row has all of them

_CREATE = """
    CREATE TABLE summary (
        seq INTEGER PRIMARY KEY,
        request_id TEXT NOT NULL UNIQUE,
        response_id TEXT,
        received_at_ms INTEGER NOT NULL,
        client TEXT,
        model TEXT NOT NULL DEFAULT '',
        stream INTEGER,
        provider TEXT,  -- that answered; until then, the first one to be tried
        provider_model TEXT,
        dialect TEXT,
        key_name TEXT,
        status TEXT,  -- NULL while the request is running
        failed INTEGER,
        http_status INTEGER,
        code TEXT,  -- of the error
        message TEXT,
        attempts INTEGER NOT NULL DEFAULT 0,
        input_tokens INTEGER,
        cached_tokens INTEGER,
        output_tokens INTEGER,
        reasoning_tokens INTEGER,
        cost REAL,
        first_output_at_ms INTEGER,
        duration_ms INTEGER,
        events INTEGER,
        changed INTEGER NOT NULL  -- grows with every batch that is written
    )
"""


def _latest(kind: str, field: str) -> str:
    """SQL of a field in the latest row of a kind about the request `r`."""
    return (
        f"(SELECT json_extract(body, '$.{field}') FROM fact"
        f" WHERE request_id = r.request_id AND kind = '{kind}' ORDER BY seq DESC LIMIT 1)"
    )


_FINISHED = ("status", "http_status", "duration_ms", "events", "dialect", "key_name")
_USED = ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")
_BACKFILL = f"""
    INSERT OR IGNORE INTO summary (
        request_id, response_id, received_at_ms, client, model, stream, provider, provider_model,
        code, message, attempts, {", ".join(_USED)}, {", ".join(_FINISHED)}, changed
    )
    SELECT request_id, response_id, json_extract(body, '$.received_at_ms'),
        json_extract(body, '$.client'), json_extract(body, '$.model'),
        ifnull(json_extract(body, '$.stream'), 0),
        coalesce(nullif({_latest("finish", "provider")}, ''), json_extract(body, '$.provider')),
        coalesce(
            nullif({_latest("finish", "provider_model")}, ''),
            json_extract(body, '$.provider_model')
        ),
        {_latest("error", "code")}, substr({_latest("error", "message")}, 1, {_MAX_MESSAGE}),
        (SELECT count(*) FROM fact WHERE request_id = r.request_id AND kind = 'attempt'),
        {", ".join(_latest("usage", field) for field in _USED)},
        {", ".join(_latest("finish", field) for field in _FINISHED)}, 0
    FROM (SELECT * FROM fact WHERE kind = 'request' ORDER BY seq DESC LIMIT {_BACKFILLED}) AS r
    ORDER BY seq
"""

MIGRATION: tuple[str, ...] = (
    _CREATE,
    "CREATE INDEX summary_changed ON summary (changed)",
    "CREATE INDEX summary_failed ON summary (seq) WHERE failed = 1",
    _BACKFILL,
    "UPDATE summary SET failed = status IN ('failed', 'rejected')",
)

REJECTED_ARE_NOT_FAILED: tuple[str, ...] = (
    "UPDATE summary SET failed = 0 WHERE status = 'rejected'",
)
"""Migration of a table in which rejected requests were marked as failed."""
SESSION_MIGRATION: tuple[str, ...] = (
    "ALTER TABLE summary ADD COLUMN session TEXT",
    "CREATE INDEX summary_session ON summary (session, seq) WHERE session IS NOT NULL",
)

_FIELDS: dict[type[TraceRow], tuple[str, ...]] = {
    TraceRequest: (
        *("request_id", "response_id", "received_at_ms", "client", "model", "provider"),
        *("provider_model", "session"),
    ),
    TraceAttempt: ("request_id", "request_id"),  # twice: a getter of one field returns no tuple
    TraceUsage: ("request_id", *_USED, "cost"),
    TraceError: ("request_id", "code"),
    TraceFinish: ("request_id", "provider", "provider_model", *_FINISHED),
}
"""Fields of rows that are columns; an empty text is no value."""
_READERS = {kind: attrgetter(*names) for kind, names in _FIELDS.items()}
_FIRST_STAYS = "first_output_at_ms"
_UPDATES = {
    "received_at_ms": "min(received_at_ms, excluded.received_at_ms)",
    "attempts": "attempts + excluded.attempts",
    _FIRST_STAYS: f"ifnull({_FIRST_STAYS}, excluded.{_FIRST_STAYS})",
}
"""New values of columns that are not simply the latest value."""
_NEXT = "SELECT ifnull(max(changed), 0) + 1 FROM summary"
_DELETE = "DELETE FROM summary WHERE request_id IN (SELECT request_id FROM fact WHERE seq <= ?)"


def update_summaries(connection: sqlite3.Connection, rows: Iterable[tuple[int, TraceRow]]) -> None:
    """Apply trace rows, each with the time it was recorded, to the summaries of their requests."""
    merged: dict[str, Values] = {}
    for at_ms, row in rows:
        kind = type(row)
        if kind not in _FIELDS:
            continue
        values = merged.get(row.request_id)
        if values is None:
            values = merged[row.request_id] = {"received_at_ms": at_ms}
        for name, value in zip(_FIELDS[kind], _READERS[kind](row), strict=True):
            if value is not None and value != "":
                values[name] = value
        _apply(values, row, at_ms)
    if merged:
        _write(connection, merged.values())


def _write(connection: sqlite3.Connection, summaries: Iterable[Values]) -> None:
    changed = connection.execute(_NEXT).fetchone()[0]
    for columns, group in groupby(summaries, tuple):
        values = [(*each.values(), changed) for each in group]
        connection.executemany(_make_upsert((*columns, "changed")), values)


@lru_cache(_SHAPES)
def _make_upsert(columns: tuple[str, ...]) -> str:
    """Make the statement that sets these columns. Columns without a value are not in it: to bind
    None takes Python's sqlite3 longer than all the rest."""
    updates = (
        f"{name} = {_UPDATES.get(name, f'excluded.{name}')}"
        for name in columns
        if name != "request_id"
    )
    return f"""
        INSERT INTO summary ({", ".join(columns)}) VALUES ({", ".join("?" * len(columns))})
        ON CONFLICT (request_id) DO UPDATE SET {", ".join(updates)}
    """


def delete_summaries(connection: sqlite3.Connection, last: int) -> None:
    """Delete the summaries of requests with a trace row among those up to `last`."""
    connection.execute(_DELETE, (last,))


def _apply(values: Values, row: TraceRow, at_ms: int) -> None:
    """Set the columns that are not simply fields of a row."""
    if type(row) is TraceAttempt:
        values["attempts"] = values.get("attempts", 0) + 1
        if row.fault_type is None:
            values.setdefault(_FIRST_STAYS, at_ms)
    elif type(row) is TraceFinish:
        values["failed"] = int(row.status == FAILED)
    elif type(row) is TraceRequest:
        values["stream"] = int(row.stream)
    elif type(row) is TraceError:
        values["message"] = row.message[:_MAX_MESSAGE]
