"""Runtime: the clock, ids and randomness, created here and passed to everything else."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

_ID_BYTES = 16
_POOL_BYTES = 256 * _ID_BYTES


class RandomIds:
    """Unguessable ids. One system call provides the randomness for many of them."""

    def __init__(self, random_bytes: Callable[[int], bytes] = os.urandom) -> None:
        self._random_bytes = random_bytes
        self._pool = b""
        self._used = 0

    def __call__(self, prefix: str) -> str:
        if self._used == len(self._pool):
            self._pool = self._random_bytes(_POOL_BYTES)
            self._used = 0
        begin, self._used = self._used, self._used + _ID_BYTES
        return f"{prefix}_{self._pool[begin : self._used].hex()}"


def _now() -> int:
    return int(time.time())


def _now_ms() -> int:
    return int(time.time() * 1000)


@dataclass(frozen=True)
class Runtime:
    """Injected clock, ids and randomness."""

    new_id: Callable[[str], str] = field(default_factory=RandomIds)
    new_nonce: Callable[[int], bytes] = os.urandom
    now: Callable[[], int] = _now
    now_ms: Callable[[], int] = _now_ms
    epoch_s: Callable[[], float] = time.time
    """The Unix time with its fraction, for dates in HTTP headers and signatures."""
    monotonic: Callable[[], float] = time.monotonic
    random: Callable[[], float] = random.random
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
