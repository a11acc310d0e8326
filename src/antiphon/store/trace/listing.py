"""Lists of requests for a page: one query on the summary table, filtered and in pages.

No query here but `read_streams` reads payloads.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from antiphon.store.sqlite.file import connect_reader, convert_errors
from antiphon.store.trace.rows import TraceRow, TraceStream, decode_row
from antiphon.store.trace.summary import COLUMNS, FAILED, REJECTED

RUNNING = "running"
SEARCHED_PAYLOADS = 1000
"""The latest requests whose payloads are searched: each is decompressed."""
SORTS: Mapping[str, str] = {
    "duration": "duration_ms",
    "cost": "cost",
    "tokens": "ifnull(input_tokens, 0) + ifnull(output_tokens, 0)",
}
"""What a list can be sorted by, the largest first."""

_SELECTED = ", ".join(("seq", *COLUMNS))
_ROWS = "SELECT at_ms, body FROM fact WHERE request_id = ? ORDER BY seq"
_STREAMS = "SELECT body, blob FROM fact WHERE request_id = ? AND kind = 'stream' ORDER BY seq"
_BY_RESPONSE = "SELECT request_id FROM fact WHERE response_id = ? ORDER BY seq DESC LIMIT 1"
_CHOICES = "SELECT DISTINCT {name} FROM summary WHERE {name} IS NOT NULL ORDER BY 1 LIMIT 500"
_SINCE = """
    seq > ifnull((SELECT seq FROM summary WHERE received_at_ms < ? ORDER BY seq DESC LIMIT 1), 0)
"""
"""Requests since a time, found from the newest backwards, without an index that writers pay for."""
_CHANGED = """
    SELECT {columns} FROM summary WHERE {where} AND changed > :after AND changed <= :last
    ORDER BY changed, seq LIMIT :limit
"""
_NEIGHBOURS = """
    SELECT (SELECT request_id FROM summary WHERE seq > s.seq ORDER BY seq LIMIT 1),
        (SELECT request_id FROM summary WHERE seq < s.seq ORDER BY seq DESC LIMIT 1)
    FROM summary AS s WHERE request_id = ?
"""
_MINUTES = f"""
    SELECT received_at_ms / 60000, sum(status IS NOT '{REJECTED}'), sum(ifnull(failed, 0)),
        sum(status IS '{REJECTED}')
    FROM summary WHERE {_SINCE} GROUP BY 1 ORDER BY 1
"""
_FIRST_OUTPUTS = f"""
    SELECT first_output_at_ms - received_at_ms FROM summary
    WHERE {_SINCE} AND first_output_at_ms IS NOT NULL ORDER BY seq DESC LIMIT ?
"""


class RequestRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request in a list."""

    seq: int
    request_id: str
    response_id: str | None = None
    received_at_ms: int
    client: str | None = None
    model: str = ""
    stream: bool = False
    provider: str | None = None
    provider_model: str | None = None
    dialect: str | None = None
    key_name: str | None = None
    status: str = RUNNING
    failed: bool = False
    http_status: int | None = None
    code: str | None = None
    message: str | None = None
    attempts: int = 0
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost: float | None = None
    first_output_at_ms: int | None = None
    duration_ms: int | None = None
    events: int | None = None
    changed: int = 0
    session: str | None = None


class RequestFilter(Struct, frozen=True, kw_only=True):
    """Which requests a list shows; None is no condition."""

    client: str | None = None
    model: str | None = None
    """As the client asked, or the provider's own name."""
    provider: str | None = None
    status: tuple[str, ...] = ()
    """`running` is the status of a request that has not ended."""
    code: str | None = None
    session: str | None = None
    words: tuple[str, ...] = ()
    """Each is part of an id, the model, the client, the code or the message, in lower case."""
    payload: str | None = None
    """A text in the payloads of one of the latest requests, in lower case."""
    min_ms: int | None = None
    max_ms: int | None = None
    """Of the duration."""
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def can_end(self) -> bool:
        """Whether a request may match while it runs and not when it has ended: it is not running
        any more, or another provider has answered it."""
        if self.status:
            return RUNNING in self.status
        return self.provider is not None or self.model is not None or bool(self.words)

    def conditions(self) -> tuple[list[str], dict[str, Any]]:
        """Return SQL conditions and their values."""
        found: list[str] = []
        values: dict[str, Any] = {}
        for name, condition in _CONDITIONS.items():
            if (value := getattr(self, name)) is not None:
                found.append(condition)
                values[name] = value
        for number, word in enumerate(self.words):
            found.append(_WORD.format(name=f"word{number}"))
            values[f"word{number}"] = word
        if self.status:
            names = {f"status{number}": each for number, each in enumerate(self.status)}
            listed = ", ".join(f":{name}" for name in names)
            found.append(f"ifnull(status, '{RUNNING}') IN ({listed})")
            values |= names
            if self.status == (FAILED,):
                found.append("failed = 1")  # lets SQLite use the index of failures
        return found, values


_WORD = """
    instr(lower(
        request_id || ' ' || ifnull(response_id, '') || ' ' || model || ' ' || ifnull(client, '')
        || ' ' || ifnull(provider, '') || '/' || ifnull(provider_model, '')
        || ' ' || ifnull(code, '') || ' ' || ifnull(message, '')
    ), :{name})
"""
_CONDITIONS: Mapping[str, str] = {
    "client": "client = :client",
    "model": "(model = :model OR provider_model = :model)",
    "provider": "provider = :provider",
    "code": "code = :code",
    "session": "session = :session",
    "min_ms": "duration_ms > :min_ms",
    "max_ms": "duration_ms < :max_ms",
    "payload": f"""
        seq > (SELECT max(seq) FROM summary) - {SEARCHED_PAYLOADS} AND EXISTS (
            SELECT 1 FROM fact WHERE fact.request_id = summary.request_id
            AND kind = 'stream' AND has_text(blob, :payload)
        )
    """,
    "since_ms": "received_at_ms >= :since_ms",
    "until_ms": "received_at_ms < :until_ms",
}


class ChangedRequests(NamedTuple):
    """What changed after a mark."""

    mark: int
    """The mark of the last change."""
    rows: list[RequestRow]
    """Requests that match the filter, oldest first."""
    gone: list[int]
    """The `seq` of requests that do not match it, and may have matched before."""


class RequestDetail(Struct, frozen=True):
    """All rows of a request with the times they were recorded; streams without payloads."""

    request_id: str
    rows: tuple[tuple[int, TraceRow], ...]


def list_summaries(
    path: Path,
    chosen: RequestFilter,
    *,
    limit: int,
    before: int | None = None,
    sort: str | None = None,
    offset: int = 0,
) -> list[RequestRow]:
    """Return the latest requests, newest first; `before` continues below a `seq`. With `sort`, one
    of `SORTS`, those with the largest values first; `offset` continues."""
    if sort is None:
        query, values = make_page_query(chosen, limit=limit, before=before)
    else:
        query, values = _make_sorted_query(chosen, sort, limit=limit, offset=offset)
    with _open(path) as connection:
        return [_make_row(row) for row in connection.execute(query, values)]


def make_page_query(
    chosen: RequestFilter, *, limit: int, before: int | None
) -> tuple[str, dict[str, Any]]:
    """Return the query of one page of a list, and its values."""
    found, values = chosen.conditions()
    if before is not None:
        found.append("seq < :before")
    where = f"WHERE {' AND '.join(found)} " if found else ""
    query = f"SELECT {_SELECTED} FROM summary {where}ORDER BY seq DESC LIMIT :limit"
    return query, {**values, "before": before, "limit": limit}


def _make_sorted_query(
    chosen: RequestFilter, sort: str, *, limit: int, offset: int
) -> tuple[str, dict[str, Any]]:
    found, values = chosen.conditions()
    where = f"WHERE {' AND '.join(found)} " if found else ""
    order = f"ORDER BY {SORTS[sort]} DESC NULLS LAST, seq DESC LIMIT :limit OFFSET :offset"
    query = f"SELECT {_SELECTED} FROM summary {where}{order}"
    return query, {**values, "limit": limit, "offset": offset}


class RequestTotals(Struct, frozen=True):
    """Sums of the requests that a filter lets through."""

    requests: int
    failed: int
    rejected: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost: float
    unpriced: int
    """Requests with tokens of an unknown price."""


_TOTALS = f"""
    SELECT count(*), ifnull(sum(failed), 0), ifnull(sum(status IS '{REJECTED}'), 0),
        ifnull(sum(input_tokens), 0), ifnull(sum(cached_tokens), 0),
        ifnull(sum(output_tokens), 0), ifnull(sum(cost), 0.0),
        ifnull(sum(cost IS NULL AND input_tokens IS NOT NULL), 0)
    FROM summary
"""


def sum_requests(path: Path, chosen: RequestFilter) -> RequestTotals:
    found, values = chosen.conditions()
    where = f" WHERE {' AND '.join(found)}" if found else ""
    with _open(path) as connection:
        return RequestTotals(*connection.execute(_TOTALS + where, values).fetchone())


def list_changed(path: Path, chosen: RequestFilter, *, after: int, limit: int) -> ChangedRequests:
    """Return the requests that began or changed after a mark, and the next mark."""
    found, values = chosen.conditions()
    matching = " AND ".join(found) or "1"
    with _open(path) as connection:
        last = _read_mark(connection)
        if last <= after:
            return ChangedRequests(last, [], [])
        values |= {"after": after, "last": last, "limit": limit}
        rows = connection.execute(_CHANGED.format(columns=_SELECTED, where=matching), values)
        changed = ChangedRequests(last, [_make_row(row) for row in rows], [])
        if chosen.can_end:
            others = _CHANGED.format(columns="seq", where=f"NOT ({matching})")
            changed.gone.extend(seq for (seq,) in connection.execute(others, values))
        return changed


def read_mark(path: Path) -> int:
    """Return the mark of the last change, for `list_changed`."""
    with _open(path) as connection:
        return _read_mark(connection)


def list_choices(path: Path) -> dict[str, list[str]]:
    """Return the values that occur in the columns with filters."""
    names = ("client", "model", "provider", "code")
    with _open(path) as connection:
        return {
            name: [value for (value,) in connection.execute(_CHOICES.format(name=name)) if value]
            for name in names
        }


class MinuteCounts(NamedTuple):
    """The requests of one minute, counted as usage counts them."""

    minute: int
    """Minutes since the epoch."""
    requests: int
    """Requests that were accepted."""
    failures: int
    rejected: int
    """Requests that were rejected before a provider was chosen."""


def count_minutes(path: Path, since_ms: int) -> list[MinuteCounts]:
    """Return the counts of each minute that has requests."""
    with _open(path) as connection:
        return [MinuteCounts(*row) for row in connection.execute(_MINUTES, (since_ms,))]


def list_first_outputs(path: Path, since_ms: int, limit: int) -> list[int]:
    """Return the milliseconds to the first output of the latest requests that had one."""
    with _open(path) as connection:
        return [row[0] for row in connection.execute(_FIRST_OUTPUTS, (since_ms, limit))]


def find_neighbours(path: Path, request_id: str) -> tuple[str | None, str | None]:
    """Return the ids of the next newer and the next older request."""
    with _open(path) as connection:
        newer, older = connection.execute(_NEIGHBOURS, (request_id,)).fetchone() or (None, None)
    return newer, older


def read_request(path: Path, id: str) -> RequestDetail | None:
    """Return the rows of a request by its own id or that of its response; None if unknown."""
    with _open(path) as connection:
        request_id = _resolve(connection, id)
        found = connection.execute(_ROWS, (request_id,)).fetchall()
    rows = tuple((at_ms, row) for at_ms, body in found if (row := _decode(body)) is not None)
    return RequestDetail(request_id, rows) if rows else None


def read_streams(path: Path, id: str) -> list[TraceStream]:
    """Return the streams of a request with their payloads."""
    with _open(path) as connection:
        found = connection.execute(_STREAMS, (_resolve(connection, id),)).fetchall()
    streams = ((_decode(body), blob) for body, blob in found)
    return [
        replace(row, blob=zlib.decompress(blob)) if blob is not None else row
        for row, blob in streams
        if isinstance(row, TraceStream)
    ]


@contextmanager
def _open(path: Path) -> Iterator[sqlite3.Connection]:
    with convert_errors(path), closing(connect_reader(path)) as connection:
        connection.create_function("has_text", 2, _has_text)
        yield connection


def _has_text(blob: bytes | None, text: str) -> bool:
    """Whether a compressed payload has a text, whatever its case."""
    return blob is not None and text in zlib.decompress(blob).decode("utf-8", "replace").lower()


def _read_mark(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT ifnull(max(changed), 0) FROM summary").fetchone()[0])


def _resolve(connection: sqlite3.Connection, id: str) -> str:
    found = connection.execute(_BY_RESPONSE, (id,)).fetchone()
    return str(found[0]) if found else id


def _decode(body: str) -> TraceRow | None:
    """Decode a row; None if it is of a kind that only a later version knows."""
    try:
        row: TraceRow = decode_row(body)
        return row
    except msgspec.MsgspecError:
        return None


def _make_row(values: tuple[Any, ...]) -> RequestRow:
    named = zip(("seq", *COLUMNS), values, strict=True)
    given = {name: value for name, value in named if value is not None}
    return RequestRow(**given | {name: bool(given.get(name)) for name in ("stream", "failed")})
