"""Chains of turns linked by `previous_response_id`, and the history items they produce.

A parent may have ended in any way: the output of an incomplete or failed turn is part of the
history. A turn that has not ended has no output yet, so nothing can continue from it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Protocol, TypeVar

from antiphon.errors import ChainCycle, ChainNotFound, ChainTooDeep, ChainUnfinished
from antiphon.store.run_log import UNFINISHED
from antiphon.store.turn import Turn
from antiphon.wire.items import Document


class ChainLink(Protocol):
    """What following a chain needs to know of a turn: the id of its parent."""

    @property
    def previous_response_id(self) -> str | None: ...


class TurnSource(Protocol):
    """Where the history of a request is loaded from: a store, or a connection that remembers more
    than the store keeps."""

    async def load(self, response_id: str, *, client: str = "") -> Turn | None:
        """Return the turn, or None if there is none."""

    async def chain(self, response_id: str, *, client: str = "") -> list[Turn]:
        """Return the turn and its ancestors, oldest first; raises `ChainNotFound`."""

    async def load_items(
        self, item_ids: Collection[str], *, client: str = ""
    ) -> dict[str, Document]:
        """Return items by item id; unknown ids are left out."""


L = TypeVar("L", bound=ChainLink)


def follow_chain(
    response_id: str, find: Callable[[str], L | None], limit: int | None
) -> dict[str, L]:
    """Return the turn and its ancestors by id, oldest first.

    `find` looks up one turn. Raises `ChainNotFound`, `ChainCycle` or `ChainTooDeep`.
    """
    found: dict[str, L] = {}
    wanted: str | None = response_id
    while wanted is not None:
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
