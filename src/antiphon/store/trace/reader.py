"""Looking into a trace, also while it is being written. Plain functions that read and return."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from antiphon.store.sqlite_file import connect_reader, naming
from antiphon.store.trace.rows import (
    TraceAttempt,
    TraceDiagnostic,
    TraceError,
    TraceFinish,
    TraceLoss,
    TraceRequest,
    TraceRow,
    TraceStream,
    TraceUsage,
    decode_row,
)

_REQUESTS = "SELECT body, NULL FROM fact WHERE kind = 'request' ORDER BY seq DESC"
_ONE = "SELECT body, blob FROM fact WHERE request_id = ? ORDER BY seq"
_FACTS = "SELECT body, NULL FROM fact WHERE request_id = ? ORDER BY seq"
_BY_RESPONSE = "SELECT request_id FROM fact WHERE response_id = ? ORDER BY seq DESC LIMIT 1"
_LOSSES = "SELECT body, NULL FROM fact WHERE kind = 'loss'"

R = TypeVar("R", bound=TraceRow)


class TraceSummary(Struct, frozen=True, kw_only=True):
    """A line in a list of requests."""

    request: TraceRequest
    attempts: int = 0
    errors: int = 0
    usage: TraceUsage | None = None
    finish: TraceFinish | None = None
    """None while the request is running, or when its end was lost."""

    @property
    def is_failed(self) -> bool:
        return self.errors > 0 or (self.finish is not None and self.finish.status == "failed")


class TraceDetail(Struct, frozen=True, kw_only=True):
    """All that is known of a request, each kind in the order it was recorded."""

    request: TraceRequest | None = None
    attempts: tuple[TraceAttempt, ...] = ()
    diagnostics: tuple[TraceDiagnostic, ...] = ()
    streams: tuple[TraceStream, ...] = ()
    errors: tuple[TraceError, ...] = ()
    usage: TraceUsage | None = None
    finish: TraceFinish | None = None


def requests(
    path: Path, limit: int = 50, *, model: str | None = None, failed: bool = False
) -> list[TraceSummary]:
    """The latest requests, newest first: all, those for a model, or those that failed."""
    found: list[TraceSummary] = []
    with naming(path), closing(connect_reader(path)) as connection:
        for row in _rows(connection, _REQUESTS):
            if len(found) >= limit:
                break
            if not isinstance(row, TraceRequest) or model not in (None, row.model):
                continue
            summary = _summary(row, connection)
            if summary.is_failed or not failed:
                found.append(summary)
    return found


def show(path: Path, id: str) -> TraceDetail | None:
    """Everything about one request, by its own id or that of its response."""
    with naming(path), closing(connect_reader(path)) as connection:
        by_response = connection.execute(_BY_RESPONSE, (id,)).fetchone()
        rows = list(_rows(connection, _ONE, by_response[0] if by_response else id))
    return _detail(rows) if rows else None


def losses(path: Path) -> TraceLoss:
    """How much this trace does not tell."""
    with naming(path), closing(connect_reader(path)) as connection:
        rows = [row for row in _rows(connection, _LOSSES) if isinstance(row, TraceLoss)]
    return sum(rows, TraceLoss())


def _rows(connection: sqlite3.Connection, query: str, *values: str) -> Iterator[TraceRow]:
    for body, blob in connection.execute(query, values):
        try:
            row = decode_row(body)
        except msgspec.MsgspecError:  # of a later version; what is known is still worth showing
            continue
        if isinstance(row, TraceStream) and blob is not None:
            row = replace(row, blob=zlib.decompress(blob))
        yield row


def _summary(request: TraceRequest, connection: sqlite3.Connection) -> TraceSummary:
    detail = _detail(list(_rows(connection, _FACTS, request.request_id)))
    return TraceSummary(
        request=request,
        attempts=len(detail.attempts),
        errors=len(detail.errors),
        usage=detail.usage,
        finish=detail.finish,
    )


def _detail(rows: list[TraceRow]) -> TraceDetail:
    return TraceDetail(
        request=_last(rows, TraceRequest),
        attempts=tuple(_all(rows, TraceAttempt)),
        diagnostics=tuple(_all(rows, TraceDiagnostic)),
        streams=tuple(_all(rows, TraceStream)),
        errors=tuple(_all(rows, TraceError)),
        usage=_last(rows, TraceUsage),
        finish=_last(rows, TraceFinish),
    )


def _all(rows: list[TraceRow], kind: type[R]) -> list[R]:
    return [row for row in rows if isinstance(row, kind)]


def _last(rows: list[TraceRow], kind: type[R]) -> R | None:
    found = _all(rows, kind)
    return found[-1] if found else None
