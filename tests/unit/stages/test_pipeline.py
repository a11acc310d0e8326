"""Pipeline: the order of the stages, and a stage that raises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from antiphon.core.client_profile import OTHER
from antiphon.core.deltas import Text
from antiphon.core.events import Completed, Created, Event, Failed, InProgress
from antiphon.core.faults.messages import describe
from antiphon.core.plan.plan import Plan
from antiphon.core.structured_output.contract import OutputContract
from antiphon.stages.builtin import PersistStage, TraceStage, build_pipeline
from antiphon.stages.log import Entry
from antiphon.stages.pipeline import Batch, Pipeline, Stage, with_terminal
from antiphon.stages.trace import PayloadTraceStage
from tests.support.machines import machine


class FailingStage(Stage):
    """Raises at the end, or with every batch."""

    def on_terminal(self, batch: Batch) -> Batch:
        raise ValueError("a bug")


class AlwaysFailingStage(FailingStage):
    def feed(self, batch: Batch) -> Batch:
        raise ValueError("a bug")


class RecordingStage(Stage):
    def __init__(self) -> None:
        self.calls: list[tuple[str, list[Event]]] = []

    def feed(self, batch: Batch) -> Batch:
        self.calls.append(("feed", batch.events))
        return batch

    def on_terminal(self, batch: Batch) -> Batch:
        self.calls.append(("on_terminal", batch.events))
        return batch


class DroppingStage(Stage):
    def feed(self, batch: Batch) -> Batch:
        return msgspec.structs.replace(batch, events=batch.events[:-1])


def answer(text: str = "Well") -> list[Event]:
    subject = machine()
    return [*subject.start(), *subject.feed(Text(text)), *subject.finish("stop")]


def test_stages_run_in_order() -> None:
    first, second = PayloadTraceStage(lambda: 0.0), PayloadTraceStage(lambda: 1.0)
    events = answer()
    batch = Pipeline([first, second]).feed(Batch(events))
    assert batch.events == events
    assert (first.batches, second.batches) == ([(0.0, events)], [(1.0, events)])


def test_a_stage_that_raises_at_the_end_makes_the_response_fail() -> None:
    trace = TraceStage()
    pipeline = Pipeline([PersistStage(), FailingStage(), trace])
    batch = pipeline.feed(Batch(answer()))
    [*_, ending] = batch.events
    assert isinstance(ending, Failed)
    assert pipeline.fault is not None
    assert batch.fault is pipeline.fault
    assert ending.response.error is not None
    assert ending.response.error.message == describe(pipeline.fault)
    assert "a bug" not in ending.response.error.message
    assert batch.to_save is trace.response is ending.response


def test_without_persistence_a_stage_that_raises_stores_nothing() -> None:
    assert Pipeline([FailingStage()]).feed(Batch(answer())).to_save is None


def test_a_stage_that_raises_is_called_once() -> None:
    trace = PayloadTraceStage(lambda: 0.0)
    pipeline = Pipeline([AlwaysFailingStage(), trace])
    events = answer()
    assert pipeline.feed(Batch(events[:2])).events == events[:2]
    assert pipeline.fault is not None
    ending = pipeline.feed(Batch(events[2:])).events
    assert trace.batches == [(0.0, events[:2]), (0.0, ending)]


@pytest.mark.parametrize("cut", [0, 2, 4], ids=["one batch", "after the start", "after the text"])
def test_what_a_stage_has_not_passed_because_it_raised_is_not_sent(cut: int) -> None:
    """It may be there to withhold what must not be sent."""
    pipeline = Pipeline([AlwaysFailingStage()])
    events = answer("a secret")
    sent = pipeline.feed(Batch(events[:cut])).events if cut else []
    sent += pipeline.feed(Batch(events[cut:])).events
    assert [type(event) for event in sent[:2]] == [Created, InProgress]
    assert len(sent) == 3
    assert "a secret" not in str(sent)


def test_a_stage_that_overrides_feed_sees_the_terminal_event_before_on_terminal() -> None:
    stage = RecordingStage()
    events = answer()
    Pipeline([stage]).feed(Batch(events))
    assert stage.calls == [("feed", events), ("on_terminal", events)]


def test_a_stage_that_drops_the_terminal_event_makes_the_response_fail() -> None:
    pipeline = Pipeline([DroppingStage()])
    ending = pipeline.feed(Batch(answer())).events[-1]
    assert isinstance(ending, Failed)
    assert pipeline.fault is not None
    assert "DroppingStage dropped the terminal event" in pipeline.fault.message


def test_every_stage_is_closed() -> None:
    first, second = TraceStage(), TraceStage()
    Pipeline([first, second]).close(Batch([], event_count=3))
    assert (first.event_count, second.event_count) == (3, 3)


class FailingCloseStage(AlwaysFailingStage):
    def close(self, batch: Batch) -> None:
        raise AssertionError("closed after it was removed")


def test_a_stage_that_was_removed_is_not_closed() -> None:
    trace = TraceStage()
    pipeline = Pipeline([FailingCloseStage(), trace])
    pipeline.feed(Batch(answer()))
    pipeline.close(Batch([], event_count=3))
    assert trace.event_count == 3


class WithholdingStage(Stage):
    """Takes the text out of the response."""

    def on_terminal(self, batch: Batch) -> Batch:
        last = batch.events[-1]
        assert isinstance(last, Completed)
        empty = msgspec.structs.replace(last.response, output=(), output_text="")
        return with_terminal(batch, Completed(empty))


def test_stages_of_other_packages_come_before_trace_log_and_store() -> None:
    log: list[Entry] = []
    trace = TraceStage()
    batch = build(log, trace, [WithholdingStage()]).feed(Batch(answer("a secret")))
    assert trace.response is not None
    assert trace.response.output == ()
    assert batch.to_save is trace.response
    assert [entry.facts["items"] for entry in log] == [0]


def build(
    log: list[Entry], trace: TraceStage, stages: Sequence[Stage] = (), **changes: Any
) -> Pipeline:
    plan = msgspec.structs.replace(Plan(provider="up", model="m"), **changes)
    return build_pipeline(
        plan,
        OTHER,
        trace,
        log.append,
        describe=describe,
        elapsed_ms=lambda: 1.0,
        cost_usd=lambda usage: None,
        store=True,
        stages=stages,
    )


def test_a_broken_contract_reaches_trace_log_and_store() -> None:
    log: list[Entry] = []
    trace = TraceStage()
    contract = OutputContract(requested="json_object", asked="json_object")
    batch = build(log, trace, contract=contract).feed(Batch(answer("no JSON")))
    assert trace.response is not None
    assert batch.to_save is trace.response
    assert trace.response.status == "failed"
    assert [(entry.event, entry.facts["status"]) for entry in log] == [
        ("response.finished", "failed")
    ]


@pytest.mark.parametrize("store", [True, False])
def test_a_response_is_only_stored_if_the_request_says_so(*, store: bool) -> None:
    pipeline = build_pipeline(
        Plan(provider="up", model="m"),
        OTHER,
        TraceStage(),
        lambda entry: None,
        describe=describe,
        elapsed_ms=lambda: 1.0,
        cost_usd=lambda usage: None,
        store=store,
    )
    assert (pipeline.feed(Batch(answer())).to_save is not None) is store
