"""Log stage: one entry for each answer, with figures and without content."""

from __future__ import annotations

from typing import Any

from antiphon.core.deltas import Text, Usage
from antiphon.core.events import Event
from antiphon.core.faults.fault import timeout_fault
from antiphon.core.stream.machine import ResponseMachine
from antiphon.stages.builtin import LogStage
from antiphon.stages.log import Entry
from antiphon.stages.pipeline import Batch, Pipeline
from tests.support.machines import machine

FACTS = {"request_id": "req_1", "model": "m"}
SECRET = "a text that must not be logged"


def begin() -> tuple[ResponseMachine, list[Event]]:
    subject = machine()
    return subject, [*subject.start(), *subject.feed(Text(SECRET))]


def batch(events: list[Event], **changes: Any) -> Batch:
    return Batch(events, facts=FACTS, event_count=9, upstream_latency_ms=3.5, **changes)


def log_of(*batches: Batch) -> list[Entry]:
    """Feed all batches but the last, and close with that one."""
    log: list[Entry] = []
    stage = LogStage(log.append, elapsed_ms=lambda: 12.345, cost_usd=lambda usage: 0.5)
    pipeline = Pipeline([stage])
    for each in batches[:-1]:
        pipeline.feed(each)
    pipeline.close(batches[-1])
    return log


def test_a_completed_answer_is_logged_with_usage_and_duration() -> None:
    subject, events = begin()
    events += subject.feed(Usage(input_tokens=7, cached_tokens=2, output_tokens=3))
    [entry] = log_of(batch([*events, *subject.finish("stop")], finish_reason="stop"), batch([]))
    assert entry == Entry(
        "response.finished",
        "info",
        {
            **FACTS,
            "status": "completed",
            "finish_reason": "stop",
            "error": None,
            "items": 1,
            "input_tokens": 7,
            "cached_tokens": 2,
            "output_tokens": 3,
            "cost_usd": 0.5,
            "events": 9,
            "duration_ms": 12.3,
            "upstream_latency_ms": 3.5,
        },
    )
    assert SECRET not in str(entry)


def test_a_failed_answer_is_logged_as_a_warning_with_its_error_code() -> None:
    subject, events = begin()
    fault = timeout_fault("idle")
    [entry] = log_of(batch([*events, *subject.fail(fault)], fault=fault), batch([], fault=fault))
    assert (entry.event, entry.level) == ("response.finished", "warning")
    assert entry.facts["status"] == "failed"
    assert entry.facts["error"] == fault.public_code
    assert entry.facts["input_tokens"] == 0


def test_a_client_that_disconnects_is_logged() -> None:
    _, events = begin()
    [entry] = log_of(batch(events), batch([]))
    assert (entry.event, entry.level) == ("response.cancelled", "info")
    assert entry.facts == {
        **FACTS,
        "events": 9,
        "duration_ms": 12.3,
        "upstream_latency_ms": 3.5,
    }


def test_a_fault_before_any_output_is_not_logged_as_cancelled() -> None:
    assert log_of(batch([], fault=timeout_fault("connect"))) == []
