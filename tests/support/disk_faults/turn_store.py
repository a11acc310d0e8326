"""A scenario for the turn store under faults, and what must be true of it afterwards."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from antiphon.errors import InvalidRequest, StoreError
from antiphon.store.sqlite.retention import PURGE_EVERY_S
from antiphon.store.sqlite.store import SQLiteStore
from antiphon.store.store import StoreLimits, Turn
from tests.support.turns import Clock, turn

_NOISE = random.Random(1).randbytes(60_000).hex()
"""A text that stays large when it is compressed: its row takes many pages of the file."""


class TurnScenario:
    """Saves, deletions and reads; remembers which turns may be in the store."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.possible: dict[str, list[Turn | None]] = {}
        self._clock = Clock()

    def prepare(self) -> None:
        """Create the file with some turns, without faults."""
        asyncio.run(self._with_store(self._write_first_turns))

    def run(self) -> None:
        """Use the store; every operation either succeeds or raises `StoreError`."""
        with suppress(StoreError):
            asyncio.run(self._with_store(self._use))

    def check(self) -> None:
        """Open the store again, without faults: what was acknowledged is there, complete."""
        asyncio.run(self._with_store(self._check))
        with closing(sqlite3.connect(self.path)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            total = connection.execute("SELECT turns, bytes FROM total").fetchone()
            counted = "SELECT count(*), ifnull(sum(length(body)), 0) FROM turn"
            assert connection.execute(counted).fetchone() == total
            orphans = "SELECT count(*) FROM item WHERE turn NOT IN (SELECT seq FROM turn)"
            assert connection.execute(orphans).fetchone() == (0,)

    async def _with_store(self, use: Callable[[SQLiteStore], Awaitable[None]]) -> None:
        limits = StoreLimits(ttl_s=10 * PURGE_EVERY_S)
        store = SQLiteStore(self.path, now=self._clock, limits=limits)
        try:
            await store.open()
            await use(store)
        finally:
            await store.close()

    async def _write_first_turns(self, store: SQLiteStore) -> None:
        await self._save(store, turn("old"))
        await self._save(store, turn("older", text=_NOISE[:40_000]))

    async def _use(self, store: SQLiteStore) -> None:
        await self._save(store, turn("a", input=({"id": "item_a", "type": "message"},)))
        await asyncio.gather(*(self._save(store, turn(f"b{n}", "a")) for n in range(3)))
        await self._save(store, turn("large", "b0", text=_NOISE))
        await self._read(store)
        await self._save(store, turn("a", text="replaced"))
        await self._delete(store, "b1")
        await self._delete(store, "older")
        self._clock.now += PURGE_EVERY_S + 1  # the next batch is followed by a purge and a vacuum
        with suppress(StoreError):
            await store.check()
        await self._save(store, turn("last", "large", text=_NOISE[:9_000]))
        await self._read(store)

    async def _save(self, store: SQLiteStore, saved: Turn) -> None:
        before = self.possible.setdefault(saved.id, [None])
        self.possible[saved.id] = [*before, saved]
        with suppress(StoreError):
            await store.save(saved)
            self.possible[saved.id] = [saved]

    async def _delete(self, store: SQLiteStore, id: str) -> None:
        before = self.possible.setdefault(id, [None])
        self.possible[id] = [*before, None]
        with suppress(StoreError):
            await store.delete(id)
            self.possible[id] = [None]

    async def _read(self, store: SQLiteStore) -> None:
        for id in self.possible:
            with suppress(StoreError):
                self._expect(id, await store.load(id))
        with suppress(StoreError):
            await self._read_chain(store)
        with suppress(StoreError):
            items = await store.load_items(["item_a"])
            assert items in ({}, {"item_a": {"id": "item_a", "type": "message"}}), items

    async def _read_chain(self, store: SQLiteStore) -> None:
        ids = ("a", "b0", "large")
        try:
            turns = await store.chain("large")
        except InvalidRequest:
            assert any(None in self.possible[id] for id in ids), "a turn of the chain is missing"
            return
        assert tuple(each.id for each in turns) == ids

    async def _check(self, store: SQLiteStore) -> None:
        for id in self.possible:
            self._expect(id, await store.load(id))
        await store.save(turn("after"))
        assert await store.load("after") is not None
        await store.delete("after")

    def _expect(self, id: str, found: Turn | None) -> None:
        if found is not None:
            found = msgspec.structs.replace(found, expires_at=None)
        assert found in self.possible[id], f"{id}: {'missing' if found is None else 'unexpected'}"
