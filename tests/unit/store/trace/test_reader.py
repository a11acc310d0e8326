"""Listing requests of a trace file, and reading one of them in full."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import StoreError
from antiphon.store.trace.reader import (
    TraceDetail,
    TraceFilter,
    TraceFollower,
    list_requests,
    read_detail,
)
from antiphon.store.trace.rows import (
    TraceAttempt,
    TraceDiagnostic,
    TraceError,
    TraceRow,
    TraceUsage,
)
from tests.support.traces import (
    NOW_MS,
    finish,
    open_database,
    read_trace,
    request,
    trace_at,
    write_rows,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "trace.sqlite"


def test_a_request_is_read_with_all_its_rows(path: Path) -> None:
    asked = request("q1", response_id="resp_1", client="alice", provider="p", stream=True)
    attempts = [
        TraceAttempt(
            request_id="q1", number=1, provider="p", model="m", status=429, fault_code="busy"
        ),
        TraceAttempt(
            request_id="q1", number=2, provider="p", model="m", status=200, latency_ms=345
        ),
    ]
    diagnostic = TraceDiagnostic(
        request_id="q1", code="x.ignored", decision="ignored", param="top_k", message="Unknown."
    )
    usage = TraceUsage(request_id="q1", input_tokens=3, output_tokens=5)
    error = TraceError(request_id="q1", code="late", message="Too late.")
    write_rows(
        trace_at(path), asked, *attempts, diagnostic, usage, error, finish("q1"), request("q2")
    )
    expected = TraceDetail(
        request=asked,
        attempts=tuple(attempts),
        diagnostics=(diagnostic,),
        errors=(error,),
        usage=usage,
        finish=finish("q1"),
    )
    assert read_detail(path, "q1") == expected
    assert read_detail(path, "resp_1") == expected
    assert read_detail(path, "resp_2") is None


def test_requests_are_listed_newest_first_and_can_be_filtered(path: Path) -> None:
    rows: list[TraceRow] = []
    for number in range(6):
        id = f"q{number}"
        rows += [
            request(id, model="odd" if number % 2 else "even"),
            TraceAttempt(request_id=id, number=1, provider="p", model="m"),
            finish(id, "failed" if number in (1, 2) else "completed"),
        ]
    write_rows(
        trace_at(path), *rows, TraceError(request_id="q5", code="x", message="x"), request("q6")
    )
    listed = list_requests(path)
    assert [one.request.request_id for one in listed] == ["q6", "q5", "q4", "q3", "q2", "q1", "q0"]
    assert (listed[0].finish, listed[0].attempts) == (None, 0)
    assert (listed[1].finish, listed[1].attempts) == (finish("q5"), 1)

    def chosen(**choice: Any) -> list[str]:
        return [one.request.request_id for one in list_requests(path, **choice)]

    assert chosen(limit=2) == ["q6", "q5"]
    assert chosen(model="odd") == ["q5", "q3", "q1"]
    assert chosen(failed=True) == ["q2", "q1"]  # q5 has completed, whatever went wrong in it
    assert chosen(failed=True, model="even", limit=1) == ["q2"]


def test_rows_of_an_unknown_kind_are_skipped(path: Path) -> None:
    write_rows(trace_at(path), request("q1"))
    with open_database(path) as connection:
        connection.execute(
            "INSERT INTO fact (at_ms, kind, request_id, body)"
            " VALUES (0, 'dream', 'q1', '{\"row\":\"dream\"}')"
        )
    assert read_trace(path, "q1").request == request("q1")


def test_a_missing_or_foreign_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"none\.sqlite: unable to open"):
        list_requests(tmp_path / "none.sqlite")
    (tmp_path / "other.sqlite").write_bytes(b"something else entirely" * 100)
    with pytest.raises(StoreError, match=r"other\.sqlite: the file is damaged"):
        read_detail(tmp_path / "other.sqlite", "q1")


def test_a_follower_returns_each_request_once_when_it_has_ended(path: Path) -> None:
    write_rows(trace_at(path), request("before"), finish("before"), request("q1"))
    follower, everything = TraceFollower(path), TraceFilter()
    assert follower.poll(everything) == []
    write_rows(trace_at(path), request("q2"), finish("q1", "failed"))
    assert [each.request.request_id for each in follower.poll(everything)] == ["q1"]
    write_rows(trace_at(path), finish("q2"), finish("lost"))
    assert [each.request.request_id for each in follower.poll(everything)] == ["q2"]
    assert follower.poll(everything) == []


def test_a_follower_obeys_its_filter(path: Path) -> None:
    write_rows(trace_at(path), request("before"))
    follower = TraceFollower(path)
    write_rows(trace_at(path), request("q1", client="a"), finish("q1"), finish("before"))
    assert [each.request.client for each in follower.poll(TraceFilter(client="a"))] == ["a"]


def test_an_old_request_ends_the_search_but_a_little_disorder_does_not(path: Path) -> None:
    hour_ms = 3_600_000
    rows = [request(f"q{age}", received_at_ms=NOW_MS - age * hour_ms) for age in (3, 0, 1)]
    write_rows(trace_at(path), *rows)
    found = list_requests(path, where=TraceFilter(since_ms=NOW_MS - hour_ms / 2))
    assert [each.request.request_id for each in found] == ["q0"]
