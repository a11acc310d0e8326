"""A deadline that moves with activity, for the price of a timestamp per activity."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class InactivityTimer:
    """Calls back once nothing has happened for `limit_s` seconds. `touch` says something has.

    Touching costs one clock read: the timer looks at the time when it rings, and goes back to
    sleep for what is left. With `repeat`, it rings again after every further silence.
    """

    def __init__(self, limit_s: float, ring: Callable[[], None], *, repeat: bool = False) -> None:
        self._loop = asyncio.get_running_loop()
        self._limit_s = limit_s
        self._ring = ring
        self._repeat = repeat
        self._touched = self._loop.time()
        self._handle: asyncio.TimerHandle | None = self._loop.call_later(limit_s, self._look)

    def touch(self) -> None:
        self._touched = self._loop.time()

    def reset(self, limit_s: float) -> None:
        """Another limit from now on."""
        self._stop()
        self._limit_s = limit_s
        self._touched = self._loop.time()
        self._handle = self._loop.call_later(limit_s, self._look)

    def cancel(self) -> None:
        """For good. Whoever would have been called is forgotten, so that the two, which mostly know
        each other, are gone as soon as nobody needs them."""
        self._stop()
        self._ring = _nobody

    def _stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _look(self) -> None:
        self._handle = None
        left = self._touched + self._limit_s - self._loop.time()
        if left <= 0:
            if self._repeat:
                self._touched = self._loop.time()
                self._handle = self._loop.call_later(self._limit_s, self._look)
            self._ring()
        else:
            self._handle = self._loop.call_later(left, self._look)


def _nobody() -> None:
    return
