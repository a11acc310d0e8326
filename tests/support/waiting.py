"""Wait for a condition, never for a fixed time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

LIMIT_S = 60.0
"""After which a condition is given up: far longer than it takes on a machine that is busy."""
_PASSES = 1000
_PAUSE_S = 0.001


async def let_others_read() -> None:
    """Let other tasks of the loop read what was written to a socket."""
    for _ in range(20):
        await asyncio.sleep(0)


async def is_blocked(task: asyncio.Future[Any], seconds: float) -> bool:
    """Whether a task that waits for others in the same loop cannot go on: not within a time, and
    not while all of them run some more. A machine that did nothing for that time is no reason."""
    await asyncio.wait((task,), timeout=seconds)
    for _ in range(_PASSES):
        if task.done():
            return False
        await asyncio.sleep(0)
    return True


async def until(condition: Callable[[], object], what: str) -> None:
    """Let other tasks run until the condition holds; after a while, other processes as well."""
    loop = asyncio.get_running_loop()
    deadline, passes = loop.time() + LIMIT_S, 0
    while not condition():
        assert loop.time() < deadline, f"never happened: {what}"
        passes += 1
        await asyncio.sleep(0 if passes < _PASSES else _PAUSE_S)


async def until_async(condition: Callable[[], Awaitable[object]], what: str) -> None:
    """Let other tasks run until a condition holds that has to be awaited."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + LIMIT_S
    while not await condition():
        assert loop.time() < deadline, f"never happened: {what}"
        await asyncio.sleep(0.005)
