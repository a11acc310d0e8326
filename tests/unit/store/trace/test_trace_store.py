"""The trace: what is recorded can be read, without secrets and not more of it than allowed."""

from __future__ import annotations

import stat
from pathlib import Path
from threading import Event, current_thread, main_thread
from typing import Any

import pytest

from antiphon.errors import StoreError
from antiphon.store.redact import REDACTED, Redactor
from antiphon.store.trace.payload import redact_and_truncate, truncate_blob
from antiphon.store.trace.reader import TraceDetail, list_requests, read_detail
from antiphon.store.trace.rows import (
    TraceAttempt,
    TraceDiagnostic,
    TraceError,
    TraceRow,
    TraceUsage,
)
from antiphon.store.trace.trace_store import BATCH, TraceStore
from tests.support.traces import (
    CANARY,
    NOW_MS,
    finish,
    raw,
    request,
    shown,
    stream,
    trace_at,
    written,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "trace.sqlite"


# --- writing and reading --------------------------------------------------------------------------


def test_a_request_is_shown_with_all_that_happened_to_it(path: Path) -> None:
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
    written(trace_at(path), asked, *attempts, diagnostic, usage, error, finish("q1"), request("q2"))
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


def test_requests_are_listed_newest_first_and_can_be_chosen(path: Path) -> None:
    rows: list[TraceRow] = []
    for number in range(6):
        id = f"q{number}"
        rows += [
            request(id, model="odd" if number % 2 else "even"),
            TraceAttempt(request_id=id, number=1, provider="p", model="m"),
            finish(id, "failed" if number in (1, 2) else "completed"),
        ]
    written(
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
    assert chosen(failed=True) == ["q5", "q2", "q1"]
    assert chosen(failed=True, model="even", limit=1) == ["q2"]


def test_rows_are_written_while_the_trace_is_open(path: Path) -> None:
    written_some = Event()

    def now_ms() -> int:
        """The writer asks for the time after each flush."""
        if current_thread() is not main_thread():
            written_some.set()
        return NOW_MS

    trace = TraceStore(path, now_ms=now_ms, redactor=Redactor())
    trace.open()
    assert written_some.wait(10)
    for _ in range(2):
        written_some.clear()
        for number in range(BATCH):
            trace.record(request(f"q{number}"))
        assert written_some.wait(10)
    assert len(list_requests(path, limit=10 * BATCH)) == 2 * BATCH
    trace.close()


def test_the_file_is_private(path: Path) -> None:
    written(trace_at(path), request("q1"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_rows_of_a_later_version_are_passed_over(path: Path) -> None:
    written(trace_at(path), request("q1"))
    with raw(path) as connection:
        connection.execute(
            "INSERT INTO fact (at_ms, kind, request_id, body)"
            " VALUES (0, 'dream', 'q1', '{\"row\":\"dream\"}')"
        )
    assert shown(path, "q1").request == request("q1")


def test_a_trace_that_is_not_there_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"none\.sqlite: unable to open"):
        list_requests(tmp_path / "none.sqlite")
    (tmp_path / "other.sqlite").write_bytes(b"something else entirely" * 100)
    with pytest.raises(StoreError, match=r"other\.sqlite: file is not a database"):
        read_detail(tmp_path / "other.sqlite", "q1")


# --- payloads -------------------------------------------------------------------------------------


def test_without_payloads_only_measures_are_kept(path: Path) -> None:
    blob = b"data: a secret thought\n\n"
    written(trace_at(path), stream("q1", blob, offsets=[(0, 1), (10, 2)]))
    (stored,) = shown(path, "q1").streams
    assert (stored.blob, list(stored.offsets), stored.truncated) == (b"", [], False)
    assert (stored.kind, stored.size, stored.chunks) == ("raw", len(blob), 2)
    assert b"thought" not in path.read_bytes()


def test_with_payloads_chunks_come_back_with_their_times(path: Path) -> None:
    blob = b"data: 1\n\ndata: 2\n\n"
    rows = [
        stream("q1", blob, offsets=[(0, 100), (5, 101), (9, 102)]),
        stream("q1", b"event: x\n\n", "transformed", offsets=[(0, 103)]),
        stream("q1", b'{"input":"hi"}', "request"),
    ]
    written(trace_at(path, payloads=True), *rows)
    one, two, three = shown(path, "q1").streams
    assert one.split_chunks() == [(100, b"data:"), (101, b" 1\n\n"), (102, b"data: 2\n\n")]
    assert two.split_chunks() == [(103, b"event: x\n\n")]
    assert (three.blob, three.split_chunks()) == (b'{"input":"hi"}', [])
    assert not one.truncated


def test_a_long_payload_is_cut_after_a_whole_frame(path: Path) -> None:
    blob = b"data: 0123456789\n\n" * 10_000
    offsets = [(number * 18, number) for number in range(10_000)]
    written(
        trace_at(path, payloads=True, payload_max_bytes=100), stream("q1", blob, offsets=offsets)
    )
    (stored,) = shown(path, "q1").streams
    assert stored.blob == blob[:90]
    assert stored.offsets == offsets[:5]
    assert (stored.size, stored.chunks, stored.truncated) == (180_000, 10_000, True)


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
    assert truncate_blob(text.encode(), limit).decode() == left


def test_a_cut_through_bytes_that_are_no_text_is_just_a_cut() -> None:
    assert len(truncate_blob(b"\x80" * 100, 50)) >= 47


# --- redaction ------------------------------------------------------------------------------------


def test_no_secret_reaches_the_disk(path: Path) -> None:
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
    written(trace_at(path, payloads=True), *rows)
    (error,) = shown(path, "q1").errors
    assert error.message == f"{REDACTED} {REDACTED} Authorization: {REDACTED}"
    detail = str(shown(path, "q1")) + str(list_requests(path))
    for place in (detail.encode(), *(file.read_bytes() for file in path.parent.iterdir())):
        assert CANARY.encode() not in place
        assert key.encode() not in place


def test_a_secret_across_the_cut_does_not_survive_in_part(path: Path) -> None:
    blob = b"x" * 95 + CANARY.encode() + b"y" * 100_000
    written(trace_at(path, payloads=True, payload_max_bytes=100), stream("q1", blob))
    (stored,) = shown(path, "q1").streams
    assert b"canar" not in stored.blob
    assert stored.blob.startswith(b"x" * 95)


def test_a_secret_at_the_end_of_what_is_looked_at_does_not_survive_in_part() -> None:
    filler = (b"api_key=" + b"k" * 1000 + b" ") * 400  # becomes so short that all of it would fit
    for looked_at in range(132_000, 133_600, 10):
        blob = filler[:looked_at] + b" " + CANARY.encode() + filler
        stored = redact_and_truncate(stream("q1", blob), Redactor([CANARY]), 100_000)
        assert b"can" not in stored.blob
        assert b"kk" not in stored.blob
        assert stored.truncated


def test_a_secret_with_a_line_end_does_not_mix_up_rows(path: Path) -> None:
    trace = TraceStore(path, now_ms=lambda: NOW_MS, redactor=Redactor(['"m"}\n{"row":"request"']))
    written(trace, request("q1"), request("q2"))
    assert [one.request.request_id for one in list_requests(path)] == ["q2", "q1"]
