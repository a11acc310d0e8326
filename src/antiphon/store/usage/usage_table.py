"""Usage table: counts of requests, tokens and cost by hour, client, model and provider.

Counts are only ever added, so that any number of processes may write to the same row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import add
from typing import NamedTuple, Protocol, TypeAlias

from antiphon.store.usage.histogram import BUCKETS

HOUR_S = 3600
COUNTS: tuple[str, ...] = (
    *("requests", "failures", "input_tokens", "cached_tokens", "cache_write_tokens"),
    *("output_tokens", "reasoning_tokens", "cost", "unpriced"),
    *(f"first_event_{number:02}" for number in range(BUCKETS)),
)
"""The counts of a row. `cost` is in billionths of a US dollar, so that sums are exact; `unpriced`
counts requests with tokens of unknown price; the others are a histogram of the time to the first
event."""
FIRST_BUCKET = COUNTS.index("first_event_00")

Counts: TypeAlias = tuple[int, ...]
"""One number for each name in `COUNTS`."""


class UsageKey(NamedTuple):
    """What a row counts: the requests of one client in one hour that one model answered."""

    hour: int
    """Hours since the epoch."""
    client: str
    model: str
    """The model as its provider names it."""
    provider: str


class UsageTable(Protocol):
    """Usage in the database of a store. Raises `StoreError`."""

    async def add(self, rows: Mapping[UsageKey, Counts]) -> None:
        """Add counts to those of their rows."""

    async def read(self, first_hour: int, last_hour: int) -> dict[UsageKey, Counts]:
        """Return the rows of these hours, both included."""

    async def delete_before(self, hour: int) -> None:
        """Delete the rows of all hours before this one."""


def merge_counts(rows: dict[UsageKey, Counts], more: Iterable[tuple[UsageKey, Counts]]) -> None:
    """Add counts to rows by their keys."""
    for key, counts in more:
        rows[key] = add_counts(rows[key], counts) if key in rows else counts


def add_counts(old: Sequence[int], new: Sequence[int]) -> Counts:
    return tuple(map(add, old, new))
