"""Outputs of tool calls that are not in a stored history.

A request that continues stored turns (`previous_response_id`) may only answer calls that are in
them or in its own `input`. A client that sends its whole history is not checked here: there such an
output becomes text, because the client would send it again with every later request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from antiphon.errors import InvalidRequest


def reject_unknown_calls(
    history: Iterable[Mapping[str, Any]], items: Sequence[Mapping[str, Any]]
) -> None:
    """Raise `InvalidRequest` for an output in `items` whose call is neither there nor in the
    history."""
    found = find_unknown_call(history, items)
    if found is not None:
        index, call_id = found
        raise InvalidRequest(
            f"`input[{index}]` is the output of the call {call_id!r}, which is neither in the"
            " previous responses nor in `input`. Send the `call_id` of a call in them.",
            param=f"input[{index}].call_id",
        )


def find_unknown_call(
    history: Iterable[Mapping[str, Any]], items: Sequence[Mapping[str, Any]]
) -> tuple[int, str] | None:
    """Find the first output without its call: its index in `items`, and the id of the call."""
    outputs = {
        index: call_id
        for index, item in enumerate(items)
        if (call_id := _answered_call(item)) is not None
    }
    missing = set(outputs.values())
    if missing:
        for item in chain(history, items):
            missing -= _call_ids(item)
    return next((each for each in outputs.items() if each[1] in missing), None)


def _answered_call(item: Mapping[str, Any]) -> str | None:
    """The id of the call that an item answers; None for an item that is not a call output."""
    match item:
        case {"type": str(kind), "call_id": str(call_id)} if kind.endswith("_output"):
            return call_id
        case {"type": "local_shell_call_output", "id": str(call_id)}:
            return call_id
    return None


def _call_ids(item: Mapping[str, Any]) -> set[str]:
    """The ids that an output may name an item by, if it is a call."""
    kind = item.get("type")
    if not isinstance(kind, str) or kind.endswith("_output"):
        return set()
    names = ("call_id", "id") if kind == "local_shell_call" else ("call_id",)
    return {call_id for name in names if isinstance(call_id := item.get(name), str)}
