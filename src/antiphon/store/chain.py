"""Chains of turns: following `previous_response_id`, and the history that comes of it.

A parent may have ended in any way: what an incomplete or failed turn had said was said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from antiphon.errors import ChainCycle, ChainNotFound, ChainTooDeep
from antiphon.store.store import Turn
from antiphon.wire.items import Document


class Link(Protocol):
    """All that walking needs to know of a turn."""

    @property
    def previous_response_id(self) -> str | None: ...


L = TypeVar("L", bound=Link)


def walk(response_id: str, find: Callable[[str], L | None], limit: int | None) -> dict[str, L]:
    """The turn and its ancestors by id, oldest first."""
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


def history(turns: Iterable[Turn]) -> list[Document]:
    """Every turn's input and output in order, without the calls that nobody can answer."""
    return [
        item
        for turn in turns
        for item in (*turn.input, *(item for item in turn.output if not _is_truncated_call(item)))
    ]


def _is_truncated_call(item: Document) -> bool:
    """A call that was cut off in the middle: its arguments are no use to tool or model."""
    kind = item.get("type")
    return (
        isinstance(kind, str)
        and kind.endswith("_call")
        and item.get("status") in ("incomplete", "in_progress")
    )
