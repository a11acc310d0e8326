"""The error of a call in the wrong phase says what was wrong, and when."""

from __future__ import annotations

from antiphon.core.stream.phase import Phase, delta_error, transition_error
from antiphon.errors import BridgeError, DeltaAfterTerminal, InvalidTransition, OutputBeforeStart
from tests.support.tables import table


@table(
    ("phase", "kind", "message"),
    [
        (Phase.IDLE, OutputBeforeStart, "text: the response has not started"),
        (Phase.COMPLETED, DeltaAfterTerminal, "text: the response is already completed"),
        (Phase.FAILED, DeltaAfterTerminal, "text: the response is already failed"),
    ],
)
def test_the_error_of_a_delta_in_the_wrong_phase(
    phase: Phase, kind: type[BridgeError], message: str
) -> None:
    error = delta_error(phase, "text")
    assert type(error) is kind
    assert error.message == message


@table(
    ("phase", "message"),
    [
        (Phase.IDLE, "finish: the response has not started"),
        (Phase.IN_PROGRESS, "finish: the response has already started"),
        (Phase.INCOMPLETE, "finish: the response is already incomplete"),
    ],
)
def test_the_error_of_a_transition_in_the_wrong_phase(phase: Phase, message: str) -> None:
    error = transition_error(phase, "finish")
    assert type(error) is InvalidTransition
    assert error.message == message
