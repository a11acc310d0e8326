"""Waiting for something that can be seen, and never for time to pass."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

LIMIT_S = 10.0


async def until(condition: Callable[[], object], what: str) -> None:
    """Let everybody else go on until it is so."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + LIMIT_S
    while not condition():
        assert loop.time() < deadline, f"never happened: {what}"
        await asyncio.sleep(0)
