"""Phases of a response, and the errors of a delta or a transition in the wrong one."""

from __future__ import annotations

from enum import StrEnum

from antiphon.errors import BridgeError, DeltaAfterTerminal, InvalidTransition, OutputBeforeStart


class Phase(StrEnum):
    IDLE = "idle"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    FAILED = "failed"


def delta_error(phase: Phase, what: str) -> BridgeError:
    """The error of a delta that comes before the start or after the end."""
    if phase is Phase.IDLE:
        return OutputBeforeStart(f"{what}: the response has not started")
    return DeltaAfterTerminal(f"{what}: the response is already {phase.value}")


def transition_error(phase: Phase, method: str) -> InvalidTransition:
    """The error of `start`, `finish` or `fail` in a phase that it does not lead out of."""
    if phase is Phase.IDLE:
        return InvalidTransition(f"{method}: the response has not started")
    if phase is Phase.IN_PROGRESS:
        return InvalidTransition(f"{method}: the response has already started")
    return InvalidTransition(f"{method}: the response is already {phase.value}")
