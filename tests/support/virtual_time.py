"""Event loop whose time stands still while anything runs, and jumps to the next timer when nothing
does: tests of timers depend on no clock and wait for nothing.

A module of such tests overrides the fixture of its event loop:

    anyio_backend = virtual_time_backend

Threads and other processes take no time at all in such a loop: it is not for tests that use them.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Mapping
from typing import Any

import pytest

LIMIT_S = 24 * 3600.0
"""The virtual time after which a test is taken for stuck."""


class _JumpingSelector(selectors.DefaultSelector):
    """Reports what is ready now; in place of waiting it advances the time."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            return super().select(None)
        self.now += timeout
        assert self.now < LIMIT_S, "the test does not come to its end"
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._clock = _JumpingSelector()
        super().__init__(self._clock)
        self._clock_resolution = 1e-6

    def time(self) -> float:
        return self._clock.now


@pytest.fixture
def virtual_time_backend() -> tuple[str, Mapping[str, Any]]:
    return "asyncio", {"loop_factory": VirtualTimeLoop}
