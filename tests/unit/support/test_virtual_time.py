"""The loop with virtual time: timers in their order, without waiting."""

from __future__ import annotations

import asyncio
import time

from tests.support.virtual_time import virtual_time_backend

anyio_backend = virtual_time_backend


async def test_an_hour_takes_no_time_and_timers_keep_their_order() -> None:
    loop, began = asyncio.get_running_loop(), time.monotonic()
    fired: list[float] = []
    for delay_s in (3600.0, 0.5, 60.0):
        loop.call_later(delay_s, fired.append, delay_s)
    start = loop.time()
    await asyncio.sleep(3600.0)
    await asyncio.sleep(0)
    assert (fired, loop.time() - start) == ([0.5, 60.0, 3600.0], 3600.0)
    assert time.monotonic() - began < 1800


async def test_time_stands_still_while_something_runs() -> None:
    loop = asyncio.get_running_loop()
    start = loop.time()
    for _ in range(1000):
        await asyncio.sleep(0)
    assert loop.time() == start
