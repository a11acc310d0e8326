"""The clock of the running event loop as a number that tests advance."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch


class LoopClock:
    """The clock of the running loop, advanced by hand; due callbacks run with each step."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.now = loop.time()

    def time(self) -> float:
        return self.now

    async def advance(self, seconds: float) -> None:
        self.now += seconds
        for _ in range(3):
            await asyncio.sleep(0)


@contextmanager
def loop_clock() -> Iterator[LoopClock]:
    """Stop the clock of the running loop."""
    loop = asyncio.get_running_loop()
    clock = LoopClock(loop)
    with patch.object(loop, "time", clock.time):
        yield clock
