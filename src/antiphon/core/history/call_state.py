"""Provider state of calls, for clients that return nothing but the ids of their calls.

Reasoning items of a response are kept by the id of the call that they precede, and put back in
front of this call when the client sends its history. What comes after the last call is kept with
that call. State of a response without calls has no carrier; no provider demands it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

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
    return _collect(map(_read_item, output))


class _Part(NamedTuple):
    """An item of a response, as far as it says where state belongs."""

    is_text: bool = False
    state: Document | None = None
    call: str | None = None
    """The key of a call."""


def _read_item(item: Item) -> _Part:
    if isinstance(item, ReasoningItem) and isinstance(item.encrypted_content, str):
        return _Part(state=_without_identity(msgspec.json.decode(msgspec.json.encode(item))))
    return _Part(
        is_text=isinstance(item, Message), call=item.id if isinstance(item, CallItem) else None
    )


def _collect(parts: Iterable[_Part]) -> dict[str, CallState]:
    states: dict[str, CallState] = {}
    waiting = CallState()
    last_call: str | None = None
    for part in parts:
        if part.is_text and not waiting.before_text:
            waiting = CallState(before_text=waiting.before)
        elif part.state is not None:
            waiting.before.append(part.state)
        elif part.call is not None:
            last_call = part.call
            states[last_call] = waiting
            waiting = CallState()
    if last_call is not None:
        last = states[last_call]
        states[last_call] = CallState(last.before_text, last.before, waiting.items)
    return {id: state for id, state in states.items() if state.items}


def _without_identity(item: Document) -> Document:
    return {name: value for name, value in item.items() if name not in _DROPPED}


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
    return [item["id"] for item in _stateless_calls(items) if _has_item_id(item)]


def unknown_calls(items: Iterable[Document]) -> list[str]:
    """Return the call ids of those that do not name their item: another format of the client has
    carried the state, or another server has made the call."""
    return [item["call_id"] for item in _stateless_calls(items) if not _has_item_id(item)]


def _stateless_calls(items: Iterable[Document]) -> Iterator[Document]:
    for is_own, turn in _turns(items):
        if is_own and not _has_placed_state(turn):
            yield from filter(_is_call, turn)


def find_states(
    items: Iterable[Document], outputs: Mapping[str, Sequence[Document]]
) -> dict[str, CallState]:
    """Return the state of calls by call id, from stored output that has them. Providers repeat
    their ids: a call with another name or other arguments is another one."""
    sent = {item["call_id"]: item for item in items if _is_call(item)}
    found: dict[str, CallState] = {}
    for call_id, output in outputs.items():
        made = {item["call_id"]: item for item in output if _is_call(item)}
        state = _collect(map(_read_document, output)).get(call_id)
        if state is not None and _is_same(sent[call_id], made[call_id]):
            found[call_id] = state
    return found


def _read_document(item: Document) -> _Part:
    kind = item.get("type")
    if kind == "reasoning" and isinstance(item.get("encrypted_content"), str):
        return _Part(state=_without_identity(item))
    return _Part(is_text=kind == "message", call=item["call_id"] if kind in _CALLS else None)


def _is_same(sent: Mapping[str, Any], made: Mapping[str, Any]) -> bool:
    return (sent["name"], _read_input(sent)) == (made["name"], _read_input(made))


def _read_input(call: Mapping[str, Any]) -> Any:
    """Return the input of a call. Clients write the JSON of arguments anew, and the input of a
    freeform tool is an argument in formats that have no such tools."""
    if call["type"] != "function_call":
        return {"input": call["input"]}
    try:
        return msgspec.json.decode(call["arguments"])
    except (ValueError, RecursionError):
        return call["arguments"]


def restore_states(
    items: Iterable[Document], states: Mapping[str, CallState]
) -> tuple[Document, ...]:
    """Return the items with state in front of its calls; `states` has it by the ids of their items,
    or by call ids. Reasoning that the client has sent is left out where there is state: that
    contains it."""
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
        if not _is_call(item):
            text.append(item)
            continue
        state = states.get(_key(item))
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


def _is_call(item: Mapping[str, Any]) -> bool:
    return item.get("type") in _CALLS


def _has_item_id(call: Mapping[str, Any]) -> bool:
    return isinstance(call.get("id"), str)


def _key(call: Mapping[str, Any]) -> str:
    key: str = call["id"] if _has_item_id(call) else call["call_id"]
    return key


def _has_placed_state(turn: Sequence[Document]) -> bool:
    """Whether the client has returned state where it belongs. A list of states beside a message
    stands in front of everything: its place is known if a call follows the only one of them."""
    sealed = [at for at, item in enumerate(turn) if "encrypted_content" in item or "states" in item]
    is_list = sealed == [*range(len(sealed))]
    return bool(sealed) and (not is_list or (len(sealed) == 1 and any(map(_is_call, turn[1:2]))))


def _knows_any(turn: Collection[Document], states: Mapping[str, CallState]) -> bool:
    return any(_is_call(item) and _key(item) in states for item in turn)
