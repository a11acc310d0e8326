"""Queries on a trace file: list requests, read one in detail. Works while it is being written."""

from __future__ import annotations

import math
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from antiphon.store.sqlite.file import connect_reader, convert_errors
from antiphon.store.trace.rows import (
    TraceAttempt,
    TraceDiagnostic,
    TraceError,
    TraceFinish,
    TraceLoss,
    TraceRequest,
    TraceRow,
    TraceServerCall,
    TraceSkip,
    TraceStream,
    TraceUsage,
    decode_row,
)
from antiphon.store.trace.summary import FAILED

_REQUESTS = "SELECT body, NULL FROM fact WHERE kind = 'request' ORDER BY seq DESC"
_ROWS_WITH_BLOBS = "SELECT body, blob FROM fact WHERE request_id = ? ORDER BY seq"
_ROWS = "SELECT body, NULL FROM fact WHERE request_id = ? ORDER BY seq"
_BY_RESPONSE = "SELECT request_id FROM fact WHERE response_id = ? ORDER BY seq LIMIT 1"
_LAST = "SELECT ifnull(max(seq), 0) FROM fact"
_ENDED_SINCE = "SELECT seq, request_id FROM fact WHERE seq > ? AND kind = 'finish' ORDER BY seq"
_LOSSES = "SELECT body, NULL FROM fact WHERE kind = 'loss'"

_DISORDER_MS = 3_600_000

R = TypeVar("R", bound=TraceRow)


class TraceSummary(Struct, frozen=True, kw_only=True):
    """Summary of one request, for lists."""

    request: TraceRequest
    attempts: int = 0
    errors: int = 0
    code: str | None = None
    """The code of its last error."""
    message: str | None = None
    """What its client was told of that error."""
    usage: TraceUsage | None = None
    finish: TraceFinish | None = None
    """None while the request is running, or if its last row was lost."""

    @property
    def provider(self) -> str:
        """The provider that answered; before the end, the first one."""
        return (self.finish and self.finish.provider) or self.request.provider

    @property
    def provider_model(self) -> str:
        return (self.finish and self.finish.provider_model) or self.request.provider_model

    @property
    def is_failed(self) -> bool:
        """Whether its response failed. A request that was rejected had none."""
        return self.errors > 0 if self.finish is None else self.finish.status == FAILED


class TraceFilter(Struct, frozen=True, kw_only=True):
    """Which requests a list has; None: any."""

    client: str | None = None
    model: str | None = None
    """As the client asked for it, or as its provider names it."""
    provider: str | None = None
    status: str | None = None
    """The status of the response, `rejected`, or `running`."""
    code: str | None = None
    session: str | None = None
    failed: bool = False
    since_ms: float | None = None
    until_ms: float | None = None

    def accepts(self, summary: TraceSummary) -> bool:
        request = summary.request
        finish = summary.finish
        found = (
            (self.client, (request.client,)),
            (self.model, (request.model, summary.provider_model)),
            (self.provider, (summary.provider,)),
            (self.status, (finish.status if finish else "running",)),
            (self.code, (summary.code,)),
            (self.session, (request.session,)),
        )
        matches = all(wanted is None or wanted in values for wanted, values in found)
        is_in_time = (self.since_ms or 0) <= request.received_at_ms <= (self.until_ms or math.inf)
        return matches and is_in_time and (summary.is_failed or not self.failed)

    def ends_before(self, request: TraceRequest) -> bool:
        """Whether a request, and so every one written before it, is too old. Rows of several
        gateways are not exactly in the order of time."""
        return request.received_at_ms < (self.since_ms or 0) - _DISORDER_MS


class TraceDetail(Struct, frozen=True, kw_only=True):
    """All rows of one request, each kind in the order it was recorded."""

    request: TraceRequest | None = None
    attempts: tuple[TraceAttempt, ...] = ()
    skipped: tuple[TraceSkip, ...] = ()
    server_calls: tuple[TraceServerCall, ...] = ()
    diagnostics: tuple[TraceDiagnostic, ...] = ()
    streams: tuple[TraceStream, ...] = ()
    errors: tuple[TraceError, ...] = ()
    usage: TraceUsage | None = None
    finish: TraceFinish | None = None


def list_requests(
    path: Path,
    limit: int = 50,
    *,
    model: str | None = None,
    failed: bool = False,
    where: TraceFilter | None = None,
) -> list[TraceSummary]:
    """Return the latest requests that a filter accepts, newest first."""
    where = where or TraceFilter(model=model, failed=failed)
    found: list[TraceSummary] = []
    with convert_errors(path), closing(connect_reader(path)) as connection:
        for row in _read_rows(connection, _REQUESTS):
            if not isinstance(row, TraceRequest):
                continue
            if len(found) >= limit or where.ends_before(row):
                break
            summary = _summarize(row, connection)
            if where.accepts(summary):
                found.append(summary)
    return found


class TraceFollower:
    """Reads requests as they end. Rows of one request may be written at different times: a request
    is returned once, when its last row has been written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with convert_errors(path), closing(connect_reader(path)) as connection:
            (self._last,) = connection.execute(_LAST).fetchone()

    def poll(self, where: TraceFilter) -> list[TraceSummary]:
        """Return the requests that have ended since the last call, oldest first."""
        found: list[TraceSummary] = []
        with convert_errors(self._path), closing(connect_reader(self._path)) as connection:
            ended = connection.execute(_ENDED_SINCE, (self._last,)).fetchall()
            for self._last, request_id in ended:
                rows = list(_read_rows(connection, _ROWS, request_id))
                if (request := _last(rows, TraceRequest)) is not None:
                    found.append(_summarize(request, connection))
        return [summary for summary in found if where.accepts(summary)]


def read_detail(path: Path, id: str) -> TraceDetail | None:
    """Return all rows of a request, by its own id or that of its response; None if unknown."""
    with convert_errors(path), closing(connect_reader(path)) as connection:
        by_response = connection.execute(_BY_RESPONSE, (id,)).fetchone()
        rows = list(_read_rows(connection, _ROWS_WITH_BLOBS, by_response[0] if by_response else id))
    return build_detail(rows) if rows else None


def read_losses(path: Path) -> TraceLoss:
    """Return how many rows were dropped or could not be written."""
    with convert_errors(path), closing(connect_reader(path)) as connection:
        rows = [row for row in _read_rows(connection, _LOSSES) if isinstance(row, TraceLoss)]
    return sum(rows, TraceLoss())


def _read_rows(connection: sqlite3.Connection, query: str, *values: str) -> Iterator[TraceRow]:
    for body, blob in connection.execute(query, values):
        try:
            row = decode_row(body)
        except msgspec.MsgspecError:  # a row kind of a later version; skip it
            continue
        if isinstance(row, TraceStream) and blob is not None:
            row = replace(row, blob=zlib.decompress(blob))
        yield row


def _summarize(request: TraceRequest, connection: sqlite3.Connection) -> TraceSummary:
    detail = build_detail(list(_read_rows(connection, _ROWS, request.request_id)))
    return TraceSummary(
        request=request,
        attempts=len(detail.attempts),
        errors=len(detail.errors),
        code=detail.errors[-1].code if detail.errors else None,
        message=detail.errors[-1].message if detail.errors else None,
        usage=detail.usage,
        finish=detail.finish,
    )


def build_detail(rows: list[TraceRow]) -> TraceDetail:
    """Sort the rows of one request by kind."""
    return TraceDetail(
        request=_last(rows, TraceRequest),
        attempts=tuple(_select(rows, TraceAttempt)),
        skipped=tuple(_select(rows, TraceSkip)),
        server_calls=tuple(_select(rows, TraceServerCall)),
        diagnostics=tuple(_select(rows, TraceDiagnostic)),
        streams=tuple(_select(rows, TraceStream)),
        errors=tuple(_select(rows, TraceError)),
        usage=_last(rows, TraceUsage),
        finish=_last(rows, TraceFinish),
    )


def _select(rows: list[TraceRow], kind: type[R]) -> list[R]:
    return [row for row in rows if isinstance(row, kind)]


def _last(rows: list[TraceRow], kind: type[R]) -> R | None:
    found = _select(rows, kind)
    return found[-1] if found else None
