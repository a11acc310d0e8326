"""State machine: phases, transition errors, and how a response ends."""

from __future__ import annotations

from collections.abc import Callable
from operator import methodcaller
from typing import Any

import msgspec
import pytest

from antiphon.core.deltas import (
    Annotation,
    Delta,
    Extra,
    Failure,
    Finish,
    ItemEnd,
    RawItem,
    Reasoning,
    ReasoningState,
    Refusal,
    Start,
    Text,
    ToolCall,
    Usage,
)
from antiphon.core.events import Completed
from antiphon.core.faults.classify import classify
from antiphon.core.faults.fault import ProviderFault, protocol_fault
from antiphon.core.response import Response
from antiphon.core.stream.finish import CANCELLED
from antiphon.core.stream.machine import ResponseMachine
from antiphon.core.stream.phase import Phase
from antiphon.core.tools.identity import NO_TOOLS
from antiphon.errors import BridgeError, DeltaAfterTerminal, InvalidTransition, OutputBeforeStart
from tests.support.machines import NOW, Document, documents, machine, run
from tests.support.stream_validator import check
from tests.support.tables import table

FAULT = protocol_fault("broken")
CITATION = {"type": "file_path", "file_id": "f", "index": 0}


def started(**options: Any) -> ResponseMachine:
    subject = machine(**options)
    subject.start()
    return subject


def types(events: list[Document]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


# Phases and guards

Drive = Callable[[ResponseMachine], object]
DELTAS: dict[str, Delta] = {
    "text": Text("x"),
    "empty text": Text(""),
    "refusal": Refusal("x"),
    "reasoning": Reasoning("x"),
    "reasoning state": ReasoningState("s", "x"),
    "tool call": ToolCall(0, "a", "f"),
    "annotation": Annotation(CITATION),
    "item": RawItem({"type": "compaction"}),
    "item end": ItemEnd(),
    "usage": Usage(1, 1),
    "finish reason": Finish("stop"),
    "start": Start("m"),
    "extra": Extra("x"),
    "failure": Failure(FAULT),
}
METHODS: dict[str, Drive] = {
    **{name: methodcaller("feed", delta) for name, delta in DELTAS.items()},
    "tool end": lambda m: m.tool_end(0),
    "empty message": lambda m: m.add_missing_message(),
}
TRANSITIONS: dict[str, Drive] = {
    "finish": lambda m: m.finish("stop"),
    "fail": lambda m: m.fail(FAULT),
}
ENDINGS: dict[Phase, Drive] = {
    Phase.COMPLETED: lambda m: m.finish("stop"),
    Phase.INCOMPLETE: lambda m: m.finish("length"),
    Phase.FAILED: lambda m: m.fail(FAULT),
}


def refuses(subject: ResponseMachine, drive: Drive, error: type[BridgeError]) -> None:
    before = (subject.phase, subject.snapshot)
    with pytest.raises(error) as raised:
        drive(subject)
    assert raised.value.code.startswith("bridge.stream.")
    assert (subject.phase, subject.snapshot) == before


@table("name", METHODS)
def test_output_before_the_start_is_an_error(name: str) -> None:
    subject = machine()
    refuses(subject, METHODS[name], OutputBeforeStart)
    assert OutputBeforeStart.code == "bridge.stream.output_before_start"
    assert subject.start()


@table("phase", ENDINGS)
@table("name", METHODS)
def test_output_after_the_terminal_event_is_an_error(name: str, phase: Phase) -> None:
    subject = started()
    ENDINGS[phase](subject)
    assert subject.phase is phase
    refuses(subject, METHODS[name], DeltaAfterTerminal)
    assert DeltaAfterTerminal.code == "bridge.stream.delta_after_terminal"


@table("phase", [Phase.IDLE, *ENDINGS])
@table("name", [*TRANSITIONS, "start"])
def test_a_transition_in_the_wrong_phase_is_an_error(name: str, phase: Phase) -> None:
    subject = machine()
    if phase in ENDINGS:
        subject.start()
        ENDINGS[phase](subject)
    elif name == "start":
        subject.start()
    refuses(subject, TRANSITIONS.get(name, lambda m: m.start()), InvalidTransition)
    assert InvalidTransition.code == "bridge.stream.invalid_transition"


@table("pending", [None, "stop"])
def test_a_response_starts_once(pending: str | None) -> None:
    subject = started()
    if pending:
        subject.defer_finish(pending)
    refuses(subject, lambda m: m.start(), InvalidTransition)
    assert InvalidTransition.code == "bridge.stream.invalid_transition"


@table("name", [name for name in (*METHODS, *TRANSITIONS) if name != "tool end"])
def test_every_delta_is_accepted_in_progress(name: str) -> None:
    subject = started()
    (METHODS | TRANSITIONS)[name](subject)
    assert subject.phase in (Phase.IN_PROGRESS, Phase.COMPLETED, Phase.FAILED)


def test_the_phases_of_a_response() -> None:
    assert [phase.value for phase in Phase] == [
        "idle",
        "in_progress",
        "completed",
        "incomplete",
        "failed",
    ]


# Beginning and ending


def test_a_response_begins_with_created_and_in_progress() -> None:
    subject = machine()
    events = documents(subject.start())
    assert types(events) == ["created", "in_progress"]
    assert subject.phase is Phase.IN_PROGRESS


@table(
    ("requested", "reported", "shown"),
    [("m", "other", "m"), ("", "other", "other"), ("", None, "unknown")],
)
def test_the_model_is_the_one_the_request_named(
    requested: str, reported: str | None, shown: str
) -> None:
    subject = machine(model=requested)
    [created, _] = documents(subject.start(reported))
    assert created["response"]["model"] == shown


def test_every_field_the_request_decides_is_in_every_snapshot() -> None:
    request = Response(
        id="resp_9",
        created_at=5,
        model="m",
        instructions="Be brief.",
        tools=({"type": "function", "name": "f"},),
        temperature=0.2,
        metadata={"a": "b"},
    )
    subject = ResponseMachine(request, new_id=str, now=lambda: NOW, tools=NO_TOOLS)
    for event in documents(subject.start() + subject.finish("stop")):
        response = event["response"]
        assert response["instructions"] == "Be brief."
        assert response["tools"] == [{"type": "function", "name": "f"}]
        assert (response["temperature"], response["metadata"]) == (0.2, {"a": "b"})


@table("phase", ENDINGS)
def test_only_a_completed_response_has_completed_at(phase: Phase) -> None:
    subject = started()
    ENDINGS[phase](subject)
    assert subject.snapshot.completed_at == (NOW if phase is Phase.COMPLETED else None)


def test_a_finish_reason_is_remembered_until_the_end() -> None:
    subject = started()
    assert subject.defer_finish("length") == []
    assert subject.phase is Phase.IN_PROGRESS
    assert subject.pending_finish == Finish("length")
    [event] = documents(subject.finish())
    assert event["type"] == "response.incomplete"


@table(
    ("reasons", "kept"),
    [
        (["stop", None], "stop"),
        (["stop", ""], "stop"),
        ([None, "stop"], "stop"),
        (["tool_calls", "length"], "length"),
        ([None], None),
    ],
)
def test_the_last_finish_reason_that_is_not_empty_counts(
    reasons: list[str | None], kept: str | None
) -> None:
    subject = started()
    for reason in reasons:
        subject.defer_finish(reason)
    assert subject.pending_finish == Finish(kept)


def test_the_reason_given_to_finish_counts_before_a_deferred_one() -> None:
    subject = started()
    subject.defer_finish("length")
    assert documents(subject.finish("stop"))[-1]["type"] == "response.completed"


def test_output_after_a_finish_reason_is_sent() -> None:
    events = run([Text("a"), Finish("stop"), Text("b")])
    check(events)
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "ab"


@table(
    ("fault", "code"),
    [
        (protocol_fault("x"), "server_error"),
        (classify(429, {}, b""), "rate_limit_exceeded"),
        (
            classify(400, {}, b'{"error":{"code":"context_length_exceeded"}}'),
            "context_length_exceeded",
        ),
        (msgspec.structs.replace(FAULT, public_code="made_up"), "server_error"),
    ],
)
def test_a_failed_response_has_a_code_that_clients_know(fault: ProviderFault, code: str) -> None:
    subject = started()
    subject.text("a")
    events = documents(subject.fail(fault))
    assert events[-1]["response"]["error"]["code"] == code
    assert subject.fault == fault
    [message] = events[-1]["response"]["output"]
    assert (message["status"], message["content"][0]["text"]) == ("incomplete", "a")


def test_a_failure_shows_no_text_of_the_provider() -> None:
    subject = started()
    fault = classify(500, {}, b'{"error":{"message":"key sk-123 at https://internal"}}')
    message = documents(subject.fail(fault))[-1]["response"]["error"]["message"]
    assert "sk-123" not in message
    assert "https" not in message


def test_a_failure_has_the_description_of_the_current_attempt() -> None:
    subject = started()
    subject.use_provider(None, lambda fault: f"deepseek: {fault.code}")
    message = documents(subject.fail(FAULT))[-1]["response"]["error"]["message"]
    assert message == "deepseek: invalid_chunk"


def test_a_cancelled_response_keeps_its_output_as_incomplete() -> None:
    subject = ResponseMachine()
    events = documents(subject.start() + subject.text("Hel") + subject.finish(CANCELLED))
    assert events[-1]["type"] == "response.incomplete"
    response = events[-1]["response"]
    assert (response["status"], response["incomplete_details"]) == ("cancelled", None)
    assert (response["output"][0]["status"], response["output_text"]) == ("incomplete", "Hel")
    assert "response.output_item.done" in [event["type"] for event in events]


def test_the_service_tier_of_the_provider_is_in_the_response() -> None:
    subject = started()
    assert subject.service_tier("flex") == []
    [*_, end] = documents(subject.finish("stop"))
    assert end["response"]["service_tier"] == "flex"


def test_a_failure_can_be_a_message_with_a_code_of_the_api() -> None:
    subject = started()
    [*_, end] = documents(subject.fail("Too much input.", code="rate_limit_exceeded"))
    assert end["response"]["error"] == {
        "code": "rate_limit_exceeded",
        "message": "Too much input.",
    }
    assert subject.fault is None


def test_the_stop_sequence_that_ended_the_response_is_named() -> None:
    made = machine()
    made.start()
    made.feed(Text("hi"))
    made.feed(Finish("stop_sequence", "END"))
    [*_, last] = made.finish()
    assert isinstance(last, Completed)
    assert last.response.stop_sequence == "END"
