"""The summary table: one row per request, kept up to date in any order of batches."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from antiphon.store.sqlite.file import DatabaseSchema, connect
from antiphon.store.trace.listing import RequestFilter, RequestRow, list_summaries
from antiphon.store.trace.rows import TraceAttempt, TraceError, TraceFinish, TraceRow, TraceUsage
from antiphon.store.trace.summary import COLUMNS, delete_summaries, update_summaries
from antiphon.store.trace.table import SCHEMA, EncodedRow, insert_rows
from tests.support.traces import NOW_MS, request, stream


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trace.db"


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(connect(path, SCHEMA, synchronous="NORMAL")) as connection:
        yield connection


def attempt(number: int, provider: str = "p", **changes: object) -> TraceAttempt:
    values = {"request_id": "q1", "number": number, "provider": provider, "model": "m", **changes}
    return msgspec.convert(values, TraceAttempt)


ROWS: list[tuple[int, TraceRow]] = [
    (NOW_MS, request("q1", response_id="resp_1", client="alice", provider="first", stream=True)),
    (NOW_MS + 50, attempt(1, "first", fault_type="rate_limit")),
    (NOW_MS + 300, attempt(2, "second")),
    (NOW_MS + 900, attempt(3, "second")),
    (NOW_MS + 950, TraceUsage(request_id="q1", input_tokens=7, cached_tokens=3, output_tokens=2)),
    (
        NOW_MS + 950,
        TraceFinish(
            request_id="q1",
            status="completed",
            duration_ms=950,
            events=12,
            provider="second",
            provider_model="m2",
            dialect="chat",
        ),
    ),
]


def expect_summary(row: RequestRow) -> None:
    assert (row.request_id, row.response_id, row.client) == ("q1", "resp_1", "alice")
    assert (row.provider, row.provider_model, row.dialect) == ("second", "m2", "chat")
    assert (row.status, row.failed, row.stream, row.attempts) == ("completed", False, True, 3)
    assert (row.input_tokens, row.cached_tokens, row.output_tokens) == (7, 3, 2)
    assert (row.first_output_at_ms, row.duration_ms, row.events) == (NOW_MS + 300, 950, 12)


def test_one_batch_makes_one_summary(connection: sqlite3.Connection, path: Path) -> None:
    update_summaries(connection, ROWS)
    [row] = list_summaries(path, RequestFilter(), limit=9)
    expect_summary(row)


def test_rows_of_several_batches_are_joined(connection: sqlite3.Connection, path: Path) -> None:
    for row in ROWS:
        update_summaries(connection, [row])
    [summary] = list_summaries(path, RequestFilter(), limit=9)
    expect_summary(summary)
    assert summary.changed == len(ROWS)


def test_a_request_is_running_until_it_is_finished(
    connection: sqlite3.Connection, path: Path
) -> None:
    update_summaries(connection, ROWS[:2])
    [row] = list_summaries(path, RequestFilter(), limit=9)
    assert (row.status, row.provider, row.duration_ms) == ("running", "first", None)


def test_a_failure_has_its_code_and_the_beginning_of_its_message(
    connection: sqlite3.Connection, path: Path
) -> None:
    error = TraceError(request_id="q1", code="bad", message="x" * 1000)
    finish = TraceFinish(request_id="q1", status="failed", http_status=400, duration_ms=0)
    update_summaries(connection, [ROWS[0], (NOW_MS, error), (NOW_MS, finish)])
    [row] = list_summaries(path, RequestFilter(), limit=9)
    assert (row.failed, row.status, row.code, row.http_status) == (True, "failed", "bad", 400)
    assert row.message == "x" * 300


def test_a_request_whose_own_row_was_lost_has_the_time_of_another_row(
    connection: sqlite3.Connection, path: Path
) -> None:
    update_summaries(connection, ROWS[1:])
    [row] = list_summaries(path, RequestFilter(), limit=9)
    assert (row.received_at_ms, row.model) == (NOW_MS + 50, "")


def test_requests_with_different_columns_keep_their_order(
    connection: sqlite3.Connection, path: Path
) -> None:
    names = ["q1", "q2", "q3", "q4"]
    rows: list[tuple[int, TraceRow]] = [(NOW_MS, request(name)) for name in names]
    rows += [
        (NOW_MS, TraceFinish(request_id=name, status="x", duration_ms=1))
        for name in "q1 q3".split()
    ]
    update_summaries(connection, rows)
    found = list_summaries(path, RequestFilter(), limit=9)
    assert [row.request_id for row in found] == names[::-1]
    assert [row.status for row in found] == ["running", "x", "running", "x"]
    assert {row.changed for row in found} == {1}


def test_a_request_that_is_recorded_late_has_its_own_time(
    connection: sqlite3.Connection, path: Path
) -> None:
    update_summaries(connection, ROWS[1:])
    update_summaries(connection, [(NOW_MS + 2000, ROWS[0][1])])
    [row] = list_summaries(path, RequestFilter(), limit=9)
    assert (row.received_at_ms, row.client, row.attempts) == (NOW_MS, "alice", 3)


def test_payloads_alone_change_nothing(connection: sqlite3.Connection, path: Path) -> None:
    update_summaries(connection, [(NOW_MS, stream("q1"))])
    assert list_summaries(path, RequestFilter(), limit=9) == []


def test_summaries_are_deleted_with_their_rows(connection: sqlite3.Connection, path: Path) -> None:
    rows = [request("q1"), request("q2")]
    insert_rows(connection, [EncodedRow(0, row, msgspec.json.encode(row)) for row in rows])
    delete_summaries(connection, 1)
    assert [row.request_id for row in list_summaries(path, RequestFilter(), limit=9)] == ["q2"]


def test_requests_of_an_older_file_are_listed(path: Path) -> None:
    older = DatabaseSchema(SCHEMA.application_id, SCHEMA.migrations[:1])
    error = TraceError(request_id="q0", code="bad", message="No.")
    finish = TraceFinish(request_id="q0", status="failed", duration_ms=3)
    refusal = TraceFinish(request_id="q3", status="rejected", duration_ms=0)
    facts = [*ROWS, (NOW_MS, request("q0")), (NOW_MS, error), (NOW_MS, finish)]
    facts += [(NOW_MS, request("q3")), (NOW_MS, refusal)]
    insert = "INSERT INTO fact (at_ms, kind, request_id, response_id, body) VALUES (?, ?, ?, ?, ?)"
    with closing(connect(path, older, synchronous="NORMAL")) as connection:
        for at_ms, row in facts:
            kind, response = str(row.__struct_config__.tag), getattr(row, "response_id", None)
            body = msgspec.json.encode(row).decode()
            connection.execute(insert, (at_ms, kind, row.request_id, response, body))
    connect(path, SCHEMA, synchronous="NORMAL").close()
    rejected, failed, completed = list_summaries(path, RequestFilter(), limit=9)
    assert (rejected.status, rejected.failed) == ("rejected", False)
    assert (failed.failed, failed.code, failed.message) == (True, "bad", "No.")
    assert (completed.provider, completed.attempts, completed.failed) == ("second", 3, False)
    assert (completed.input_tokens, completed.duration_ms) == (7, 950)


def test_every_column_is_a_field_of_the_list() -> None:
    assert {"seq", *COLUMNS} == set(RequestRow.__struct_fields__)
