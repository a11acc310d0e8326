"""Turns in memory: gone with the process, and never more than a fixed amount of it.

Turns are held as bytes, so that the bound means something and nobody can change what is stored.
The one least recently saved or continued goes first.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterable

from msgspec import Struct
from msgspec.structs import replace

from antiphon.store.chain import walk
from antiphon.store.item_references import Picked, Place, places
from antiphon.store.store import Clock, StoreLimits, Turn, decode_turn, encode_turn
from antiphon.wire.items import Document

MAX_TURNS = 10_000
MAX_BYTES = 256 * 1024 * 1024
PURGE_EVERY_S = 60
_BREATH = 64  # how many turns are decoded before others get their moment


class _Entry(Struct):
    previous_response_id: str | None
    client: str
    expires_at: int | None
    body: bytes
    places: dict[str, Place]
    """Of its items, by their ids."""


class MemoryStore:
    """A `Store` without a file."""

    def __init__(self, *, now: Clock, limits: StoreLimits | None = None) -> None:
        limits = limits or StoreLimits()
        self._max_turns = MAX_TURNS if limits.max_turns is None else limits.max_turns
        self._max_bytes = MAX_BYTES if limits.max_bytes is None else limits.max_bytes
        self._limits = replace(limits, max_bytes=self._max_bytes)
        self._now = now
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._homes: defaultdict[tuple[str, bool], dict[str, None]] = defaultdict(dict)
        """The turns that an item is in, oldest first, by its id and whether it is input there."""
        self._bytes = 0
        self._purged_at = now()

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def save(self, turn: Turn) -> None:
        body = encode_turn(turn, self._limits)
        now = self._now()
        self._purge(now)
        self._drop(turn.id)
        expires_at = self._limits.expiry(now) if turn.expires_at is None else turn.expires_at
        entry = _Entry(turn.previous_response_id, turn.client, expires_at, body, places(turn))
        self._entries[turn.id] = entry
        self._bytes += len(body)
        for item_id, place in entry.places.items():
            self._homes[item_id, place.is_input][turn.id] = None
        self._evict()

    async def load(self, response_id: str) -> Turn | None:
        entry = self._find(response_id)
        return None if entry is None else decode_turn(entry.body, entry.expires_at)

    async def delete(self, response_id: str) -> bool:
        found = self._find(response_id) is not None
        self._drop(response_id)
        return found

    async def chain(self, response_id: str) -> list[Turn]:
        links = walk(response_id, self._find, self._limits.max_chain)
        self._renew(links)
        turns = []
        for number, entry in enumerate(links.values(), 1):
            turns.append(decode_turn(entry.body, entry.expires_at))
            if number % _BREATH == 0:
                await asyncio.sleep(0)
        return turns

    async def load_items(
        self, item_ids: Collection[str], *, client: str = ""
    ) -> dict[str, Document]:
        wanted: defaultdict[str, dict[str, Place]] = defaultdict(dict)
        for item_id in item_ids:
            if (home := self._home(item_id, client)) is not None:
                wanted[home][item_id] = self._entries[home].places[item_id]
        bodies = [(self._entries[home].body, named) for home, named in wanted.items()]
        picked = Picked()
        for number, (body, named) in enumerate(bodies, 1):
            picked.add(body, named)
            if number % _BREATH == 0:
                await asyncio.sleep(0)
        return picked.items

    def _home(self, item_id: str, client: str) -> str | None:
        """The best of the turns that an item is in."""
        for is_input in (False, True):
            for response_id in reversed(self._homes.get((item_id, is_input), {})):
                entry = self._find(response_id)
                if entry and (not is_input or entry.client == client):
                    return response_id
        return None

    def _find(self, response_id: str) -> _Entry | None:
        entry = self._entries.get(response_id)
        return None if entry is None or _is_over(entry, self._now()) else entry

    def _renew(self, response_ids: Iterable[str]) -> None:
        now = self._now()
        for response_id in response_ids:
            self._entries.move_to_end(response_id)
            entry = self._entries[response_id]
            if self._limits.is_waning(entry.expires_at, now):
                entry.expires_at = self._limits.expiry(now)

    def _purge(self, now: int) -> None:
        if now - self._purged_at < PURGE_EVERY_S:
            return
        self._purged_at = now
        for response_id in [id for id, entry in self._entries.items() if _is_over(entry, now)]:
            self._drop(response_id)

    def _evict(self) -> None:
        while len(self._entries) > self._max_turns or self._bytes > self._max_bytes:
            self._drop(next(iter(self._entries)))

    def _drop(self, response_id: str) -> None:
        if entry := self._entries.pop(response_id, None):
            self._bytes -= len(entry.body)
            for item_id, place in entry.places.items():
                homes = self._homes[item_id, place.is_input]
                del homes[response_id]
                if not homes:
                    del self._homes[item_id, place.is_input]


def _is_over(entry: _Entry, now: int) -> bool:
    return entry.expires_at is not None and entry.expires_at <= now
