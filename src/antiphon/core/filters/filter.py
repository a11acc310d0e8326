"""Desks: where the deltas of an answer are looked at before the machine tells them.

A *round* is one question to the provider and what it says to that; most answers have one. A desk
takes deltas and gives deltas, over all rounds of one answer. When a round is over it may ask for
another: then the answer goes on, in the same response, with what the desk wants to have said.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from antiphon.core.diagnostic import Code, Decision, Diagnostic
from antiphon.core.plan.follow_up import FollowUp
from antiphon.core.stream.deltas import Delta


class DeltaFilter(ABC):
    def __init__(self) -> None:
        self.again: FollowUp | None = None
        """What `close` asks for; None: nothing."""
        self.diagnostics: list[Diagnostic] = []
        """What became of the answer at this desk that a client should know."""

    @abstractmethod
    def feed(self, delta: Delta) -> list[Delta]:
        """What becomes of a word of the answer. Who answers and what that costs passes no desk."""

    def close(self, *, final: bool) -> list[Delta]:
        """The round is over: what was held back, and `again` if this is not the end.

        `final` is False where another desk has asked for a round already."""
        return []

    def _note(self, code: Code, param: str, message: str, subject: str = "") -> None:
        self.diagnostics.append(
            Diagnostic(
                code=code,
                decision=Decision.DEGRADED,
                param=param,
                message=message,
                subject=subject,
            )
        )
