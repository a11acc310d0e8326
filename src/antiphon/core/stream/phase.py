"""Phases of a response, and the error of a call in the wrong one."""

from __future__ import annotations

from enum import StrEnum

from antiphon.errors import BridgeError, DeltaAfterTerminal, InvalidTransition, OutputBeforeStart


class Phase(StrEnum):
    IDLE = "idle"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    FAILED = "failed"


def phase_error(phase: Phase, what: str) -> BridgeError:
    if phase is Phase.IDLE:
        return OutputBeforeStart(f"{what}: the response has not started")
    if phase is Phase.IN_PROGRESS:
        return InvalidTransition(f"{what}: the response has already started")
    return DeltaAfterTerminal(f"{what}: the response is already {phase.value}")
