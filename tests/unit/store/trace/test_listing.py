"""Lists of requests: filters, pages, changes, and one query that never reads payloads."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import StoreError
from antiphon.store.trace.listing import (
    RequestFilter,
    count_minutes,
    find_neighbours,
    list_changed,
    list_choices,
    list_first_outputs,
    list_summaries,
    make_page_query,
    read_mark,
    read_request,
    read_streams,
    sum_requests,
)
from antiphon.store.trace.rows import (
    TraceAttempt,
    TraceError,
    TraceFinish,
    TraceRequest,
    TraceUsage,
)
from tests.support.tables import table
from tests.support.traces import (
    NOW_MS,
    finish,
    open_database,
    request,
    stream,
    trace_at,
    write_rows,
)

MINUTE_MS = 60_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "trace.db"
    write_rows(
        trace_at(path, payloads=True),
        request("q1", client="alice", model="fast", provider="p", response_id="resp_1"),
        TraceAttempt(request_id="q1", number=1, provider="p", model="m1"),
        stream("q1", b"data: 1\n\n", offsets=[(0, NOW_MS)]),
        finish("q1"),
        request("q2", client="bob", model="smart", received_at_ms=NOW_MS - 2 * MINUTE_MS),
        TraceError(request_id="q2", code="overloaded", message="Busy."),
        TraceFinish(request_id="q2", status="failed", duration_ms=5, provider="other"),
        request("q3", client="bob", model="fast"),
    )
    return path


def ids(path: Path, **chosen: Any) -> list[str]:
    rows = list_summaries(path, RequestFilter(**chosen), limit=9)
    return [row.request_id for row in rows]


@table(
    ("chosen", "expected"),
    [
        ({}, ["q3", "q2", "q1"]),
        ({"client": "bob"}, ["q3", "q2"]),
        ({"model": "fast"}, ["q3", "q1"]),
        ({"provider": "other"}, ["q2"]),
        ({"status": ("running",)}, ["q3"]),
        ({"status": ("failed", "rejected")}, ["q2"]),
        ({"status": ("failed", "completed")}, ["q2", "q1"]),
        ({"code": "overloaded"}, ["q2"]),
        ({"since_ms": NOW_MS}, ["q3", "q1"]),
        ({"until_ms": NOW_MS}, ["q2"]),
        ({"client": "bob", "model": "fast"}, ["q3"]),
        ({"client": "x' OR 1=1 --"}, []),
    ],
)
def test_a_list_is_filtered(path: Path, chosen: dict[str, Any], expected: list[str]) -> None:
    assert ids(path, **chosen) == expected


def test_the_model_of_the_provider_is_found_too(path: Path) -> None:
    rows = request("q4", model="fast", provider_model="glm")
    write_rows(trace_at(path), rows)
    assert ids(path, model="glm") == ["q4"]


def test_pages_continue_where_the_last_one_ended(path: Path) -> None:
    first = list_summaries(path, RequestFilter(), limit=2)
    second = list_summaries(path, RequestFilter(), limit=2, before=first[-1].seq)
    assert [row.request_id for row in (*first, *second)] == ["q3", "q2", "q1"]


def test_what_changed_after_a_mark_is_listed_if_it_matches(path: Path) -> None:
    mark = read_mark(path)
    assert list_changed(path, RequestFilter(), after=mark, limit=9) == (mark, [], [])
    write_rows(trace_at(path), finish("q3"), request("q4", client="carol"))
    later, rows, _ = list_changed(path, RequestFilter(), after=mark, limit=9)
    assert later > mark
    assert [(row.request_id, row.status) for row in rows] == [
        ("q3", "completed"),
        ("q4", "running"),
    ]
    changed = list_changed(path, RequestFilter(client="carol"), after=mark, limit=9)
    assert ([row.request_id for row in changed.rows], changed.gone) == (["q4"], [])


@pytest.mark.parametrize(
    ("chosen", "leaves"),
    [
        (RequestFilter(status=("running",)), True),
        (RequestFilter(provider="p"), True),
        (RequestFilter(model="fast", client="bob"), False),  # it was asked for, so it stays
        (RequestFilter(model="m"), True),
        (RequestFilter(client="bob"), False),
        (RequestFilter(status=("failed",)), False),
        (RequestFilter(), False),
    ],
)
def test_a_request_that_matches_no_longer_is_gone(
    path: Path, chosen: RequestFilter, leaves: bool
) -> None:
    write_rows(trace_at(path), request("q4", client="bob", model="fast", provider_model="m"))
    mark, last = read_mark(path), list_summaries(path, RequestFilter(), limit=1)[0]
    write_rows(trace_at(path), finish("q4", provider="other", provider_model="n"))
    changed = list_changed(path, chosen, after=mark, limit=9)
    assert changed.gone == ([last.seq] if leaves else [])


def test_choices_are_the_values_that_occur(path: Path) -> None:
    assert list_choices(path) == {
        "client": ["alice", "bob"],
        "model": ["fast", "smart"],
        "provider": ["other", "p"],
        "code": ["overloaded"],
    }


def test_minutes_have_their_requests_and_failures(path: Path) -> None:
    minute = NOW_MS // MINUTE_MS
    assert count_minutes(path, NOW_MS - 3 * MINUTE_MS) == [(minute - 2, 1, 1, 0), (minute, 2, 0, 0)]


def test_the_time_to_the_first_output_is_that_of_the_first_attempt_with_output(path: Path) -> None:
    assert list_first_outputs(path, 0, 9) == [0]


@pytest.mark.parametrize("id", ["q1", "resp_1"])
def test_a_request_is_read_by_either_id_with_the_times_of_its_rows(path: Path, id: str) -> None:
    found = read_request(path, id)
    assert found is not None
    assert found.request_id == "q1"
    assert [(at_ms, str(row.__struct_config__.tag)) for at_ms, row in found.rows] == [
        (NOW_MS, kind) for kind in ("request", "attempt", "finish", "stream")
    ]
    [payload] = read_streams(path, id)
    assert payload.split_chunks() == [(NOW_MS, b"data: 1\n\n")]


def test_an_unknown_request_is_none(path: Path) -> None:
    assert read_request(path, "nothing") is None
    assert read_streams(path, "nothing") == []


def test_streams_without_payload_and_rows_of_later_versions_are_read(path: Path) -> None:
    write_rows(trace_at(path), stream("q5"))
    with open_database(path) as connection:
        connection.execute(
            "INSERT INTO fact (at_ms, kind, request_id, body)"
            """ VALUES (0, 'stream', 'q5', '{"row": "hologram"}')"""
        )
    [payload] = read_streams(path, "q5")
    assert (payload.blob, payload.size) == (b"", 9)
    found = read_request(path, "q5")
    assert found is not None
    assert len(found.rows) == 1


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"nothing\.db"):
        list_summaries(tmp_path / "nothing.db", RequestFilter(), limit=1)


@pytest.mark.parametrize(
    "chosen",
    [
        RequestFilter(),
        RequestFilter(client="a", model="b", provider="c", code="d"),
        RequestFilter(status=("failed", "rejected")),
        RequestFilter(status=("running",), since_ms=1),
    ],
)
def test_a_page_is_one_query_on_the_summaries_alone_without_sorting(
    path: Path, chosen: RequestFilter
) -> None:
    query, values = make_page_query(chosen, limit=50, before=100)
    with closing(sqlite3.connect(path)) as connection:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}", values)]
    assert len(plan) == 1
    assert "summary" in plan[0]
    assert "fact" not in query
    assert "blob" not in query


def test_failures_are_found_by_their_index(path: Path) -> None:
    chosen = RequestFilter(status=("failed",))
    conditions, values = chosen.conditions()
    query = f"EXPLAIN QUERY PLAN SELECT seq FROM summary WHERE {' AND '.join(conditions)}"
    with closing(sqlite3.connect(path)) as connection:
        plan = connection.execute(f"{query} ORDER BY seq DESC LIMIT 50", values).fetchall()
    assert "summary_failed" in plan[0][3]


def test_a_request_row_without_a_client_is_listed(path: Path) -> None:
    write_rows(trace_at(path), TraceRequest(request_id="q9", received_at_ms=NOW_MS, model=""))
    assert ids(path)[0] == "q9"


def test_words_are_found_in_ids_names_and_messages_whatever_their_case(path: Path) -> None:
    assert ids(path, words=("resp_1",)) == ["q1"]
    assert ids(path, words=("busy",)) == ["q2"]
    assert ids(path, words=("bob", "fast")) == ["q3"]
    assert ids(path, words=("' or 1 --",)) == []


def test_payloads_of_the_latest_requests_are_searched(path: Path) -> None:
    assert ids(path, payload="data: 1") == ["q1"]
    assert ids(path, payload="data: 2") == []


def test_durations_are_bounded(path: Path) -> None:
    assert ids(path, min_ms=5) == ["q1"]
    assert ids(path, max_ms=12) == ["q2"]


def test_a_list_is_sorted_by_its_largest_values(tmp_path: Path) -> None:
    path = tmp_path / "trace.db"
    rows = [
        (request(id), TraceUsage(request_id=id, input_tokens=tokens, cost=cost), finish(id))
        for id, tokens, cost in (("q1", 5, 0.2), ("q2", 9, None), ("q3", 7, 0.3))
    ]
    write_rows(trace_at(path), *(row for each in rows for row in each), request("q4"))

    def sort(by: str, **page: Any) -> list[str]:
        rows = list_summaries(path, RequestFilter(), sort=by, **{"limit": 9, **page})
        return [row.request_id for row in rows]

    assert sort("tokens") == ["q2", "q3", "q1", "q4"]
    assert sort("cost") == ["q3", "q1", "q4", "q2"]
    assert sort("duration", limit=2, offset=1) == ["q2", "q1"]


def test_the_sums_of_a_filter(path: Path) -> None:
    totals = sum_requests(path, RequestFilter(client="bob"))
    assert (totals.requests, totals.failed, totals.rejected, totals.cost) == (2, 1, 0, 0.0)


def test_the_neighbours_of_a_request_are_the_next_newer_and_older_one(path: Path) -> None:
    assert find_neighbours(path, "q2") == ("q3", "q1")
    assert find_neighbours(path, "q3") == (None, "q2")
    assert find_neighbours(path, "none") == (None, None)
