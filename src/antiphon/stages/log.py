"""Log entries: an event name and its facts, without any content of a request or a response."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct


class Entry(Struct, frozen=True):
    """A log entry: a stable event name, a level, and facts that are safe to keep."""

    event: str
    level: str
    facts: Mapping[str, Any]
