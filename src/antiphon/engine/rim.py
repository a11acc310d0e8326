"""Clocks and ids: made here, handed to everybody else."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass


def _new_id(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(16)}"


def _now() -> int:
    return int(time.time())


def _now_ms() -> int:
    return int(time.time() * 1000)


@dataclass(frozen=True)
class Rim:
    """What the heart must not know where it comes from."""

    new_id: Callable[[str], str] = _new_id
    now: Callable[[], int] = _now
    now_ms: Callable[[], int] = _now_ms
    monotonic: Callable[[], float] = time.monotonic
