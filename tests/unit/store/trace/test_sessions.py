"""Sessions of a trace: sums by session, pages, and their requests in order."""

from __future__ import annotations

from pathlib import Path

from antiphon.store.trace.rows import TraceRow
from antiphon.store.trace.sessions import list_sessions, read_turns
from tests.support.traces import finish, request, trace_at, write_rows


def test_sessions_are_listed_in_pages_and_read_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "trace.db"
    rows: list[TraceRow] = [
        request("q1", session="one", model="a"),
        finish("q1", "failed"),
        request("q2", session="two"),
        request("q3", session="one", model="b"),
        request("q4"),
        request("q5", session="resp_5"),
    ]
    write_rows(trace_at(path), *rows)
    (latest,) = list_sessions(path, limit=1)
    assert (latest.session, latest.requests, latest.failed) == ("one", 2, 1)
    assert latest.model == "b"
    (older,) = list_sessions(path, limit=9, before=latest.last_seq)
    assert older.session == "two"
    assert [each.requests for each in list_sessions(path, limit=9, id="resp_5")] == [1]
    turns = read_turns(path, "one", after=0, limit=9)
    assert [request_id for _, request_id, _ in turns] == ["q1", "q3"]
    assert read_turns(path, "one", after=turns[0][0], limit=9) == turns[1:]
