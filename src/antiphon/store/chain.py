"""Chains of turns linked by `previous_response_id`, and the history items they produce.

A parent may have any status: the output of an incomplete or failed turn is part of the history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from antiphon.errors import ChainCycle, ChainNotFound, ChainTooDeep
from antiphon.store.store import Turn
from antiphon.wire.items import Document


class ChainLink(Protocol):
    """What following a chain needs to know of a turn: the id of its parent."""

    @property
    def previous_response_id(self) -> str | None: ...


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


def build_history(turns: Iterable[Turn]) -> list[Document]:
    """Return every turn's input and output items in order, without truncated tool calls."""
    return [
        item
        for turn in turns
        for item in (*turn.input, *(item for item in turn.output if not _is_truncated_call(item)))
    ]


def _is_truncated_call(item: Document) -> bool:
    """Whether a tool call ended before its arguments did: neither tool nor model can use it."""
    kind = item.get("type")
    return (
        isinstance(kind, str)
        and kind.endswith("_call")
        and item.get("status") in ("incomplete", "in_progress")
    )
