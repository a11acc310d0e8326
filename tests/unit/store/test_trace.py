"""The trace: what is kept, what gives way, and that nobody ever waits or fails because of it."""

from __future__ import annotations

import logging
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import StoreError
from antiphon.store.redact import REDACTED, Redactor
from antiphon.store.trace import TraceOptions, TraceStore
from antiphon.store.trace_payload import cut
from antiphon.store.trace_reader import TraceDetail, losses, requests, show
from antiphon.store.trace_row import (
    TraceAttempt,
    TraceDiagnostic,
    TraceError,
    TraceFinish,
    TraceLoss,
    TraceRequest,
    TraceRow,
    TraceStream,
    TraceUsage,
)

NOW_MS = 1_700_000_000_000
CANARY = "canary-0123456789"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "trace.sqlite"


Make = Callable[..., TraceStore]


@pytest.fixture
def make(path: Path) -> Iterator[Make]:
    made: list[TraceStore] = []

    def trace(now_ms: Callable[[], int] = lambda: NOW_MS, **options: Any) -> TraceStore:
        made.append(
            TraceStore(
                path,
                now_ms=now_ms,
                redactor=Redactor([CANARY]),
                options=TraceOptions(**options),
            )
        )
        return made[-1]

    yield trace
    for one in made:
        one.close()


def written(trace: TraceStore, *rows: TraceRow) -> None:
    """Record, and return when all of it is on the disk."""
    for row in rows:
        trace.record(row)
    trace.open()
    trace.close()


def request(id: str, **changes: Any) -> TraceRequest:
    values: dict[str, Any] = {"request_id": id, "received_at_ms": NOW_MS, "model": "m"}
    return TraceRequest(**values | changes)


def stream(id: str, blob: bytes = b"data: 1\n\n", kind: Any = "raw", **changes: Any) -> TraceStream:
    return TraceStream(request_id=id, kind=kind, blob=blob, **changes)


def finish(id: str, status: str = "completed") -> TraceFinish:
    return TraceFinish(request_id=id, status=status, duration_ms=12)


def shown(path: Path, id: str) -> TraceDetail:
    detail = show(path, id)
    assert detail is not None
    return detail


@contextmanager
def raw(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


# --- writing and reading --------------------------------------------------------------------------


def test_a_request_is_shown_with_all_that_happened_to_it(make: Make, path: Path) -> None:
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
    rows = [asked, *attempts, diagnostic, usage, error, finish("q1")]
    written(make(), *rows, request("q2"))
    expected = TraceDetail(
        request=asked,
        attempts=tuple(attempts),
        diagnostics=(diagnostic,),
        errors=(error,),
        usage=usage,
        finish=finish("q1"),
    )
    assert show(path, "q1") == expected
    assert show(path, "resp_1") == expected
    assert show(path, "resp_2") is None


def test_requests_are_listed_newest_first_and_can_be_chosen(make: Make, path: Path) -> None:
    rows: list[TraceRow] = []
    for number in range(6):
        id = f"q{number}"
        rows += [
            request(id, model="odd" if number % 2 else "even"),
            TraceAttempt(request_id=id, number=1, provider="p", model="m"),
            finish(id, "failed" if number in (1, 2) else "completed"),
        ]
    written(make(), *rows, TraceError(request_id="q5", code="x", message="x"), request("q6"))
    listed = requests(path)
    assert [one.request.request_id for one in listed] == ["q6", "q5", "q4", "q3", "q2", "q1", "q0"]
    assert (listed[0].finish, listed[0].attempts) == (None, 0)
    assert (listed[1].finish, listed[1].attempts) == (finish("q5"), 1)

    def chosen(**choice: Any) -> list[str]:
        return [one.request.request_id for one in requests(path, **choice)]

    assert chosen(limit=2) == ["q6", "q5"]
    assert chosen(model="odd") == ["q5", "q3", "q1"]
    assert chosen(failed=True) == ["q5", "q2", "q1"]
    assert chosen(failed=True, model="even", limit=1) == ["q2"]


def test_a_trace_can_be_read_while_it_is_being_written(make: Make, path: Path) -> None:
    trace = make()
    trace.open()
    assert requests(path) == []
    trace.close()
    again = make()
    written(again, request("q1"))
    assert len(requests(path)) == 1


def test_the_file_is_private(make: Make, path: Path) -> None:
    written(make(), request("q1"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_rows_of_a_later_version_are_passed_over(make: Make, path: Path) -> None:
    written(make(), request("q1"))
    with raw(path) as connection:
        connection.execute(
            "INSERT INTO fact (at_ms, kind, request_id, body)"
            " VALUES (0, 'dream', 'q1', '{\"row\":\"dream\"}')"
        )
    assert shown(path, "q1").request == request("q1")


def test_a_trace_that_is_not_there_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"none\.sqlite: unable to open"):
        requests(tmp_path / "none.sqlite")
    (tmp_path / "other.sqlite").write_bytes(b"something else entirely" * 100)
    with pytest.raises(StoreError, match=r"other\.sqlite: file is not a database"):
        show(tmp_path / "other.sqlite", "q1")


# --- payloads -------------------------------------------------------------------------------------


def test_without_payloads_only_measures_are_kept(make: Make, path: Path) -> None:
    blob = b"data: a secret thought\n\n"
    written(make(), stream("q1", blob, offsets=[(0, 1), (10, 2)]))
    (kept,) = shown(path, "q1").streams
    assert (kept.blob, kept.offsets, kept.truncated) == (b"", [], False)
    assert (kept.kind, kept.size, kept.chunks) == ("raw", len(blob), 2)
    assert b"thought" not in path.read_bytes()


def test_with_payloads_chunks_come_back_with_their_times(make: Make, path: Path) -> None:
    blob = b"data: 1\n\ndata: 2\n\n"
    rows = [
        stream("q1", blob, offsets=[(0, 100), (5, 101), (9, 102)]),
        stream("q1", b"event: x\n\n", "transformed", offsets=[(0, 103)]),
        stream("q1", b'{"input":"hi"}', "request"),
    ]
    written(make(payloads=True), *rows)
    one, two, three = shown(path, "q1").streams
    assert one.pieces() == [(100, b"data:"), (101, b" 1\n\n"), (102, b"data: 2\n\n")]
    assert two.pieces() == [(103, b"event: x\n\n")]
    assert (three.blob, three.pieces()) == (b'{"input":"hi"}', [])
    assert not one.truncated


def test_a_long_payload_is_cut_after_a_whole_frame(make: Make, path: Path) -> None:
    blob = b"data: 0123456789\n\n" * 10_000
    offsets = [(number * 18, number) for number in range(10_000)]
    written(make(payloads=True, payload_max_bytes=100), stream("q1", blob, offsets=offsets))
    (kept,) = shown(path, "q1").streams
    assert kept.blob == blob[:90]
    assert kept.offsets == offsets[:5]
    assert (kept.size, kept.chunks, kept.truncated) == (180_000, 10_000, True)


@pytest.mark.parametrize(
    ("text", "limit", "left"),
    [
        ("data: 1\n\ndata: 2\n\n", 18, "data: 1\n\ndata: 2\n\n"),
        ("data: 1\n\ndata: 2\n\n", 17, "data: 1\n\n"),
        ("data: 1\r\n\r\ndata: 2\r\n\r\n", 21, "data: 1\r\n\r\n"),
        ("data: 1\r\rdata: 2", 12, "data: 1\r\r"),
        ("data: one long frame", 8, "data: on"),
        ("aé", 2, "a"),
        ("a😀", 4, "a"),
        ("a😀", 3, "a"),
        ("a😀b", 5, "a😀"),
        ("anything", 0, ""),
    ],
)
def test_a_cut_leaves_whole_frames_or_at_least_whole_characters(
    text: str, limit: int, left: str
) -> None:
    assert cut(text.encode(), limit).decode() == left


def test_a_cut_through_bytes_that_are_no_text_is_just_a_cut() -> None:
    assert len(cut(b"\x80" * 100, 50)) >= 47


# --- redaction ------------------------------------------------------------------------------------


def test_no_secret_reaches_the_disk(make: Make, path: Path) -> None:
    key = "sk-live0123456789abcdef"
    words = f"{CANARY} {key} Authorization: Bearer {CANARY}"
    rows: list[TraceRow] = [
        request(f"q-{CANARY}", response_id=key, client=CANARY, model=key),
        TraceAttempt(request_id="q1", number=1, provider=key, model=CANARY, key_name=key),
        TraceDiagnostic(
            request_id="q1", code="c", decision="ignored", param=CANARY, message=f"\n{key}"
        ),
        TraceError(request_id="q1", code=CANARY, message=words, stage=key),
        stream("q1", f"data: {words}\n\n".encode(), "raw"),
        stream("q1", f'{{"api_key":"{CANARY}","x":"{key}"}}'.encode(), "request"),
    ]
    written(make(payloads=True), *rows)
    (error,) = shown(path, "q1").errors
    assert error.message == f"{REDACTED} {REDACTED} Authorization: {REDACTED}"
    detail = str(shown(path, "q1")) + str(requests(path))
    for place in (detail.encode(), *(file.read_bytes() for file in path.parent.iterdir())):
        assert CANARY.encode() not in place
        assert key.encode() not in place


def test_a_secret_across_the_cut_does_not_survive_in_part(make: Make, path: Path) -> None:
    blob = b"x" * 95 + CANARY.encode() + b"y" * 100_000
    written(make(payloads=True, payload_max_bytes=100), stream("q1", blob))
    (kept,) = shown(path, "q1").streams
    assert b"canar" not in kept.blob
    assert kept.blob.startswith(b"x" * 95)


def test_a_secret_with_a_line_end_does_not_mix_up_rows(path: Path) -> None:
    trace = TraceStore(path, now_ms=lambda: NOW_MS, redactor=Redactor(['"m"}\n{"row":"request"']))
    written(trace, request("q1"), request("q2"))
    assert [one.request.request_id for one in requests(path)] == ["q2", "q1"]


# --- overload -------------------------------------------------------------------------------------


def test_when_the_queue_is_full_the_oldest_streams_go_first(
    make: Make, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trace = make(queue_rows=10)
    rows: list[TraceRow] = []
    for number in range(8):
        rows += [stream(f"q{number}"), request(f"q{number}")]
    written(trace, *rows)
    assert len(requests(path)) == 8
    kept = [number for number in range(8) if shown(path, f"q{number}").streams]
    assert kept == [6, 7]
    assert trace.lost == TraceLoss(low=6)
    assert losses(path) == TraceLoss(low=6)
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "6 streams and 0 other rows dropped" in caplog.messages[0]


def test_a_new_stream_does_not_push_out_other_rows(make: Make, path: Path) -> None:
    trace = make(queue_rows=5)
    written(trace, *(request(f"q{number}") for number in range(5)), stream("q0"))
    assert len(requests(path)) == 5
    assert trace.lost == TraceLoss(low=1)


def test_without_streams_the_oldest_of_the_rest_go(make: Make, path: Path) -> None:
    trace = make(queue_rows=5)
    written(trace, *(request(f"q{number}") for number in range(12)))
    assert [one.request.request_id for one in requests(path)] == ["q11", "q10", "q9", "q8", "q7"]
    assert trace.lost == losses(path) == TraceLoss(high=7)


def test_the_queue_is_bounded_in_bytes_as_well(make: Make, path: Path) -> None:
    trace = make(payloads=True, queue_bytes=1000)
    written(trace, *(stream(f"q{number}", bytes(400)) for number in range(5)), request("q0"))
    kept = [number for number in range(5) if (found := show(path, f"q{number}")) and found.streams]
    assert kept == [3, 4]
    assert trace.lost == TraceLoss(low=3)
    assert len(requests(path)) == 1


def test_losing_nothing_is_not_worth_a_row(make: Make, path: Path) -> None:
    trace = make()
    written(trace, request("q1"))
    assert trace.lost == losses(path) == TraceLoss()
    with raw(path) as connection:
        assert connection.execute("SELECT kind FROM fact").fetchall() == [("request",)]


# --- failure --------------------------------------------------------------------------------------


def test_a_full_disk_is_counted_and_survived(
    make: Make, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written(make(), request("before"))
    with raw(path) as connection:
        connection.execute(
            "CREATE TRIGGER full BEFORE INSERT ON fact"
            " BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
        )
    trace = make()
    written(trace, *(request(f"q{number}") for number in range(5)))
    assert trace.lost == TraceLoss(failed=5)
    assert [message for message in caplog.messages if "5 not written" in message]
    assert [one.request.request_id for one in requests(path)] == ["before"]


def test_after_a_failure_rows_are_written_again_and_tell_of_the_loss(
    make: Make, path: Path
) -> None:
    written(make(), request("before"))
    with raw(path) as connection:
        connection.execute(
            "CREATE TRIGGER full BEFORE INSERT ON fact WHEN new.request_id = 'bad'"
            " BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
        )
    trace = make()
    trace.record(request("bad"))
    trace.open()
    while not trace.lost.total:  # until the first flush has failed
        pass
    trace.record(request("after"))
    trace.close()
    assert [one.request.request_id for one in requests(path)] == ["after", "before"]
    assert trace.lost == losses(path) == TraceLoss(failed=1)


def test_a_file_that_turns_bad_never_reaches_those_who_record(make: Make, path: Path) -> None:
    trace = make()
    trace.open()
    with raw(path) as connection:
        connection.execute("DROP TABLE fact")
    for number in range(100):
        trace.record(request(f"q{number}"))
    trace.close()
    assert trace.lost == TraceLoss(failed=100)
    trace.record(request("late"))
    trace.close()


def test_a_row_that_is_no_text_is_lost_alone(make: Make, path: Path) -> None:
    trace = make()
    bad: Any = object()
    written(
        trace, request("a"), request("b", model="\ud800"), request("c", model=bad), request("d")
    )
    assert [one.request.request_id for one in requests(path)] == ["d", "a"]
    assert trace.lost == losses(path) == TraceLoss(failed=2)


def test_a_file_that_cannot_be_used_is_told_when_opening(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    path = tmp_path / "file" / "trace.sqlite"
    trace = TraceStore(path, now_ms=lambda: NOW_MS, redactor=Redactor())
    with pytest.raises(StoreError, match=r"trace\.sqlite: "):
        trace.open()
    trace.record(request("q1"))
    trace.close()
    assert not path.exists()


# --- retention ------------------------------------------------------------------------------------


def test_rows_beyond_their_age_go(make: Make, path: Path) -> None:
    for day in range(5):
        at_ms = NOW_MS + day * 86_400_000
        rows = (request(f"q{day}-{number}") for number in range(700))
        written(make(lambda at_ms=at_ms: at_ms, max_age_s=2 * 86_400), *rows)
    days = {one.request.request_id[:2] for one in requests(path, limit=10_000)}
    assert days == {"q2", "q3", "q4"}
    assert len(requests(path, limit=10_000)) == 2100


def test_the_oldest_go_when_the_file_grows_too_large(make: Make, path: Path) -> None:
    words = "".join(chr(97 + number * number % 26) for number in range(20_000))
    errors = [TraceError(request_id=f"q{number}", code="x", message=words) for number in range(100)]
    written(make(max_bytes=500_000), *errors)
    written(make(max_bytes=500_000))
    left = [number for number in range(100) if show(path, f"q{number}")]
    assert 15 <= len(left) <= 25
    assert left == list(range(100 - len(left), 100))
    assert path.stat().st_size <= 600_000


def test_without_limits_everything_stays(make: Make, path: Path) -> None:
    written(make(lambda: 0, max_age_s=None, max_bytes=None), request("old"))
    written(make(lambda: 2**50, max_age_s=None, max_bytes=None), request("new"))
    assert len(requests(path)) == 2


def test_what_cannot_be_deleted_stays_and_writing_goes_on(
    make: Make, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written(make(lambda: 0), request("old"))
    with raw(path) as connection:
        connection.execute(
            "CREATE TRIGGER stuck BEFORE DELETE ON fact BEGIN SELECT RAISE(ABORT, 'stuck'); END"
        )
    written(make(), request("new"))
    assert len(requests(path)) == 2
    assert "old rows stay for now: stuck" in caplog.text
