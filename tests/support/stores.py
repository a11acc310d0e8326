"""Stores in memory for tests: the real one, opened and closed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

from antiphon.errors import StoreError
from antiphon.store.sqlite.store import SQLiteStore
from antiphon.store.turn import Clock, StoreLimits
from antiphon.store.usage.usage_table import Counts, UsageKey, merge_counts

S = TypeVar("S", bound=SQLiteStore)


class OpenMemory:
    """Opens stores in memory, and closes them with the block that it is used in."""

    def __init__(self, opened: AsyncExitStack) -> None:
        self._opened = opened

    async def __call__(
        self, *, now: Clock = lambda: 0, limits: StoreLimits | None = None
    ) -> SQLiteStore:
        return await self.open(SQLiteStore(None, now=now, limits=limits))

    async def open(self, store: S) -> S:
        """Open a store of a class derived from that of stores."""
        await store.open()
        self._opened.push_async_callback(store.close)
        return store


class UsageRows:
    """A `UsageTable` without a database."""

    def __init__(self) -> None:
        self._rows: dict[UsageKey, Counts] = {}

    async def add(self, rows: Mapping[UsageKey, Counts]) -> None:
        merge_counts(self._rows, rows.items())

    async def read(self, first_hour: int, last_hour: int) -> dict[UsageKey, Counts]:
        return {key: row for key, row in self._rows.items() if first_hour <= key.hour <= last_hour}

    async def delete_before(self, hour: int) -> None:
        self._rows = {key: row for key, row in self._rows.items() if key.hour >= hour}


class UnreadableUsage(UsageRows):
    """A `UsageTable` that cannot be read."""

    async def read(self, first_hour: int, last_hour: int) -> dict[UsageKey, Counts]:
        raise StoreError("the store cannot be read")


@asynccontextmanager
async def stores_in_memory() -> AsyncIterator[OpenMemory]:
    async with AsyncExitStack() as opened:
        yield OpenMemory(opened)
