"""The trace table: inserts, and deletion of rows by age and size."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from antiphon.store.sqlite.file import connect, create_directory
from antiphon.store.trace.reader import list_requests, read_detail
from antiphon.store.trace.rows import TraceError, TraceRow
from antiphon.store.trace.table import (
    RETAIN_ROWS,
    SCHEMA,
    EncodedRow,
    delete_excess_rows,
    insert_rows,
)
from tests.support.traces import NOW_MS, request, stream, trace_at, write_rows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "trace.sqlite"


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    create_directory(path)
    with closing(connect(path, SCHEMA, synchronous="NORMAL")) as connection:
        yield connection


def encoded(row: TraceRow, at_ms: int = 0, blob: bytes = b"") -> EncodedRow:
    return EncodedRow(at_ms, row, msgspec.json.encode(row), blob)


def test_a_request_is_indexed_by_its_response_and_a_payload_is_compressed(
    connection: sqlite3.Connection,
) -> None:
    rows = [encoded(request("q1", response_id="resp_1")), encoded(stream("q1"), blob=b"x" * 1000)]
    insert_rows(connection, rows)
    columns = "SELECT kind, request_id, response_id, blob FROM fact ORDER BY seq"
    first, second = connection.execute(columns).fetchall()
    assert first == ("request", "q1", "resp_1", None)
    assert second[:3] == ("stream", "q1", None)
    assert len(second[3]) < 100
    assert zlib.decompress(second[3]) == b"x" * 1000


def test_one_round_deletes_a_bounded_number_of_rows(connection: sqlite3.Connection) -> None:
    insert_rows(connection, [encoded(request(f"q{number}")) for number in range(RETAIN_ROWS + 1)])
    now_ms = 10_000
    assert delete_excess_rows(connection, now_ms, max_age_s=1, max_bytes=None)
    assert connection.execute("SELECT count(*) FROM fact").fetchone() == (1,)
    assert delete_excess_rows(connection, now_ms, max_age_s=1, max_bytes=None)
    assert not delete_excess_rows(connection, now_ms, max_age_s=1, max_bytes=None)


def test_rows_older_than_the_maximum_age_are_deleted(path: Path) -> None:
    for day in range(5):
        at_ms = NOW_MS + day * 86_400_000
        rows = (request(f"q{day}-{number}") for number in range(700))
        write_rows(trace_at(path, at_ms, max_age_s=2 * 86_400), *rows)
    days = {one.request.request_id[:2] for one in list_requests(path, limit=10_000)}
    assert days == {"q2", "q3", "q4"}
    assert len(list_requests(path, limit=10_000)) == 2100


def test_the_oldest_rows_are_deleted_when_the_file_is_too_large(path: Path) -> None:
    words = "".join(chr(97 + number * number % 26) for number in range(20_000))
    errors = [TraceError(request_id=f"q{number}", code="x", message=words) for number in range(100)]
    write_rows(trace_at(path, max_bytes=500_000), *errors)
    write_rows(trace_at(path, max_bytes=500_000))
    left = [number for number in range(100) if read_detail(path, f"q{number}")]
    assert 15 <= len(left) <= 25
    assert left == list(range(100 - len(left), 100))
    assert path.stat().st_size <= 600_000


def test_without_limits_no_row_is_deleted(path: Path) -> None:
    write_rows(trace_at(path, 0, max_age_s=None, max_bytes=None), request("old"))
    write_rows(trace_at(path, 2**50, max_age_s=None, max_bytes=None), request("new"))
    assert len(list_requests(path)) == 2
