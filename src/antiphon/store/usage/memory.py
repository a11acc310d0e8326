"""Usage table in memory; lost when the process ends."""

from __future__ import annotations

from collections.abc import Mapping

from antiphon.store.usage.usage_table import Counts, UsageKey, merge_counts


class MemoryUsageTable:
    """A `UsageTable` in memory."""

    def __init__(self) -> None:
        self._rows: dict[UsageKey, Counts] = {}

    async def add(self, rows: Mapping[UsageKey, Counts]) -> None:
        merge_counts(self._rows, rows.items())

    async def read(self, first_hour: int, last_hour: int) -> dict[UsageKey, Counts]:
        return {
            key: counts for key, counts in self._rows.items() if first_hour <= key.hour <= last_hour
        }

    async def delete_before(self, hour: int) -> None:
        for key in [key for key in self._rows if key.hour < hour]:
            del self._rows[key]
