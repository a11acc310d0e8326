"""What a client is told otherwise where an answer ends: only the code of a fault that stays."""

from __future__ import annotations

import pytest

from antiphon.core.client_profile import OTHER, PROFILES, Profile
from antiphon.core.deltas import Text
from antiphon.core.events import Event, Failed
from antiphon.core.faults.classify import classify
from antiphon.core.faults.fault import ProviderFault
from antiphon.stages.builtin import ProfileStage
from antiphon.stages.pipeline import Batch, Pipeline, failed
from tests.support.machines import machine

CODEX = PROFILES["codex"]
WRONG_KEY = classify(401, {}, b"")
OVERLOADED = classify(503, {}, b"")


def ended(fault: ProviderFault) -> list[Event]:
    subject = machine()
    return [*subject.start(), *subject.feed(Text("Well")), *subject.fail(fault)]


def passed(
    profile: Profile, events: list[Event], fault: ProviderFault | None
) -> tuple[list[Event], list[str]]:
    batch = Pipeline([ProfileStage(profile)]).feed(Batch(events, fault=fault))
    return batch.events, [f"{each.code}:{each.subject}" for each in batch.diagnostics]


def test_a_fault_that_stays_is_told_with_a_code_that_is_final() -> None:
    events = ended(WRONG_KEY)
    [*before, last], told = passed(CODEX, events, WRONG_KEY)
    assert before == events[:-1]
    was = events[-1]
    assert isinstance(was, Failed)
    assert isinstance(last, Failed)
    assert was.response.error is not None
    assert last == failed(was.response, code="invalid_prompt", message=was.response.error.message)
    assert last.response.output == was.response.output
    assert told == ["client.error_as_400:server_error"]


@pytest.mark.parametrize(
    ("profile", "fault"), [(CODEX, OVERLOADED), (OTHER, WRONG_KEY), (OTHER, OVERLOADED)]
)
def test_anything_else_stays_as_it_is(profile: Profile, fault: ProviderFault) -> None:
    events = ended(fault)
    assert passed(profile, events, fault) == (events, [])


def test_an_answer_that_goes_on_or_ends_well_stays_as_it_is() -> None:
    subject = machine()
    events = [*subject.start(), *subject.feed(Text("Well"))]
    assert passed(CODEX, events, None) == (events, [])
    assert passed(CODEX, [], WRONG_KEY) == ([], [])
    done = subject.finish("stop")
    assert passed(CODEX, done, WRONG_KEY) == (done, [])


def test_an_answer_that_failed_for_another_reason_keeps_its_code() -> None:
    [*_, last] = ended(WRONG_KEY)
    assert isinstance(last, Failed)
    other: list[Event] = [failed(last.response, code="rate_limit_exceeded", message="m")]
    assert passed(CODEX, other, WRONG_KEY) == (other, [])
