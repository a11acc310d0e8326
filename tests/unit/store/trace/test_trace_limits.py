"""The trace in hard times: too much, too old, or a disk that fails. Nobody waits, nobody hears."""

from __future__ import annotations

import logging
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from antiphon.errors import StoreError
from antiphon.store.trace.reader import list_requests, read_detail, read_losses
from antiphon.store.trace.rows import TraceError, TraceLoss, TraceRow
from tests.support.traces import NOW_MS, raw, request, shown, stream, trace_at, written


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "trace.sqlite"


# --- overload -------------------------------------------------------------------------------------


def test_when_the_queue_is_full_the_oldest_streams_go_first(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trace = trace_at(path, queue_rows=10)
    rows: list[TraceRow] = []
    for number in range(8):
        rows += [stream(f"q{number}"), request(f"q{number}")]
    written(trace, *rows)
    assert len(list_requests(path)) == 8
    kept = [number for number in range(8) if shown(path, f"q{number}").streams]
    assert kept == [6, 7]
    assert trace.lost == TraceLoss(low=6)
    assert read_losses(path) == TraceLoss(low=6)
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "6 streams and 0 other rows dropped" in caplog.messages[0]


def test_a_new_stream_does_not_push_out_other_rows(path: Path) -> None:
    trace = trace_at(path, queue_rows=5)
    written(trace, *(request(f"q{number}") for number in range(5)), stream("q0"))
    assert len(list_requests(path)) == 5
    assert trace.lost == TraceLoss(low=1)


def test_without_streams_the_oldest_of_the_rest_go(path: Path) -> None:
    trace = trace_at(path, queue_rows=5)
    written(trace, *(request(f"q{number}") for number in range(12)))
    assert [one.request.request_id for one in list_requests(path)] == [
        "q11",
        "q10",
        "q9",
        "q8",
        "q7",
    ]
    assert trace.lost == read_losses(path) == TraceLoss(high=7)


def test_the_queue_is_bounded_in_bytes_as_well(path: Path) -> None:
    trace = trace_at(path, payloads=True, queue_bytes=1000)
    written(trace, *(stream(f"q{number}", bytes(400)) for number in range(5)), request("q0"))
    kept = [
        number
        for number in range(5)
        if (found := read_detail(path, f"q{number}")) and found.streams
    ]
    assert kept == [3, 4]
    assert trace.lost == TraceLoss(low=3)
    assert len(list_requests(path)) == 1


def test_losing_nothing_is_not_worth_a_row(path: Path) -> None:
    trace = trace_at(path)
    written(trace, request("q1"))
    assert trace.lost == read_losses(path) == TraceLoss()
    with raw(path) as connection:
        assert connection.execute("SELECT kind FROM fact").fetchall() == [("request",)]


# --- failure --------------------------------------------------------------------------------------


class Alarm(logging.Handler):
    """Goes off at the first log line."""

    def __init__(self, event: Event) -> None:
        super().__init__()
        self.event = event

    def emit(self, record: logging.LogRecord) -> None:
        self.event.set()


def test_a_full_disk_is_counted_and_survived(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    written(trace_at(path), request("before"))
    with raw(path) as connection:
        connection.execute(
            "CREATE TRIGGER full BEFORE INSERT ON fact"
            " BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
        )
    trace = trace_at(path)
    written(trace, *(request(f"q{number}") for number in range(4)), request("q", model="\ud800"))
    assert trace.lost == TraceLoss(failed=5)
    assert [message for message in caplog.messages if "4 not written" in message]
    assert [one.request.request_id for one in list_requests(path)] == ["before"]


def test_after_a_failure_rows_are_written_again_and_tell_of_the_loss(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(trace_at(path), request("before"))
    with raw(path) as connection:
        connection.execute(
            "CREATE TRIGGER full BEFORE INSERT ON fact WHEN new.request_id = 'bad'"
            " BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
        )
    trace = trace_at(path)
    failed = Event()
    monkeypatch.setattr(logging.getLogger("antiphon.trace"), "handlers", [Alarm(failed)])
    trace.record(request("bad"))
    trace.open()
    assert failed.wait(10)
    trace.record(request("after"))
    trace.close()
    assert [one.request.request_id for one in list_requests(path)] == ["after", "before"]
    assert trace.lost == read_losses(path) == TraceLoss(failed=1)


def test_a_file_that_turns_bad_never_reaches_those_who_record(path: Path) -> None:
    trace = trace_at(path)
    trace.open()
    with raw(path) as connection:
        connection.execute("DROP TABLE fact")
    for number in range(100):
        trace.record(request(f"q{number}"))
    trace.close()
    assert trace.lost == TraceLoss(failed=100)
    trace.record(request("late"))
    trace.close()


def test_a_row_that_is_no_text_is_lost_alone(path: Path) -> None:
    trace = trace_at(path)
    bad: Any = object()
    written(
        trace, request("a"), request("b", model="\ud800"), request("c", model=bad), request("d")
    )
    assert [one.request.request_id for one in list_requests(path)] == ["d", "a"]
    assert trace.lost == read_losses(path) == TraceLoss(failed=2)


def test_a_file_that_cannot_be_used_is_told_when_opening(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    path = tmp_path / "file" / "trace.sqlite"
    trace = trace_at(path)
    with pytest.raises(StoreError, match=r"trace\.sqlite: "):
        trace.open()
    trace.record(request("q1"))
    trace.close()
    assert not path.exists()


# --- retention ------------------------------------------------------------------------------------


def test_rows_beyond_their_age_go(path: Path) -> None:
    for day in range(5):
        at_ms = NOW_MS + day * 86_400_000
        rows = (request(f"q{day}-{number}") for number in range(700))
        written(trace_at(path, at_ms, max_age_s=2 * 86_400), *rows)
    days = {one.request.request_id[:2] for one in list_requests(path, limit=10_000)}
    assert days == {"q2", "q3", "q4"}
    assert len(list_requests(path, limit=10_000)) == 2100


def test_the_oldest_go_when_the_file_grows_too_large(path: Path) -> None:
    words = "".join(chr(97 + number * number % 26) for number in range(20_000))
    errors = [TraceError(request_id=f"q{number}", code="x", message=words) for number in range(100)]
    written(trace_at(path, max_bytes=500_000), *errors)
    written(trace_at(path, max_bytes=500_000))
    left = [number for number in range(100) if read_detail(path, f"q{number}")]
    assert 15 <= len(left) <= 25
    assert left == list(range(100 - len(left), 100))
    assert path.stat().st_size <= 600_000


def test_without_limits_everything_stays(path: Path) -> None:
    written(trace_at(path, 0, max_age_s=None, max_bytes=None), request("old"))
    written(trace_at(path, 2**50, max_age_s=None, max_bytes=None), request("new"))
    assert len(list_requests(path)) == 2


def test_what_cannot_be_deleted_stays_and_writing_goes_on(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written(trace_at(path, 0), request("old"))
    with raw(path) as connection:
        connection.execute(
            "CREATE TRIGGER stuck BEFORE DELETE ON fact BEGIN SELECT RAISE(ABORT, 'stuck'); END"
        )
    written(trace_at(path), request("new"))
    assert len(list_requests(path)) == 2
    assert "old trace rows could not be deleted, will be retried: stuck" in caplog.text
