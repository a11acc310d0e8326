"""Recent turns of one connection: what its next requests may continue although it is not stored.

A connection remembers those of its turns that are not stored, so that its client can continue them.
What it does not remember is looked up in the store. Each turn holds the one before it: a chain that
is in use never loses its beginning, however many turns it has. One client may open any number of
connections: beyond a limit, those that were idle the longest forget their turns.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from antiphon.core.items import Document
from antiphon.store.chain import TurnSource
from antiphon.store.store import Turn
from antiphon.store.turn import read_reference_id

MAX_TURNS = 64
"""Responses that can be continued; the ones before them are kept as their history."""
MAX_BYTES = 32 * 1024 * 1024
"""JSON of all turns together."""
MAX_CLIENT_BYTES = 256 * 1024 * 1024
"""The same, on all connections of one client."""


class RecentTurn(NamedTuple):
    """A turn, and the one before it if the connection remembers that as well."""

    turn: Turn
    size: int
    lane: str | None
    parent: RecentTurn | None

    def with_ancestors(self) -> Iterator[RecentTurn]:
        """Yield the turn and those before it that the connection remembers, newest first."""
        each: RecentTurn | None = self
        while each is not None:
            yield each
            each = each.parent


class RememberedBytes:
    """Bytes of the turns that the connections of this process remember, by client."""

    def __init__(self, max_client_bytes: int = MAX_CLIENT_BYTES) -> None:
        self._max_client_bytes = max_client_bytes
        self._by_client: dict[str, dict[RecentTurns, int]] = {}
        """By connection, the one that has changed last at the end."""

    def set(self, client: str, turns: RecentTurns, size: int) -> None:
        """Note what a connection remembers now; others may have to forget for it."""
        sizes = self._by_client.setdefault(client, {})
        sizes.pop(turns, None)
        if size:
            sizes[turns] = size
        total = sum(sizes.values())
        while total > self._max_client_bytes:
            oldest = next(iter(sizes))
            total -= sizes[oldest]
            sizes[oldest] = oldest.forget_oldest()
            total += sizes[oldest]
            if not sizes[oldest]:
                del sizes[oldest]
        if not sizes:
            del self._by_client[client]


class RecentTurns:
    """The `TurnSource` of a connection: its own turns first, then the store."""

    def __init__(
        self,
        store: TurnSource,
        remembered: RememberedBytes,
        client: str,
        *,
        max_turns: int = MAX_TURNS,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._store = store
        self._remembered = remembered
        self._client = client
        self._max_turns = max_turns
        self._max_bytes = max_bytes
        self._turns: OrderedDict[str, RecentTurn] = OrderedDict()

    def find(self, response_id: str | None) -> RecentTurn | None:
        """Find a turn that is about to be continued, and may be forgotten until that is over."""
        return None if response_id is None else self._turns.get(response_id)

    def add(
        self, turn: Turn, size: int, lane: str | None, parent: RecentTurn | None = None
    ) -> None:
        """Remember a turn; `size` is that of its JSON. The oldest ones are forgotten for it."""
        self._turns[turn.id] = RecentTurn(turn, size, lane, parent)
        while len(self._turns) > self._max_turns or self._count_bytes() > self._max_bytes:
            self._turns.popitem(last=False)
        self._count()

    def forget_oldest(self) -> int:
        """Forget the oldest turn; return the bytes that are left."""
        self._turns.popitem(last=False)
        return self._count_bytes()

    def close(self) -> None:
        """Forget every turn."""
        self._turns.clear()
        self._count()

    def _count(self) -> None:
        self._remembered.set(self._client, self, self._count_bytes())

    def evict(self, response_id: str, lane: str | None) -> None:
        """Forget a turn because its continuation failed, unless another lane continued it."""
        found = self._turns.get(response_id)
        if found is not None and found.lane == lane:
            del self._turns[response_id]
            self._count()

    async def load(self, response_id: str, *, client: str = "") -> Turn | None:
        recent = self._turns.get(response_id)
        return await self._store.load(response_id, client=client) if recent is None else recent.turn

    async def chain(
        self, response_id: str, *, client: str = "", truncate: bool = False
    ) -> list[Turn]:
        recent = self._turns.get(response_id)
        if recent is None:
            return await self._store.chain(response_id, client=client, truncate=truncate)
        self._turns.move_to_end(response_id)
        turns = [each.turn for each in recent.with_ancestors()]
        turns.reverse()
        first = turns[0].previous_response_id
        if first is None:
            return turns
        return [*await self._store.chain(first, client=client, truncate=truncate), *turns]

    async def load_items(
        self, item_ids: Collection[str], *, client: str = ""
    ) -> dict[str, Document]:
        found = self._find_items(set(item_ids))
        missing = [id for id in item_ids if id not in found]
        if missing:
            found |= await self._store.load_items(missing, client=client)
        return found

    def _find_items(self, wanted: set[str]) -> dict[str, Document]:
        """Find items by id: output items before input items, newer turns before older ones."""
        turns = [each.turn for each in self._all()]
        found: dict[str, Document] = {}
        _collect(wanted, (item for turn in turns for item in turn.output), found)
        _collect(wanted, (item for turn in turns for item in turn.input), found)
        return found

    def _all(self) -> list[RecentTurn]:
        """Every turn that is held, as itself or as the history of another; newer ones first."""
        seen: dict[str, RecentTurn] = {}
        for recent in reversed(self._turns.values()):
            for each in recent.with_ancestors():
                if each.turn.id in seen:
                    break
                seen[each.turn.id] = each
        return [*seen.values()]

    def _count_bytes(self) -> int:
        return sum(each.size for each in self._all())


def _collect(wanted: set[str], items: Iterable[Document], found: dict[str, Document]) -> None:
    for item in items:
        id = item.get("id")
        if isinstance(id, str) and id in wanted and read_reference_id(item) is None:
            found.setdefault(id, item)
