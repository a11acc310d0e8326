"""A circuit breaker: a provider that keeps failing is left alone for a while, then tried once.

Only faults of the provider itself count. A rate limit is a matter between it and a key.
"""

from __future__ import annotations

from collections.abc import Callable


class Breaker:
    def __init__(
        self, clock: Callable[[], float], *, threshold: int = 5, rest_s: float = 30.0
    ) -> None:
        self._clock = clock
        self._threshold = threshold
        self._rest_s = rest_s
        self._failures = 0
        self._open_until = 0.0
        self._trial = False

    def allows(self) -> bool:
        """Whether a request may go out now. After a rest, one at a time tries the way."""
        if self._failures < self._threshold:
            return True
        if self._trial or self._clock() < self._open_until:
            return False
        self._trial = True
        return True

    def succeed(self) -> None:
        self._failures = 0
        self._trial = False

    def fail(self) -> None:
        self._failures += 1
        self._trial = False
        if self._failures >= self._threshold:
            self._open_until = self._clock() + self._rest_s

    def pass_over(self) -> None:
        """The trial said nothing about the provider: another may try."""
        self._trial = False
