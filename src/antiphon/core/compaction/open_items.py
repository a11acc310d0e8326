"""Compaction items in a history: opened, and put in the place of what they summarize.

1. A summary that the gateway sealed for this client becomes a message, whatever provider is next.
2. A compaction of a provider goes back to this provider as it is.
3. Everything else cannot be read. A note for the model takes its place, and a diagnostic says so:
   such a thread must never be stuck.
4. Before the last summary, only messages of the user, the developer and the system are kept, and
   items that change settings or tools.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from antiphon.core.compaction.summary import read_state, summary_of
from antiphon.core.diagnostic import Diagnostic, degraded, ignored
from antiphon.core.history.capsule import Capsule, Opened, Unopened
from antiphon.core.history.read_items import UNREADABLE_COMPACTION, OpenedCompaction
from antiphon.core.history.steps import HistoryCode
from antiphon.core.items import Document

TYPES = ("compaction", "compaction_summary", "context_compaction")
"""`compaction_summary` is another name for `compaction`."""

_KEPT_ROLES = frozenset({"user", "developer", "system"})
_SETTINGS = frozenset({"additional_tools", "configuration_update", "compaction_trigger"})
_LEFT_OUT: Document = {"type": "configuration_update"}  # it changes nothing, and keeps the indexes


Item: TypeAlias = Mapping[str, Any]


class _OpenedItem(Struct, frozen=True):
    replacement: Document
    is_summary: bool = False
    problem: str = ""


def open_items(
    items: Sequence[Item], *, issuer: str, unseal: Callable[[str], Opened] | None
) -> tuple[list[Item], list[Diagnostic]]:
    """Open the compaction items of a history. The indexes of all items stay the same."""
    opened = {
        index: _open_item(item, issuer, unseal)
        for index, item in enumerate(items)
        if item.get("type") in TYPES
    }
    last = max((index for index, each in opened.items() if each.is_summary), default=0)
    diagnostics = [
        _cannot_be_read(items[index], index, each.problem)
        for index, each in opened.items()
        if each.problem and index >= last
    ]
    earlier: list[Item] = [item if is_kept(item) else _LEFT_OUT for item in items[:last]]
    count = sum(item is _LEFT_OUT for item in earlier)
    if count:
        diagnostics.append(_covered(count, last))
    later = [
        opened[index].replacement if index in opened else items[index]
        for index in range(last, len(items))
    ]
    return [*earlier, *later], diagnostics


def is_kept(item: Item) -> bool:
    """Whether an item stays in a history although a summary follows it."""
    kind = item.get("type")
    if kind in (None, "message"):
        return item.get("role") in _KEPT_ROLES
    return kind in _SETTINGS


def _open_item(item: Item, issuer: str, unseal: Callable[[str], Opened] | None) -> _OpenedItem:
    content = item.get("encrypted_content")
    if unseal is None or not isinstance(content, str):
        return _unreadable(_FOREIGN)
    capsule = unseal(content)
    state = read_state(capsule)
    summary = summary_of(state)
    if summary is not None:
        return _OpenedItem(_message(summary.render()), is_summary=True)
    if not isinstance(capsule, Capsule):
        return _unreadable(_PROBLEMS.get(capsule, _FOREIGN))
    native = None if state is None else state.get("item")
    if isinstance(native, Mapping) and capsule.issuer == issuer:
        return _OpenedItem(OpenedCompaction(native, type="compaction"))
    return _unreadable(_FOREIGN)


def _unreadable(problem: str) -> _OpenedItem:
    return _OpenedItem(_message(f"[{UNREADABLE_COMPACTION}]"), problem=problem)


def _message(text: str) -> Document:
    content = [{"type": "input_text", "text": text}]
    return {"type": "message", "role": "user", "content": content}


_FOREIGN = "another server or provider made it"
_PROBLEMS: Mapping[Opened, str] = {
    Unopened.TAMPERED: "it was modified or truncated, or belongs to another client key",
    Unopened.UNKNOWN_KEY: "it was sealed with a key that is no longer configured",
}


def _cannot_be_read(item: Item, index: int, problem: str) -> Diagnostic:
    kind = str(item.get("type"))
    message = f"Item of type {kind!r} cannot be read: {problem}. A note takes its place."
    return ignored(HistoryCode.COMPACTION_IGNORED, f"input[{index}]", message, kind)


def _covered(count: int, last: int) -> Diagnostic:
    message = f"Items before a compaction item are not sent: its summary replaces them ({count})."
    return degraded(HistoryCode.COMPACTION_APPLIED, f"input[{last}]", message, "compaction")
