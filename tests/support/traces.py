"""Trace files for tests: writing rows and reading them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from antiphon.store.redact import Redactor
from antiphon.store.trace.reader import TraceDetail, read_detail
from antiphon.store.trace.rows import TraceFinish, TraceRequest, TraceRow, TraceStream
from antiphon.store.trace.trace_store import TraceOptions, TraceStore

NOW_MS = 1_700_000_000_000
CANARY = "canary-0123456789"


def trace_at(path: Path, at_ms: int = NOW_MS, **options: Any) -> TraceStore:
    """A trace store with a fixed clock."""
    return TraceStore(
        path,
        epoch_s=lambda: at_ms / 1000,
        redactor=Redactor([CANARY]),
        options=TraceOptions(**options),
    )


def write_rows(trace: TraceStore, *rows: TraceRow) -> None:
    """Record rows, and return when they are on disk."""
    for row in rows:
        trace.record(row)
    trace.open()
    trace.close()


def request(id: str, **changes: Any) -> TraceRequest:
    values: dict[str, Any] = {"request_id": id, "received_at_ms": NOW_MS, "model": "m"}
    return TraceRequest(**values | changes)


def stream(id: str, blob: bytes = b"data: 1\n\n", kind: Any = "raw", **changes: Any) -> TraceStream:
    return TraceStream(request_id=id, kind=kind, blob=blob, **changes)


def finish(id: str, status: str = "completed", **changes: Any) -> TraceFinish:
    return TraceFinish(request_id=id, status=status, duration_ms=12, **changes)


def read_trace(path: Path, id: str) -> TraceDetail:
    detail = read_detail(path, id)
    assert detail is not None
    return detail


@contextmanager
def open_database(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection
