"""Persist stage: the response of the terminal event is the one to store."""

from __future__ import annotations

import pytest

from antiphon.core.events import Completed, Event, Failed, Incomplete
from antiphon.core.response import Response
from antiphon.stages.builtin import PersistStage
from antiphon.stages.pipeline import Batch, Pipeline
from tests.support.machines import NOW, machine

RESPONSE = Response(id="resp_1", created_at=NOW, model="m")


@pytest.mark.parametrize("event", [Completed(RESPONSE), Incomplete(RESPONSE), Failed(RESPONSE)])
def test_a_response_is_stored_however_it_ends(event: Event) -> None:
    batch = Pipeline([PersistStage()]).feed(Batch([event]))
    assert batch.to_save is RESPONSE
    assert batch.events == [event]


def test_nothing_is_stored_before_the_end() -> None:
    batch = Batch(machine().start())
    assert Pipeline([PersistStage()]).feed(batch) is batch
    assert PersistStage().on_terminal(batch) is batch
