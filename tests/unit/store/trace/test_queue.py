"""The bounded queue of trace rows: what is dropped when it is full, and when its reader wakes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from antiphon.store.trace.reader import list_requests, read_detail, read_losses
from antiphon.store.trace.rows import TraceLoss, TraceRow
from antiphon.store.trace.trace_store import TraceQueue
from tests.support.traces import read_trace, request, stream, trace_at, write_rows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "trace.sqlite"


def small_queue() -> TraceQueue:
    return TraceQueue(max_rows=3, max_bytes=1000, batch=2)


def test_all_rows_are_taken_at_once_and_losses_are_reported_once() -> None:
    queue = small_queue()
    for number in range(5):
        queue.put((number, request(f"q{number}")))
    entries, loss = queue.take()
    assert [row.request_id for _, row in entries] == ["q2", "q3", "q4"]
    assert loss == TraceLoss(high=2)
    assert queue.take() == ([], TraceLoss())


def test_bytes_of_taken_streams_no_longer_count() -> None:
    queue = small_queue()
    for _ in range(3):
        queue.put((0, stream("q1", bytes(900))))
        entries, loss = queue.take()
        assert (len(entries), loss) == (1, TraceLoss())


def fill_a_batch(queue: TraceQueue) -> None:
    for id in ("a", "b"):
        queue.put((0, request(id)))


@pytest.mark.parametrize("end_waiting", [fill_a_batch, TraceQueue.wake])
def test_a_full_batch_or_a_call_of_wake_ends_the_waiting(
    end_waiting: Callable[[TraceQueue], None],
) -> None:
    queue = small_queue()
    waiting = Thread(target=queue.wait, args=(60, 60), daemon=True)
    waiting.start()
    end_waiting(queue)
    waiting.join(10)
    assert not waiting.is_alive()


def test_no_row_of_several_threads_is_lost_or_waits_for_the_next_one() -> None:
    queue = TraceQueue(max_rows=10_000, max_bytes=0, batch=2)
    taken: list[str] = []

    def read() -> None:
        while len(taken) < 2000:
            queue.wait(60, 0.001)
            taken.extend(row.request_id for _, row in queue.take()[0])

    def write(name: str) -> None:
        for number in range(500):
            queue.put((number, request(f"{name}{number}")))

    reading = Thread(target=read, daemon=True)
    writing = [Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in (reading, *writing):
        thread.start()
    reading.join(30)
    assert not reading.is_alive()
    for name in "abcd":
        expected = [f"{name}{number}" for number in range(500)]
        assert [each for each in taken if each.startswith(name)] == expected


def test_waiting_ends_without_rows_after_the_idle_time() -> None:
    queue = small_queue()
    queue.wait(0.001, 60)
    assert queue.take() == ([], TraceLoss())


def test_a_full_queue_drops_the_oldest_streams_first(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trace = trace_at(path, queue_rows=10)
    rows: list[TraceRow] = []
    for number in range(8):
        rows += [stream(f"q{number}"), request(f"q{number}")]
    write_rows(trace, *rows)
    assert len(list_requests(path)) == 8
    kept = [number for number in range(8) if read_trace(path, f"q{number}").streams]
    assert kept == [6, 7]
    assert trace.lost == TraceLoss(low=6)
    assert read_losses(path) == TraceLoss(low=6)
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "6 streams and 0 other rows dropped" in caplog.messages[0]


def test_a_new_stream_does_not_displace_other_rows(path: Path) -> None:
    trace = trace_at(path, queue_rows=5)
    write_rows(trace, *(request(f"q{number}") for number in range(5)), stream("q0"))
    assert len(list_requests(path)) == 5
    assert trace.lost == TraceLoss(low=1)


def test_without_streams_a_full_queue_drops_the_oldest_rows(path: Path) -> None:
    trace = trace_at(path, queue_rows=5)
    write_rows(trace, *(request(f"q{number}") for number in range(12)))
    assert [one.request.request_id for one in list_requests(path)] == [
        "q11",
        "q10",
        "q9",
        "q8",
        "q7",
    ]
    assert trace.lost == read_losses(path) == TraceLoss(high=7)


def test_the_queue_is_bounded_in_bytes(path: Path) -> None:
    trace = trace_at(path, payloads=True, queue_bytes=1000)
    write_rows(trace, *(stream(f"q{number}", bytes(400)) for number in range(5)), request("q0"))
    kept = [
        number
        for number in range(5)
        if (found := read_detail(path, f"q{number}")) and found.streams
    ]
    assert kept == [3, 4]
    assert trace.lost == TraceLoss(low=3)
    assert len(list_requests(path)) == 1
