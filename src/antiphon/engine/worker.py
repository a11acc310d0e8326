"""Worker thread: validation, planning and encoding of large requests, off the event loop.

One thread is enough, and better than several: all of them would compete with the event loop for the
interpreter lock, and hold more large requests in memory at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class WorkerThread:
    """Runs functions one after the other in a thread, which is started by the first one."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="antiphon-worker")

    async def run(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function)

    def close(self) -> None:
        """End the thread after what it is doing; functions that have not begun are dropped."""
        self._executor.shutdown(wait=False, cancel_futures=True)
