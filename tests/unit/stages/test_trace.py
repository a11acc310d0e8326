"""Trace stages: what the provider sent, what the client got, and when."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from antiphon.core.deltas import Text
from antiphon.stages.builtin import TraceStage
from antiphon.stages.pipeline import Batch, Pipeline, terminal
from antiphon.stages.trace import PayloadTraceStage, RawTap
from tests.support.machines import machine


def counting_clock() -> Callable[[], float]:
    """A clock that advances by one millisecond with each read."""
    ticks = count(1)
    return lambda: float(next(ticks))


def test_raw_bytes_are_kept_with_offset_and_time_of_each_read() -> None:
    tap = RawTap(counting_clock())
    tap.feed(b"abc")
    tap.feed(b"de")
    assert (tap.blob, tap.size, tap.offsets) == (b"abcde", 5, [(0, 1.0), (3, 2.0)])


def test_a_rewind_drops_a_retried_attempt_but_not_an_earlier_round() -> None:
    tap = RawTap(counting_clock())
    tap.feed(b"failed")
    tap.rewind()
    tap.feed(b"round 1")
    tap.keep()
    tap.feed(b"failed again")
    tap.rewind()
    tap.feed(b", round 2")
    assert (tap.blob, tap.size) == (b"round 1, round 2", 16)
    assert tap.offsets == [(0, 2.0), (7, 4.0)]
    assert tap.kept == [1]


def test_the_outcome_is_the_finished_response_and_the_number_of_events() -> None:
    subject, stage = machine(), TraceStage()
    pipeline = Pipeline([stage])
    pipeline.feed(Batch(subject.start(), event_count=2))
    assert (stage.event_count, stage.response) == (0, None)
    events = [*subject.feed(Text("Well")), *subject.finish("stop")]
    pipeline.feed(Batch(events, event_count=9))
    ending = terminal(events)
    assert ending is not None
    assert (stage.event_count, stage.response) == (9, ending.response)


def test_events_are_counted_for_a_client_that_disconnects() -> None:
    stage = TraceStage()
    Pipeline([stage]).close(Batch([], event_count=4))
    assert (stage.event_count, stage.response) == (4, None)


def test_with_payloads_every_batch_of_events_is_kept_with_its_time() -> None:
    subject, stage = machine(), PayloadTraceStage(counting_clock())
    pipeline = Pipeline([stage])
    first, last = subject.start(), [*subject.feed(Text("Well")), *subject.finish("stop")]
    for events in (first, [], last):
        pipeline.feed(Batch(events))
    assert stage.batches == [(1.0, first), (2.0, last)]
    assert stage.response is not None
