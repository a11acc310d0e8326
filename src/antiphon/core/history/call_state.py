"""Provider state of calls, for clients that return nothing but the ids of their calls.

Reasoning items of a response are kept by the id of the call that they precede, and put back in
front of this call when the client sends its history. What comes after the last call is kept with
that call. State of a response without calls has no carrier; no provider demands it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec
from msgspec import Struct, field

from antiphon.core.deltas import ReasoningState
from antiphon.core.history.capsule import Capsule, Opened
from antiphon.core.items import CallItem, Document, Item, Message, ReasoningItem

MAX_CHARS_IN_ID = 850
"""Characters of sealed state that the id of a call may carry: the whole id stays below 1 kB."""
_SCHEME = "antiphon.call_state"
_DROPPED = frozenset({"id", "status"})
_CALLS = frozenset({"function_call", "custom_tool_call"})


class CallState(Struct, frozen=True):
    """Reasoning items that belong to one call."""

    before_text: list[Document] = field(default_factory=list)
    """In front of the text that precedes the call."""
    before: list[Document] = field(default_factory=list)
    """Directly in front of the call."""
    after: list[Document] = field(default_factory=list)
    """Behind the call, which is the last one of its response."""

    @property
    def items(self) -> list[Document]:
        return [*self.before_text, *self.before, *self.after]

    def fits_in_id(self) -> bool:
        """Whether the id of the call can carry it: its client gets the id before what follows."""
        size = sum(len(item["encrypted_content"]) for item in self.items)
        return not self.after and size <= MAX_CHARS_IN_ID


def collect_states(output: Sequence[Item]) -> dict[str, CallState]:
    """Return the state of each call by the id of its item; calls without state are left out."""
    states: dict[str, CallState] = {}
    waiting = CallState()
    last_call: str | None = None
    for item in output:
        if isinstance(item, Message) and not waiting.before_text:
            waiting = CallState(before_text=waiting.before)
        elif isinstance(item, ReasoningItem) and isinstance(item.encrypted_content, str):
            waiting.before.append(_without_identity(item))
        elif isinstance(item, CallItem):
            last_call = item.id
            states[last_call] = waiting
            waiting = CallState()
    if last_call is not None:
        last = states[last_call]
        states[last_call] = CallState(last.before_text, last.before, waiting.items)
    return {id: state for id, state in states.items() if state.items}


def _without_identity(item: ReasoningItem) -> Document:
    document: Document = msgspec.json.decode(msgspec.json.encode(item))
    return {name: value for name, value in document.items() if name not in _DROPPED}


def pack(state: CallState) -> Sequence[ReasoningState]:
    """Return the state as what a capsule holds."""
    return [ReasoningState(_SCHEME, msgspec.to_builtins(state))]


def unpack(opened: Opened) -> CallState | None:
    """Return the state in an opened capsule; None if it could not be opened."""
    for state in opened.states if isinstance(opened, Capsule) else ():
        if state.scheme == _SCHEME:
            return msgspec.convert(state.value, CallState)
    return None


def calls_without_state(items: Iterable[Document]) -> list[str]:
    """Return the ids of calls in turns that the client has sent without sealed state, or without
    its place."""
    return [
        item["id"]
        for is_own, turn in _turns(items)
        if is_own and not _has_placed_state(turn)
        for item in turn
        if _is_known_call(item)
    ]


def restore_states(
    items: Iterable[Document], states: Mapping[str, CallState]
) -> tuple[Document, ...]:
    """Return the items with state in front of its calls. Reasoning that the client has sent is
    left out where there is state: that contains it."""
    restored: list[Document] = []
    for is_own, turn in _turns(items):
        found = is_own and not _has_placed_state(turn) and _knows_any(turn, states)
        restored += _restore_turn(turn, states) if found else turn
    return tuple(restored)


def _restore_turn(turn: Iterable[Document], states: Mapping[str, CallState]) -> Iterator[Document]:
    text: list[Document] = []
    for item in turn:
        if item.get("type") == "reasoning":
            continue
        state = states.get(item["id"]) if _is_known_call(item) else None
        if item.get("type") not in _CALLS:
            text.append(item)
            continue
        if state is None:
            yield from (*text, item)
        else:
            yield from (*state.before_text, *text, *state.before, item, *state.after)
        text = []
    yield from text


def _turns(items: Iterable[Document]) -> Iterator[tuple[bool, list[Document]]]:
    """Divide items into those of one assistant's turn and others."""
    return ((is_own, [*group]) for is_own, group in groupby(items, _is_own))


def _is_own(item: Mapping[str, Any]) -> bool:
    return item.get("role") == "assistant" or item.get("type") in (*_CALLS, "reasoning")


def _is_known_call(item: Mapping[str, Any]) -> bool:
    return item.get("type") in _CALLS and isinstance(item.get("id"), str)


def _has_placed_state(turn: Sequence[Document]) -> bool:
    """Whether the client has returned state where it belongs. A list of states beside a message
    stands in front of everything: its place is known if a call follows the only one of them."""
    sealed = [at for at, item in enumerate(turn) if "encrypted_content" in item or "states" in item]
    is_list = sealed == [*range(len(sealed))]
    return bool(sealed) and (not is_list or (len(sealed) == 1 and _is_call(turn[1:2])))


def _is_call(items: Iterable[Document]) -> bool:
    return any(item.get("type") in _CALLS for item in items)


def _knows_any(turn: Collection[Document], states: Mapping[str, CallState]) -> bool:
    return any(_is_known_call(item) and item["id"] in states for item in turn)
