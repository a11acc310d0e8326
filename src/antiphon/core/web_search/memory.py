"""Past web searches of the gateway, stored in capsules for later turns.

The client never sees the call and the result of such a search. Both are stored in a capsule, as
state of the scheme `search`, and the next turn's history has them exactly as the round after the
search had them, so prompt caches stay valid. This state is not bound to a provider: any may read
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from antiphon.core.deltas import ReasoningState
from antiphon.core.history.steps import Step, TextPart, ToolCallStep, ToolResultStep

SEARCH = "web_search"
HOSTED = ""
"""The namespace of tools that the gateway runs. No client can declare a namespace without a name,
so a client's function that is also named `web_search` is never mistaken for it."""
_SCHEME = "search"


class PastSearch(Struct, frozen=True, kw_only=True):
    """One call of the search tool and its result, as the model got it."""

    call_id: str
    arguments: str
    answer: str


def encode_past_searches(exchanges: Iterable[PastSearch]) -> ReasoningState:
    """Encode the searches of one round as provider state."""
    return ReasoningState(_SCHEME, msgspec.to_builtins(list(exchanges)), "turn")


def build_search_steps(
    exchanges: Sequence[PastSearch], *, name: str = SEARCH, namespace: str | None = HOSTED
) -> tuple[Step, ...]:
    """Build the history of one round's searches: parallel calls, then their results."""
    calls = [ToolCallStep(each.call_id, name, each.arguments, namespace) for each in exchanges]
    answers = [ToolResultStep(each.call_id, (TextPart(each.answer),), name) for each in exchanges]
    return (*calls, *answers)


def decode_past_searches(
    states: Iterable[ReasoningState],
) -> tuple[tuple[Step, ...], tuple[ReasoningState, ...]]:
    """Split state into past searches, as history, and the state of a provider."""
    found: list[Step] = []
    others: list[ReasoningState] = []
    for state in states:
        if state.scheme == _SCHEME:
            found += build_search_steps(_read(state.value))
        else:
            others.append(state)
    return tuple(found), tuple(others)


def _read(value: object) -> list[PastSearch]:
    """Read stored searches; those of an older version that do not match the type are dropped."""
    try:
        return msgspec.convert(value, list[PastSearch])
    except msgspec.ValidationError:
        return []
