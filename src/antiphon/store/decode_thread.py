"""A thread that decodes large histories, for stores without threads of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_LARGE_BYTES = 256 * 1024
"""A smaller history is decoded sooner than a thread could begin."""


class DecodeThread:
    """Decodes one history after the other; the first large one starts the thread."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="antiphon-decode")

    async def run(self, decode: Callable[[], T], size: int) -> T:
        """Return the result of `decode`, which reads `size` bytes."""
        if size < _LARGE_BYTES:
            return decode()
        return await asyncio.get_running_loop().run_in_executor(self._executor, decode)

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)
