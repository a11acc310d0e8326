"""The sequence of events: what the first delta of an item gives, and what the end closes."""

from __future__ import annotations

from antiphon.core.deltas import Delta, Finish, Reasoning, Refusal, Text, ToolCall, Usage
from antiphon.core.faults.fault import protocol_fault
from antiphon.core.stream.phase import Phase
from tests.support.machines import documents, machine
from tests.support.stream_validator import check
from tests.support.tables import table

CALL = ToolCall(0, "call_1", "get_weather", '{"city":')
FIRST: dict[str, tuple[Delta, list[str]]] = {
    "text": (
        Text("Hello"),
        ["output_item.added", "content_part.added", "output_text.delta"],
    ),
    "refusal": (
        Refusal("No."),
        ["output_item.added", "content_part.added", "refusal.delta"],
    ),
    "reasoning": (
        Reasoning("Hm."),
        ["output_item.added", "content_part.added", "reasoning_text.delta"],
    ),
    "call": (CALL, ["output_item.added", "function_call_arguments.delta"]),
}


@table("kind", FIRST)
def test_an_item_is_announced_by_its_first_delta_and_not_before(kind: str) -> None:
    subject = machine()
    subject.start()
    delta, expected = FIRST[kind]
    assert [*subject.snapshot.output] == []
    events = documents(subject.feed(delta))
    assert [event["type"].removeprefix("response.") for event in events] == expected
    assert len(subject.snapshot.output) == 1
    [*_, last] = documents(subject.feed(delta))
    assert last["output_index"] == 0


@table("delta", [Usage(input_tokens=1, output_tokens=2), Finish("stop")])
def test_usage_and_a_finish_reason_make_no_events(delta: Delta) -> None:
    subject = machine()
    subject.start()
    assert subject.feed(delta) == []
    assert subject.phase is Phase.IN_PROGRESS


DONE = {
    "text": ["output_text.done", "content_part.done", "output_item.done"],
    "refusal": ["refusal.done", "content_part.done", "output_item.done"],
    "reasoning": ["reasoning_text.done", "content_part.done", "output_item.done"],
    "call": ["function_call_arguments.done", "output_item.done"],
}


@table("kind", DONE)
def test_an_open_item_is_done_before_the_terminal_event(kind: str) -> None:
    subject = machine()
    events = [*subject.start(), *subject.feed(FIRST[kind][0])]
    if kind == "call":
        events += subject.feed(ToolCall(0, arguments='"Ulm"}'))
    ending = subject.finish("stop")
    types = [event["type"].removeprefix("response.") for event in documents(ending)]
    assert types == [*DONE[kind], "completed"]
    check(documents([*events, *ending]))


@table(
    ("reason", "phase", "event"),
    [
        ("stop", Phase.COMPLETED, "response.completed"),
        ("length", Phase.INCOMPLETE, "response.incomplete"),
        ("content_filter", Phase.INCOMPLETE, "response.incomplete"),
        (None, Phase.FAILED, "response.failed"),
    ],
)
def test_a_finish_leads_to_the_phase_of_its_reason(
    reason: str | None, phase: Phase, event: str
) -> None:
    subject = machine()
    subject.start()
    subject.feed(Text("Hello"))
    [*_, last] = documents(subject.finish(reason))
    assert (subject.phase, last["type"]) == (phase, event)
    assert last["response"]["status"] == phase.value


def test_a_failure_leads_to_the_phase_failed() -> None:
    subject = machine()
    subject.start()
    [last] = documents(subject.fail(protocol_fault("broken")))
    assert (subject.phase, last["type"]) == (Phase.FAILED, "response.failed")
