"""The trace store: recording, payloads, redaction, and failures of the disk."""

from __future__ import annotations

import logging
import stat
from pathlib import Path
from threading import Event, current_thread, main_thread
from typing import Any

import pytest

from antiphon.errors import StoreError
from antiphon.store.redact import REDACTED, Redactor
from antiphon.store.trace.reader import list_requests, read_losses
from antiphon.store.trace.rows import (
    TraceAttempt,
    TraceDiagnostic,
    TraceError,
    TraceLoss,
    TraceRow,
)
from antiphon.store.trace.trace_store import BATCH, WINDOW_READ_MS, PayloadWindow, TraceStore
from tests.support.traces import (
    CANARY,
    NOW_MS,
    finish,
    open_database,
    read_trace,
    request,
    stream,
    trace_at,
    write_rows,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "trace.sqlite"


# --- writing and reading --------------------------------------------------------------------------


def test_rows_are_written_while_the_trace_is_open(path: Path) -> None:
    written_some = Event()

    def epoch_s() -> float:
        """The writer asks for the time after each flush."""
        if current_thread() is not main_thread():
            written_some.set()
        return NOW_MS / 1000

    trace = TraceStore(path, epoch_s=epoch_s, redactor=Redactor())
    trace.open()
    assert written_some.wait(60)
    for rows in (BATCH, 2 * BATCH):
        for number in range(BATCH):
            trace.record(request(f"q{number}"))
        while len(list_requests(path, limit=10 * BATCH)) < rows:  # a batch may be written in parts
            assert written_some.wait(60)
            written_some.clear()
    trace.close()
    assert len(list_requests(path, limit=10 * BATCH)) == 2 * BATCH


def test_rows_are_stamped_with_whole_milliseconds(path: Path) -> None:
    trace = TraceStore(path, epoch_s=lambda: 1_700_000_000.0419, redactor=Redactor())
    write_rows(trace, request("q1"), stream("q1"), finish("q1"))
    with open_database(path) as connection:
        stamps = connection.execute("SELECT at_ms, typeof(at_ms) FROM fact").fetchall()
    assert stamps == [(1_700_000_000_041, "integer")] * 3


def test_the_file_is_private(path: Path) -> None:
    write_rows(trace_at(path), request("q1"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


# --- payloads -------------------------------------------------------------------------------------


def test_without_payloads_only_counts_are_stored(path: Path) -> None:
    blob = b"data: a secret thought\n\n"
    write_rows(trace_at(path), stream("q1", blob, offsets=[(0, 1), (10, 2)]))
    (stored,) = read_trace(path, "q1").streams
    assert (stored.blob, list(stored.offsets), stored.truncated) == (b"", [], False)
    assert (stored.kind, stored.size, stored.chunks) == ("raw", len(blob), 2)
    assert b"thought" not in path.read_bytes()


def test_with_payloads_chunks_are_stored_with_their_times(path: Path) -> None:
    blob = b"data: 1\n\ndata: 2\n\n"
    rows = [
        stream("q1", blob, offsets=[(0, 100), (5, 101), (9, 102)]),
        stream("q1", b"event: x\n\n", "transformed", offsets=[(0, 103)]),
        stream("q1", b'{"input":"hi"}', "request"),
    ]
    write_rows(trace_at(path, payloads=True), *rows)
    one, two, three = read_trace(path, "q1").streams
    assert one.split_chunks() == [(100, b"data:"), (101, b" 1\n\n"), (102, b"data: 2\n\n")]
    assert two.split_chunks() == [(103, b"event: x\n\n")]
    assert (three.blob, three.split_chunks()) == (b'{"input":"hi"}', [])
    assert not one.truncated


def test_a_long_payload_is_truncated_after_a_whole_frame(path: Path) -> None:
    blob = b"data: 0123456789\n\n" * 10_000
    offsets = [(number * 18, number) for number in range(10_000)]
    write_rows(
        trace_at(path, payloads=True, payload_max_bytes=100), stream("q1", blob, offsets=offsets)
    )
    (stored,) = read_trace(path, "q1").streams
    assert stored.blob == blob[:90]
    assert stored.offsets == offsets[:5]
    assert (stored.size, stored.chunks, stored.truncated) == (180_000, 10_000, True)


# --- redaction ------------------------------------------------------------------------------------


def test_no_secret_is_written_to_disk(path: Path) -> None:
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
    write_rows(trace_at(path, payloads=True), *rows)
    (error,) = read_trace(path, "q1").errors
    assert error.message == f"{REDACTED} {REDACTED} Authorization: {REDACTED}"
    detail = str(read_trace(path, "q1")) + str(list_requests(path))
    for place in (detail.encode(), *(file.read_bytes() for file in path.parent.iterdir())):
        assert CANARY.encode() not in place
        assert key.encode() not in place


def test_a_secret_across_the_limit_is_not_stored_in_part(path: Path) -> None:
    blob = b"x" * 95 + CANARY.encode() + b"y" * 100_000
    write_rows(trace_at(path, payloads=True, payload_max_bytes=100), stream("q1", blob))
    (stored,) = read_trace(path, "q1").streams
    assert b"canar" not in stored.blob
    assert stored.blob.startswith(b"x" * 95)


def test_a_secret_with_a_line_end_does_not_mix_rows(path: Path) -> None:
    secret = '"m"}\n{"row":"request"'
    trace = TraceStore(path, epoch_s=lambda: NOW_MS / 1000, redactor=Redactor([secret]))
    write_rows(trace, request("q1"), request("q2"))
    assert [one.request.request_id for one in list_requests(path)] == ["q2", "q1"]


# --- failure --------------------------------------------------------------------------------------


def test_no_loss_row_is_written_without_a_loss(path: Path) -> None:
    trace = trace_at(path)
    write_rows(trace, request("q1"))
    assert trace.lost == read_losses(path) == TraceLoss()
    with open_database(path) as connection:
        assert connection.execute("SELECT kind FROM fact").fetchall() == [("request",)]


class SetOnFirstRecord(logging.Handler):
    """Sets an event at the first log record."""

    def __init__(self, event: Event) -> None:
        super().__init__()
        self.event = event

    def emit(self, record: logging.LogRecord) -> None:
        self.event.set()


def test_rows_not_written_to_a_full_disk_are_counted(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_rows(trace_at(path), request("before"))
    with open_database(path) as connection:
        connection.execute(
            "CREATE TRIGGER full BEFORE INSERT ON fact"
            " BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
        )
    trace = trace_at(path)
    write_rows(trace, *(request(f"q{number}") for number in range(4)), request("q", model="\ud800"))
    assert trace.lost == TraceLoss(failed=5)
    assert [message for message in caplog.messages if "4 not written" in message]
    assert [one.request.request_id for one in list_requests(path)] == ["before"]


def test_after_a_failure_rows_and_the_loss_are_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_rows(trace_at(path), request("before"))
    with open_database(path) as connection:
        connection.execute(
            "CREATE TRIGGER full BEFORE INSERT ON fact WHEN new.request_id = 'bad'"
            " BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
        )
    trace = trace_at(path)
    failed = Event()
    monkeypatch.setattr(logging.getLogger("antiphon.trace"), "handlers", [SetOnFirstRecord(failed)])
    trace.record(request("bad"))
    trace.open()
    assert failed.wait(60)
    trace.record(request("after"))
    trace.close()
    assert [one.request.request_id for one in list_requests(path)] == ["after", "before"]
    assert trace.lost == read_losses(path) == TraceLoss(failed=1)


def test_recording_never_raises_when_the_file_becomes_unusable(path: Path) -> None:
    trace = trace_at(path)
    trace.open()
    with open_database(path) as connection:
        connection.execute("DROP TABLE fact")
    for number in range(100):
        trace.record(request(f"q{number}"))
    trace.close()
    assert trace.lost == TraceLoss(failed=100)
    trace.record(request("late"))
    trace.close()


def test_a_row_that_cannot_be_encoded_is_lost_alone(path: Path) -> None:
    trace = trace_at(path)
    bad: Any = object()
    write_rows(
        trace, request("a"), request("b", model="\ud800"), request("c", model=bad), request("d")
    )
    assert [one.request.request_id for one in list_requests(path)] == ["d", "a"]
    assert trace.lost == read_losses(path) == TraceLoss(failed=2)


def test_opening_a_file_that_cannot_be_used_raises(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    path = tmp_path / "file" / "trace.sqlite"
    trace = trace_at(path)
    with pytest.raises(StoreError, match=r"trace\.sqlite: "):
        trace.open()
    trace.record(request("q1"))
    trace.close()
    assert not path.exists()


def test_a_failed_deletion_is_logged_and_writing_continues(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_rows(trace_at(path, 0), request("old"))
    with open_database(path) as connection:
        connection.execute(
            "CREATE TRIGGER stuck BEFORE DELETE ON fact BEGIN SELECT RAISE(ABORT, 'stuck'); END"
        )
    write_rows(trace_at(path), request("new"))
    assert len(list_requests(path)) == 2
    assert "old trace rows could not be deleted, will be retried: stuck" in caplog.text


# --- damaged files --------------------------------------------------------------------------------


def set_aside_files(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir() if ".damaged-" in file.name)


def test_a_damaged_file_is_set_aside_when_the_trace_is_opened(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.parent.mkdir()
    garbage = b"this is no database at all, " * 100
    path.write_bytes(garbage)
    write_rows(trace_at(path), request("new"))
    assert [one.request.request_id for one in list_requests(path)] == ["new"]
    aside = f"trace.sqlite.damaged-{NOW_MS}"
    assert set_aside_files(path) == [aside]
    assert path.with_name(aside).read_bytes() == garbage
    assert (
        f"{path}: the trace file is damaged (file is not a database)."
        f" It was renamed to {aside}; a new trace begins." in caplog.messages
    )


def damage_pages(path: Path) -> None:
    """Overwrite everything behind the first page, which has the schema."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))


def test_a_file_that_turns_out_damaged_later_is_set_aside_and_no_row_is_lost(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_rows(trace_at(path), *(request(f"old{number}") for number in range(100)))
    damage_pages(path)
    trace = trace_at(path)
    write_rows(trace, request("new"))
    assert [one.request.request_id for one in list_requests(path)] == ["new"]
    assert set_aside_files(path) == [f"trace.sqlite.damaged-{NOW_MS}"]
    assert "the trace file is damaged (database disk image is malformed)" in caplog.text
    assert trace.lost == TraceLoss()


def test_a_directory_that_vanished_is_not_created_again(path: Path) -> None:
    trace = trace_at(path)
    trace.open()
    path.parent.rename(path.parent.with_name("elsewhere"))
    trace.record(request("lost"))
    trace.close()
    assert not path.parent.exists()
    assert trace.lost == TraceLoss(failed=1)


def test_the_window_of_payloads_is_seen_by_other_processes_and_ends(tmp_path: Path) -> None:
    now = [NOW_MS]
    path = tmp_path / "trace.db-payloads"
    own, other = (PayloadWindow(path, lambda: now[0] / 1000) for _ in range(2))
    assert other.until_ms == 0
    own.set(NOW_MS + 5000)
    assert (own.until_ms, own.was_open) == (NOW_MS + 5000, True)
    now[0] += WINDOW_READ_MS
    assert other.until_ms == NOW_MS + 5000
    now[0] += 5000
    assert (own.until_ms, other.until_ms, own.was_open) == (0, 0, True)
    path.write_text("nonsense")
    now[0] += WINDOW_READ_MS
    assert own.until_ms == 0


def test_a_stream_that_ends_after_the_window_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "trace.db"
    trace = trace_at(path)
    kept = [trace.keeps_payloads]
    for until_ms in (NOW_MS + 1, 0):
        trace.window.set(until_ms)
        kept.append(trace.keeps_payloads)
    assert kept == [False, True, False]
    write_rows(trace, request("q1"), stream("q1"), finish("q1"))
    assert read_trace(path, "q1").streams[0].blob == b"data: 1\n\n"
