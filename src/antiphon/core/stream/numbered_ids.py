"""Numbered ids: a source of ids for streams that must come out the same every time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable


def number_ids() -> Callable[[str], str]:
    """Return a source of ids that counts each prefix: `msg_0001`, `msg_0002`."""
    counts: Counter[str] = Counter()

    def new_id(prefix: str) -> str:
        counts[prefix] += 1
        return f"{prefix}_{counts[prefix]:04d}"

    return new_id
