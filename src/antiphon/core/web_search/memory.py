"""Searches of the gateway's own, kept for later turns.

A search is a call and an answer that the client never sees as such. Both travel in a capsule, as
state of the scheme `search`, and stand in the next turn's history just as they stood in the round
that followed the search. Such state is ours: whatever provider it was made with may read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from antiphon.core.history.steps import Step, TextPart, ToolCallStep, ToolResultStep
from antiphon.core.stream.deltas import ReasoningState

SEARCH = "web_search"
HOSTED = ""
"""The namespace of tools that the gateway runs. No client can declare one without a name, so a
function of a client's that is called `web_search`, too, is never taken for ours."""
_SCHEME = "search"


class PastSearch(Struct, frozen=True, kw_only=True):
    """One call of the search and what the model was told."""

    call_id: str
    arguments: str
    answer: str


def encode_past_searches(exchanges: Iterable[PastSearch]) -> ReasoningState:
    """The searches of one round, as state."""
    return ReasoningState(_SCHEME, msgspec.to_builtins(list(exchanges)), "turn")


def build_search_steps(
    exchanges: Sequence[PastSearch], *, name: str = SEARCH, namespace: str | None = HOSTED
) -> tuple[Step, ...]:
    """The searches of one round, as history: the model asked for all of them at once."""
    calls = [ToolCallStep(each.call_id, name, each.arguments, namespace) for each in exchanges]
    answers = [ToolResultStep(each.call_id, (TextPart(each.answer),), name) for each in exchanges]
    return (*calls, *answers)


def decode_past_searches(
    states: Iterable[ReasoningState],
) -> tuple[tuple[Step, ...], tuple[ReasoningState, ...]]:
    """The searches among some state, as history, and the rest, which is a provider's."""
    found: list[Step] = []
    others: list[ReasoningState] = []
    for state in states:
        if state.scheme == _SCHEME:
            found += build_search_steps(_read(state.value))
        else:
            others.append(state)
    return tuple(found), tuple(others)


def _read(value: object) -> list[PastSearch]:
    """A capsule may be older than its reader: what cannot be read is not remembered."""
    try:
        return msgspec.convert(value, list[PastSearch])
    except msgspec.ValidationError:
        return []
