"""Queries on a trace file: list requests, read one in detail. Works while it is being written."""

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

from antiphon.store.sqlite_file import connect_reader, convert_errors
from antiphon.store.trace.rows import (
    TraceAttempt,
    TraceDiagnostic,
    TraceError,
    TraceFinish,
    TraceLoss,
    TraceRequest,
    TraceRow,
    TraceSkip,
    TraceStream,
    TraceUsage,
    decode_row,
)

_REQUESTS = "SELECT body, NULL FROM fact WHERE kind = 'request' ORDER BY seq DESC"
_ROWS_WITH_BLOBS = "SELECT body, blob FROM fact WHERE request_id = ? ORDER BY seq"
_ROWS = "SELECT body, NULL FROM fact WHERE request_id = ? ORDER BY seq"
_BY_RESPONSE = "SELECT request_id FROM fact WHERE response_id = ? ORDER BY seq DESC LIMIT 1"
_LOSSES = "SELECT body, NULL FROM fact WHERE kind = 'loss'"

R = TypeVar("R", bound=TraceRow)


class TraceSummary(Struct, frozen=True, kw_only=True):
    """Summary of one request, for lists."""

    request: TraceRequest
    attempts: int = 0
    errors: int = 0
    usage: TraceUsage | None = None
    finish: TraceFinish | None = None
    """None while the request is running, or if its last row was lost."""

    @property
    def is_failed(self) -> bool:
        return self.errors > 0 or (
            self.finish is not None and self.finish.status in ("failed", "rejected")
        )


class TraceDetail(Struct, frozen=True, kw_only=True):
    """All rows of one request, each kind in the order it was recorded."""

    request: TraceRequest | None = None
    attempts: tuple[TraceAttempt, ...] = ()
    skipped: tuple[TraceSkip, ...] = ()
    diagnostics: tuple[TraceDiagnostic, ...] = ()
    streams: tuple[TraceStream, ...] = ()
    errors: tuple[TraceError, ...] = ()
    usage: TraceUsage | None = None
    finish: TraceFinish | None = None


def list_requests(
    path: Path, limit: int = 50, *, model: str | None = None, failed: bool = False
) -> list[TraceSummary]:
    """Return the latest requests, newest first; optionally of one model, or failed ones."""
    found: list[TraceSummary] = []
    with convert_errors(path), closing(connect_reader(path)) as connection:
        for row in _read_rows(connection, _REQUESTS):
            if len(found) >= limit:
                break
            if not isinstance(row, TraceRequest) or model not in (None, row.model):
                continue
            summary = _summarize(row, connection)
            if summary.is_failed or not failed:
                found.append(summary)
    return found


def read_detail(path: Path, id: str) -> TraceDetail | None:
    """Return all rows of a request, by its own id or that of its response; None if unknown."""
    with convert_errors(path), closing(connect_reader(path)) as connection:
        by_response = connection.execute(_BY_RESPONSE, (id,)).fetchone()
        rows = list(_read_rows(connection, _ROWS_WITH_BLOBS, by_response[0] if by_response else id))
    return _build_detail(rows) if rows else None


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
    detail = _build_detail(list(_read_rows(connection, _ROWS, request.request_id)))
    return TraceSummary(
        request=request,
        attempts=len(detail.attempts),
        errors=len(detail.errors),
        usage=detail.usage,
        finish=detail.finish,
    )


def _build_detail(rows: list[TraceRow]) -> TraceDetail:
    return TraceDetail(
        request=_last(rows, TraceRequest),
        attempts=tuple(_select(rows, TraceAttempt)),
        skipped=tuple(_select(rows, TraceSkip)),
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
