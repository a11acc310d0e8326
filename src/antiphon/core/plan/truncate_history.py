"""`truncation: auto`: leave out the oldest turns of a history that exceeds the context window.

1. An exchange is a user's messages and all that followed them. Older exchanges are left out first;
   then the rounds of the last exchange, oldest first: a turn of the assistant with the results of
   its calls. The user's last messages and the last round stay.
2. System and developer messages stay wherever they are.
3. A call and its result are never separated.

Lengths are estimated, with a margin: a provider rejects a request that is too long, while one that
is a little shorter than necessary is only worse informed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from msgspec import structs

from antiphon.core.capabilities import Capabilities
from antiphon.core.diagnostic import degraded
from antiphon.core.history.steps import (
    HistoryCode,
    MessageStep,
    RefusalPart,
    Step,
    TextPart,
    ToolResultStep,
    is_own,
)
from antiphon.core.plan.measure_input import measure_input, measure_step
from antiphon.core.plan.plan import Notes, Plan
from antiphon.core.plan.system_messages import is_system_message

_BYTES_PER_TOKEN = 3  # fewer than in most texts
_MEDIA_BYTES = 1_500 * _BYTES_PER_TOKEN  # of an image or a file; what it really costs is unknown


def can_truncate(capabilities: Capabilities) -> bool:
    """Whether the gateway truncates a history for this model: its window is known, and the provider
    does not truncate by itself."""
    return capabilities.context_window is not None and "truncation" not in capabilities.parameters


def truncate_history(plan: Plan, capabilities: Capabilities, notes: Notes) -> Plan:
    """Leave out the oldest turns until the plan fits the model's context window."""
    window = capabilities.context_window
    if window is None or not can_truncate(capabilities):
        return plan
    available = window - _reserved_output(plan, capabilities, window)
    media = sum(map(_media_bytes, plan.history))
    excess = measure_input(plan) + media - available * _BYTES_PER_TOKEN
    dropped: list[Sequence[int]] = []
    for steps in _droppable(plan.history):
        if excess <= 0:
            break
        dropped.append(steps)
        excess -= sum(_step_bytes(plan.history[index], plan) for index in steps)
    if not dropped:
        return plan
    left_out = {index for steps in dropped for index in steps}
    kept = (step for index, step in enumerate(plan.history) if index not in left_out)
    message = (
        f"The input exceeds the context window of {capabilities.model_name} ({window} tokens);"
        f" its oldest turns were left out: {len(dropped)}."
    )
    notes.append(degraded(HistoryCode.TRUNCATED, "input", message))
    return structs.replace(plan, history=tuple(kept))


def _reserved_output(plan: Plan, capabilities: Capabilities, window: int) -> int:
    """Tokens of the window that are left to the output."""
    requested: int | None = plan.parameters.get("max_output_tokens")
    usual = min(capabilities.max_output_tokens or window // 4, window // 4)
    return min(requested or usual, window // 2)


def _step_bytes(step: Step, plan: Plan) -> int:
    return 0 if is_system_message(step) else measure_step(step, plan) + _media_bytes(step)


def _media_bytes(step: Step) -> int:
    parts = step.parts if isinstance(step, MessageStep | ToolResultStep) else ()
    return sum(_MEDIA_BYTES for part in parts if not isinstance(part, TextPart | RefusalPart))


def _is_user(step: Step) -> bool:
    return isinstance(step, MessageStep) and step.role == "user"


def _droppable(history: Sequence[Step]) -> Iterator[Sequence[int]]:
    """Turns that may be left out, in the order in which they are: indexes without system
    messages."""
    indexes = [index for index, step in enumerate(history) if not is_system_message(step)]
    *exchanges, last = _split(history, indexes, _is_user)
    yield from exchanges
    rounds = _split(history, last, is_own)
    yield from (each for each in rounds[:-1] if not _is_user(history[each[0]]))


def _split(
    history: Sequence[Step], indexes: Sequence[int], begins: Callable[[Step], bool]
) -> list[Sequence[int]]:
    """Split indexes of steps before each run of steps that begin a part."""
    cuts = [
        position
        for position in range(1, len(indexes))
        if begins(history[indexes[position]]) and not begins(history[indexes[position - 1]])
    ]
    return [indexes[start:stop] for start, stop in pairwise([0, *cuts, len(indexes)])]
