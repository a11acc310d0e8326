"""The trace's summary table: one short row per request, kept up to date as its trace rows arrive.

Lists of requests read this table alone, so that no list has to look at payloads.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import groupby
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
        read = _READERS.get(type(row))
        if read is None:
            continue
        request_id = row.request_id
        values = merged.get(request_id)
        if values is None:
            values = merged[request_id] = {"request_id": request_id, "received_at_ms": at_ms}
        read(row, values, at_ms)
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


# Readers set the columns that a row has a value for. An empty text is no value.


def _read_request(row: TraceRequest, values: Values, at_ms: int) -> None:
    values["received_at_ms"] = row.received_at_ms
    values["stream"] = int(row.stream)
    if row.model:
        values["model"] = row.model
    if row.response_id:
        values["response_id"] = row.response_id
    if row.client:
        values["client"] = row.client
    if row.session:
        values["session"] = row.session
    _read_provider(row, values)


def _read_provider(row: TraceRequest | TraceFinish, values: Values) -> None:
    if row.provider:
        values["provider"] = row.provider
    if row.provider_model:
        values["provider_model"] = row.provider_model


def _read_attempt(row: TraceAttempt, values: Values, at_ms: int) -> None:
    values["attempts"] = values.get("attempts", 0) + 1
    if row.fault_type is None:
        values.setdefault(_FIRST_STAYS, at_ms)


def _read_usage(row: TraceUsage, values: Values, at_ms: int) -> None:
    values["input_tokens"] = row.input_tokens
    values["cached_tokens"] = row.cached_tokens
    values["output_tokens"] = row.output_tokens
    values["reasoning_tokens"] = row.reasoning_tokens
    if row.cost is not None:
        values["cost"] = row.cost


def _read_error(row: TraceError, values: Values, at_ms: int) -> None:
    values["message"] = row.message[:_MAX_MESSAGE]
    if row.code:
        values["code"] = row.code


def _read_finish(row: TraceFinish, values: Values, at_ms: int) -> None:
    values["failed"] = int(row.status == FAILED)
    values["duration_ms"] = row.duration_ms
    values["events"] = row.events
    if row.status:
        values["status"] = row.status
    if row.http_status is not None:
        values["http_status"] = row.http_status
    if row.dialect:
        values["dialect"] = row.dialect
    if row.key_name:
        values["key_name"] = row.key_name
    _read_provider(row, values)


_READERS: dict[type[TraceRow], Callable[[Any, Values, int], None]] = {
    TraceRequest: _read_request,
    TraceAttempt: _read_attempt,
    TraceUsage: _read_usage,
    TraceError: _read_error,
    TraceFinish: _read_finish,
}
