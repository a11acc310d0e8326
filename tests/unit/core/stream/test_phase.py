"""Phases, and the errors of calls in the wrong one."""

from __future__ import annotations

import pytest

from antiphon.core.stream.phase import Phase, phase_error


@pytest.mark.parametrize(
    ("phase", "code", "message"),
    [
        (Phase.IDLE, "output_before_start", "text: the response has not started"),
        (Phase.IN_PROGRESS, "invalid_transition", "text: the response has already started"),
        (Phase.COMPLETED, "delta_after_terminal", "text: the response is already completed"),
        (Phase.INCOMPLETE, "delta_after_terminal", "text: the response is already incomplete"),
        (Phase.FAILED, "delta_after_terminal", "text: the response is already failed"),
    ],
)
def test_the_error_names_what_was_called_and_the_phase(
    phase: Phase, code: str, message: str
) -> None:
    error = phase_error(phase, "text")
    assert (error.code, error.message) == (f"bridge.stream.{code}", message)
