"""Stages: finding, making and replacing the terminal event of a batch."""

from __future__ import annotations

import pytest

from antiphon.core.deltas import Text
from antiphon.core.events import Completed, Failed, Incomplete
from antiphon.core.response import IncompleteDetails, Response
from antiphon.stages.pipeline import Batch, Stage, failed, terminal, with_terminal
from tests.support.machines import NOW, machine

RESPONSE = Response(id="resp_1", created_at=NOW, model="m")


@pytest.mark.parametrize("event", [Completed(RESPONSE), Incomplete(RESPONSE), Failed(RESPONSE)])
def test_the_last_event_of_a_batch_may_be_terminal(event: Completed | Incomplete | Failed) -> None:
    subject = machine()
    assert terminal([*subject.start(), event]) is event


def test_a_batch_without_a_terminal_event() -> None:
    assert terminal([]) is None
    subject = machine()
    assert terminal(subject.start()) is None
    assert terminal(subject.feed(Text("Well"))) is None


def test_a_failed_response_keeps_its_output_and_has_no_other_outcome() -> None:
    response = Response(
        id="resp_1",
        created_at=NOW,
        completed_at=NOW + 1,
        status="incomplete",
        incomplete_details=IncompleteDetails("max_output_tokens"),
        model="m",
        output=({"type": "other"},),
    )
    found = failed(response, code="server_error", message="It broke.").response
    assert (found.status, found.completed_at, found.incomplete_details) == ("failed", None, None)
    assert found.output == response.output
    assert found.error is not None
    assert (found.error.code, found.error.message) == ("server_error", "It broke.")


def test_a_terminal_event_is_replaced_in_a_new_batch() -> None:
    first, last = Completed(RESPONSE), Failed(RESPONSE)
    events = machine().start()
    batch = Batch([*events, first], event_count=3)
    assert with_terminal(batch, last) == Batch([*events, last], event_count=3)
    assert batch.events[-1] is first


def test_a_stage_without_methods_changes_nothing() -> None:
    batch = Batch([Completed(RESPONSE)])
    stage = Stage()
    stage.close(batch)
    assert stage.feed(batch) is batch
    assert stage.on_terminal(batch) is batch
