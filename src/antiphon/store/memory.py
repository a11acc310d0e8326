"""In-memory store of turns, bounded in number and bytes; lost when the process ends.

Turns are held as encoded bytes, so that the byte limit is exact and stored turns cannot be
modified. Eviction is LRU: the turn least recently saved or continued is removed first.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterable
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from antiphon.store.chain import follow_chain
from antiphon.store.item_references import ItemCollector, ItemLocation, locate_items
from antiphon.store.store import Clock, StoreLimits, Turn, decode_turn, encode_turn
from antiphon.wire.items import Document

MAX_TURNS = 10_000
MAX_BYTES = 256 * 1024 * 1024
PURGE_EVERY_S = 60
_YIELD_EVERY = 64  # turns decoded before control returns to the event loop


class _StoredTurn(Struct):
    previous_response_id: str | None
    client: str
    expires_at: int | None
    body: bytes
    locations: dict[str, ItemLocation]
    """Locations of its items, by item id."""


class MemoryStore:
    """A `Store` in memory."""

    def __init__(self, *, now: Clock, limits: StoreLimits | None = None) -> None:
        limits = limits or StoreLimits()
        self._max_turns = MAX_TURNS if limits.max_turns is None else limits.max_turns
        self._max_bytes = MAX_BYTES if limits.max_bytes is None else limits.max_bytes
        self._limits = replace(limits, max_bytes=self._max_bytes)
        self._now = now
        self._entries: OrderedDict[str, _StoredTurn] = OrderedDict()
        self._turns_by_item: defaultdict[tuple[str, bool], dict[str, None]] = defaultdict(dict)
        """Response ids of the turns that hold an item, oldest first, by (item id, is_input)."""
        self._bytes = 0
        self._purged_at = now()

    @property
    def name(self) -> str:
        return "memory"

    async def open(self) -> None:
        pass

    async def check(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def save(self, turn: Turn) -> None:
        body = encode_turn(turn, self._limits)
        now = self._now()
        self._purge(now)
        self._drop(turn.id)
        expires_at = self._limits.expiry(now) if turn.expires_at is None else turn.expires_at
        entry = _StoredTurn(
            turn.previous_response_id, turn.client, expires_at, body, locate_items(turn)
        )
        self._entries[turn.id] = entry
        self._bytes += len(body)
        for item_id, location in entry.locations.items():
            self._turns_by_item[item_id, location.is_input][turn.id] = None
        self._evict()

    async def load(self, response_id: str, *, client: str = "") -> Turn | None:
        entry = self._find(response_id, client)
        return None if entry is None else decode_turn(entry.body, entry.expires_at)

    async def delete(self, response_id: str, *, client: str = "") -> bool:
        if self._find(response_id, client) is None:
            return False
        self._drop(response_id)
        return True

    async def chain(self, response_id: str, *, client: str = "") -> list[Turn]:
        find = partial(self._find, client=client)
        links = follow_chain(response_id, find, self._limits.max_chain)
        self._renew(links)
        turns = []
        for number, entry in enumerate(links.values(), 1):
            turns.append(decode_turn(entry.body, entry.expires_at))
            if number % _YIELD_EVERY == 0:
                await asyncio.sleep(0)
        return turns

    async def load_items(
        self, item_ids: Collection[str], *, client: str = ""
    ) -> dict[str, Document]:
        wanted: defaultdict[str, dict[str, ItemLocation]] = defaultdict(dict)
        for item_id in item_ids:
            if (response_id := self._find_turn_of_item(item_id, client)) is not None:
                wanted[response_id][item_id] = self._entries[response_id].locations[item_id]
        bodies = [(self._entries[id].body, locations) for id, locations in wanted.items()]
        collector = ItemCollector()
        for number, (body, locations) in enumerate(bodies, 1):
            collector.add(body, locations)
            if number % _YIELD_EVERY == 0:
                await asyncio.sleep(0)
        return collector.items

    def _find_turn_of_item(self, item_id: str, client: str) -> str | None:
        """Return the turn to take an item from: output before input, newer before older."""
        for is_input in (False, True):
            for response_id in reversed(self._turns_by_item.get((item_id, is_input), {})):
                if self._find(response_id, client) is not None:
                    return response_id
        return None

    def _find(self, response_id: str, client: str) -> _StoredTurn | None:
        entry = self._entries.get(response_id)
        if entry is None or entry.client not in ("", client) or _is_expired(entry, self._now()):
            return None
        return entry

    def _renew(self, response_ids: Iterable[str]) -> None:
        now = self._now()
        for response_id in response_ids:
            self._entries.move_to_end(response_id)
            entry = self._entries[response_id]
            if self._limits.needs_renewal(entry.expires_at, now):
                entry.expires_at = self._limits.expiry(now)

    def _purge(self, now: int) -> None:
        if now - self._purged_at < PURGE_EVERY_S:
            return
        self._purged_at = now
        for response_id in [id for id, entry in self._entries.items() if _is_expired(entry, now)]:
            self._drop(response_id)

    def _evict(self) -> None:
        while len(self._entries) > self._max_turns or self._bytes > self._max_bytes:
            self._drop(next(iter(self._entries)))

    def _drop(self, response_id: str) -> None:
        if entry := self._entries.pop(response_id, None):
            self._bytes -= len(entry.body)
            for item_id, location in entry.locations.items():
                turns = self._turns_by_item[item_id, location.is_input]
                del turns[response_id]
                if not turns:
                    del self._turns_by_item[item_id, location.is_input]


def _is_expired(entry: _StoredTurn, now: int) -> bool:
    return entry.expires_at is not None and entry.expires_at <= now
