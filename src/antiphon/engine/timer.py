"""Inactivity timer: a deadline that moves with activity, at the cost of one clock read each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class InactivityTimer:
    """Calls `on_idle` after `limit_s` seconds without a `touch`.

    A touch only stores the time. When the timer fires early it is scheduled again for what is
    left. With `repeat`, it fires after every further idle period.
    """

    def __init__(
        self, limit_s: float, on_idle: Callable[[], None], *, repeat: bool = False
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._limit_s = limit_s
        self._on_idle = on_idle
        self._repeat = repeat
        self.touched_at = self._loop.time()
        """The time of the last activity. Whoever is active very often sets it without `touch`."""
        self._handle: asyncio.TimerHandle | None = self._loop.call_later(limit_s, self._fire)

    def touch(self) -> None:
        self.touched_at = self._loop.time()

    def reset(self, limit_s: float) -> None:
        """Restart with another limit."""
        self._stop()
        self._limit_s = limit_s
        self.touched_at = self._loop.time()
        self._handle = self._loop.call_later(limit_s, self._fire)

    def cancel(self) -> None:
        """Stop for good, and drop the callback: timer and owner refer to each other, and without
        the cycle both are freed at once."""
        self._stop()
        self._on_idle = _ignore

    def _stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _fire(self) -> None:
        self._handle = None
        left = self.touched_at + self._limit_s - self._loop.time()
        if left <= 0:
            if self._repeat:
                self.touched_at = self._loop.time()
                self._handle = self._loop.call_later(self._limit_s, self._fire)
            self._on_idle()
        else:
            self._handle = self._loop.call_later(left, self._fire)


def _ignore() -> None:
    return
