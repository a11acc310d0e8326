"""What happened during a chaos run: responses as their clients saw them, kills and outages."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tests.support.cluster.http_client import TERMINAL, decode

now = time.monotonic


@dataclass
class Outcome:
    """One response, as its client saw it."""

    marker: str
    """Part of the input, by which the provider knows it."""
    is_background: bool
    gateway: str
    """That was asked for it."""
    asked_at: float
    id: str = ""
    frames: list[bytes] = field(default_factory=list)
    response: dict[str, Any] | None = None
    """As it ended."""
    ended_at: float = 0.0
    error: str = ""
    """Why the client could not get it, or not to its end."""
    cuts: int = 0
    """How often its stream was cut and resumed."""

    def take(self, frame: bytes) -> bool:
        """Keep the next frame; whether it is the last. Raises `AssertionError` at a gap."""
        event = decode(frame)
        number, expected = event["sequence_number"], len(self.frames)
        assert number == expected, f"event {number} came where {expected} was expected"
        self.frames.append(frame)
        if event["type"] == "response.created":
            self.id = event["response"]["id"]
        if event["type"] in TERMINAL:
            self.response, self.ended_at = event["response"], now()
        return self.response is not None

    @property
    def status(self) -> str:
        return "" if self.response is None else str(self.response["status"])

    def forget_frames(self) -> None:
        """Free the memory of a log that was compared."""
        self.frames = []


@dataclass
class Life:
    """One process of a gateway."""

    started_at: float
    killed_at: float = float("inf")


@dataclass
class Timeline:
    """When processes lived and when the store was away."""

    lives: defaultdict[str, list[Life]] = field(default_factory=lambda: defaultdict(list))
    outages: list[tuple[float, float]] = field(default_factory=list)
    redis_kills: int = 0

    def killed_between(self, gateway: str, start: float, end: float) -> float | None:
        """Return when a gateway was killed within a time; None if it was not."""
        for life in self.lives[gateway]:
            if start <= life.killed_at <= end:
                return life.killed_at
        return None

    def outage_between(self, start: float, end: float) -> float:
        """Return how long the store was away within a time."""
        return sum(max(0.0, min(end, b) - max(start, a)) for a, b in self.outages)

    @property
    def kills(self) -> int:
        ended = [life for lives in self.lives.values() for life in lives]
        return sum(life.killed_at != float("inf") for life in ended)


@dataclass
class Records:
    """Everything that is judged in the end."""

    timeline: Timeline = field(default_factory=Timeline)
    outcomes: list[Outcome] = field(default_factory=list)
    calls: defaultdict[str, list[tuple[str, float]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """Markers, and who has asked the provider for them, when."""
    violations: list[str] = field(default_factory=list)
    _numbers: count[int] = field(default_factory=count)

    def begin(self, gateway: str, *, is_background: bool) -> Outcome:
        outcome = Outcome(f"marker-{next(self._numbers)}.", is_background, gateway, now())
        self.outcomes.append(outcome)
        return outcome

    def violate(self, outcome: Outcome, reason: str) -> None:
        kind = "background" if outcome.is_background else "foreground"
        self.violations.append(f"{kind} {outcome.id or outcome.marker}: {reason}")
