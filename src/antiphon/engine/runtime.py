"""Runtime: the clock, ids, randomness and the worker thread, created here and passed to everything
else; the timer of silence; and the stack of what has to be released."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")

_RANDOM_BYTES = 12
_RANDOM_DIGITS = 2 * _RANDOM_BYTES
_POOL_BYTES = 256 * _RANDOM_BYTES


def _now() -> int:
    return int(time.time())


class RandomIds:
    """Unguessable ids that begin with a time, so that new ones are neighbours in every index: a
    database then writes a few pages for many ids, instead of one for each.

    One system call provides the randomness for many of them, and the time is that of this call."""

    def __init__(
        self, random_bytes: Callable[[int], bytes] = os.urandom, now: Callable[[], int] = _now
    ) -> None:
        self._random_bytes = random_bytes
        self._now = now
        self._drawn_at = ""
        self._pool = ""
        self._used = 0

    def __call__(self, prefix: str) -> str:
        if self._used == len(self._pool):
            self._pool = self._random_bytes(_POOL_BYTES).hex()
            self._drawn_at = f"{self._now() & 0xFFFFFFFF:08x}"
            self._used = 0
        begin = self._used
        self._used = begin + _RANDOM_DIGITS
        return f"{prefix}_{self._drawn_at}{self._pool[begin : self._used]}"


@dataclass(frozen=True)
class Runtime:
    """Injected clock, ids and randomness."""

    new_id: Callable[[str], str] = field(default_factory=RandomIds)
    new_nonce: Callable[[int], bytes] = os.urandom
    now: Callable[[], int] = _now
    epoch_s: Callable[[], float] = time.time
    """The Unix time with its fraction, for HTTP dates, signatures, leases and rows of the trace."""
    monotonic: Callable[[], float] = time.monotonic
    random: Callable[[], float] = random.random
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def now_ms(self) -> int:
        """Return the Unix time in whole milliseconds."""
        return int(self.epoch_s() * 1000)


class WorkerThread:
    """Validates, plans and encodes large requests off the event loop: runs functions one after the
    other in a thread, which is started by the first one.

    One thread is enough, and better than several: all of them would compete with the event loop for
    the interpreter lock, and hold more large requests in memory at the same time."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="antiphon-worker")

    async def run(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function)

    def close(self) -> None:
        """End the thread after what it is doing; functions that have not begun are dropped."""
        self._executor.shutdown(wait=False, cancel_futures=True)


class InactivityTimer:
    """Calls `on_idle` after `limit_s` seconds without a `touch`.

    A touch only stores the time. When the timer fires early it is scheduled again for what is
    left. With `repeat`, it fires after every further idle period.
    """

    __slots__ = ("_handle", "_limit_s", "_loop", "_on_idle", "_repeat", "touched_at")

    def __init__(
        self, limit_s: float, on_idle: Callable[[], None], *, repeat: bool = False
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._limit_s = limit_s
        self._on_idle: Callable[[], None] | None = on_idle
        self._repeat = repeat
        self.touched_at = self._loop.time()
        """The time of the last activity. A very active user sets it without `touch`."""
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
        self._on_idle = None

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
            if self._on_idle is not None:
                self._on_idle()
        else:
            self._handle = self._loop.call_later(left, self._fire)


class Releases(list[Callable[[], object] | tuple[Callable[[Any], object], Any]]):
    """Functions that release something, or functions with their argument: called in `close`, the
    last one first, and each of them, whatever another one raises.

    A `contextlib.ExitStack` for functions that need not know of an error, for a third of the
    cost."""

    __slots__ = ()

    def close(self) -> None:
        try:
            while self:
                last = self.pop()
                if isinstance(last, tuple):
                    last[0](last[1])
                else:
                    last()
        finally:
            if self:
                self.close()
