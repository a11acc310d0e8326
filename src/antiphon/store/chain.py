"""Chains of turns linked by `previous_response_id`, and the history items they produce.

A parent may have ended in any way: the output of an incomplete or failed turn is part of the
history. A turn that has not ended has no output yet, so nothing can continue from it.

A store measures a chain before it reads the bodies of its turns, and counts their items before it
decodes them (docs/adr/0077-a-history-has-limits.md).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol, TypeVar

from antiphon.core.items import Document
from antiphon.errors import (
    ChainCycle,
    ChainNotFound,
    ChainTooDeep,
    ChainUnfinished,
    HistoryTooLarge,
)
from antiphon.store.run_log import UNFINISHED
from antiphon.store.turn import StoreLimits, Turn, decode_raw_items, decode_turn

_MIN_ITEM_BYTES = 3  # `{},`


class ChainLink(Protocol):
    """What following a chain needs to know of a turn: the id of its parent."""

    @property
    def previous_response_id(self) -> str | None: ...


class SizedLink(ChainLink, Protocol):
    """A turn whose body was not read."""

    @property
    def size(self) -> int:
        """Bytes of the turn as JSON."""


class TurnSource(Protocol):
    """Where the history of a request is loaded from: a store, or a connection that remembers more
    than the store keeps."""

    async def load(self, response_id: str, *, client: str = "") -> Turn | None:
        """Return the turn, or None if there is none."""

    async def chain(
        self, response_id: str, *, client: str = "", truncate: bool = False
    ) -> list[Turn]:
        """Return the turn and its ancestors, oldest first; raises `ChainNotFound`.

        Raises `HistoryTooLarge` beyond the limits of a history; with `truncate`, the oldest turns
        are left out instead, and the first turn in the list has a `previous_response_id`."""

    async def load_items(
        self, item_ids: Collection[str], *, client: str = ""
    ) -> dict[str, Document]:
        """Return items by item id; unknown ids are left out."""


L = TypeVar("L", bound=ChainLink)
S = TypeVar("S", bound=SizedLink)


def max_links(limits: StoreLimits) -> int:
    """Return how many turns of a chain a store looks up: each counts as an item at least."""
    most = limits.max_history_items + 1
    return most if limits.max_chain is None else min(most, limits.max_chain)


def measure_chain(
    response_id: str, find: Callable[[str], S | None], limits: StoreLimits, *, truncate: bool
) -> dict[str, S]:
    """Return those turns of a chain whose bodies may be read by id, oldest first.

    Raises what `follow_chain` does, and `HistoryTooLarge`."""
    links = follow_chain(response_id, find, limits.max_chain, limits.max_history_items + 1)
    kept: dict[str, S] = {}
    size = 0
    for id, link in reversed(links.items()):
        size += link.size
        if size > limits.max_history_bytes:
            if not truncate or not kept:
                raise HistoryTooLarge(limits.max_history_bytes, "bytes")
            break
        kept[id] = link
    return dict(reversed(kept.items()))


def decode_chain(
    bodies: Sequence[tuple[bytes, int | None]], limits: StoreLimits, *, truncate: bool
) -> list[Turn]:
    """Decode turns, oldest first, from their bodies and expiry times; raises `HistoryTooLarge` if
    they have too many items."""
    max_items = limits.max_history_items
    kept = len(bodies)
    if sum(len(body) for body, _ in bodies) > max_items * _MIN_ITEM_BYTES:
        kept = _count_newest(bodies, max_items)
    if kept < len(bodies) and (not truncate or kept == 0):
        raise HistoryTooLarge(max_items, "items")
    return [decode_turn(*body) for body in bodies[len(bodies) - kept :]]


def _count_newest(bodies: Sequence[tuple[bytes, int | None]], max_items: int) -> int:
    """Return how many of the newest turns have no more items than a history may have."""
    items = 0
    for number, (body, _) in enumerate(reversed(bodies)):
        turn = decode_raw_items(body)
        items += max(1, len(turn.input) + len(turn.output))
        if items > max_items:
            return number
    return len(bodies)


def follow_chain(
    response_id: str,
    find: Callable[[str], L | None],
    limit: int | None,
    stop_after: int | None = None,
) -> dict[str, L]:
    """Return the turn and its ancestors by id, oldest first; only `stop_after` of the newest.

    `find` looks up one turn. Raises `ChainNotFound`, `ChainCycle` or `ChainTooDeep`.
    """
    found: dict[str, L] = {}
    wanted: str | None = response_id
    while wanted is not None and len(found) != stop_after:
        if wanted in found:
            raise ChainCycle(wanted)
        if limit is not None and len(found) >= limit:
            raise ChainTooDeep(response_id, limit)
        link = find(wanted)
        if link is None:
            raise ChainNotFound(wanted)
        found[wanted] = link
        wanted = link.previous_response_id
    return dict(reversed(found.items()))


def check_finished(turns: Iterable[Turn]) -> None:
    """Raise `ChainUnfinished` if a turn has not ended."""
    for turn in turns:
        if turn.status in UNFINISHED:
            raise ChainUnfinished(turn.id)


def build_history(turns: Iterable[Turn]) -> list[Document]:
    """Return every turn's input and output items in order, without truncated tool calls."""
    return [item for turn in turns for item in (*turn.input, *without_truncated_calls(turn.output))]


def without_truncated_calls(items: Iterable[Document]) -> list[Document]:
    """Return items without the tool calls that ended before their arguments did."""
    return [item for item in items if not _is_truncated_call(item)]


def _is_truncated_call(item: Document) -> bool:
    """Whether a tool call ended before its arguments did: neither tool nor model can use it."""
    kind = item.get("type")
    return (
        isinstance(kind, str)
        and kind.endswith("_call")
        and item.get("status") in ("incomplete", "in_progress")
    )
