"""The error of a call in the wrong phase says what was wrong, and when."""

from __future__ import annotations

import pytest

from antiphon.core.stream.phase import Phase, phase_error
from antiphon.errors import BridgeError, DeltaAfterTerminal, InvalidTransition, OutputBeforeStart


@pytest.mark.parametrize(
    ("phase", "kind", "message"),
    [
        (Phase.IDLE, OutputBeforeStart, "text: the response has not started"),
        (Phase.IN_PROGRESS, InvalidTransition, "text: the response has already started"),
        (Phase.COMPLETED, DeltaAfterTerminal, "text: the response is already completed"),
        (Phase.FAILED, DeltaAfterTerminal, "text: the response is already failed"),
    ],
)
def test_the_error_of_a_call_in_the_wrong_phase(
    phase: Phase, kind: type[BridgeError], message: str
) -> None:
    error = phase_error(phase, "text")
    assert type(error) is kind
    assert error.message == message
