"""State that servers of Chat Completions want back, where they want it.

Routers send `reasoning_details`: a list of blocks whose pieces come chunk by chunk, and which goes
back as one list. Gemini, spoken to in this dialect, signs a call or a message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from antiphon.core.history.steps import ReasoningStep, Step, ToolCallStep
from antiphon.core.stream.deltas import ReasoningState

Body: TypeAlias = dict[str, Any]

DETAILS = "openrouter.reasoning_details"
SIGNATURE = "gemini.thought_signature"
_GROWING = ("text", "summary", "data")
"""What comes in pieces; of everything else the last word counts."""


def details(steps: Iterable[Step]) -> list[Body]:
    """The blocks of a turn: pieces of one (same type, same index) put together in their order."""
    blocks: list[Body] = []
    for state in _states(steps, DETAILS):
        here: list[Body] = []  # one chunk never holds two pieces of one block
        for piece in state.value if isinstance(state.value, list) else ():
            if not isinstance(piece, Mapping):
                continue
            block = _begun(piece, blocks)
            if block is None:
                here.append({**piece})
            else:
                _grow(block, piece)
        blocks += here
    return blocks


def _begun(piece: Mapping[str, Any], blocks: list[Body]) -> Body | None:
    """The block that a piece goes on with. Without an index it can only be the last one."""
    if piece.get("index") is None:
        blocks = blocks[-1:]
    same = [block for block in blocks if _place(block) == _place(piece)]
    return same[-1] if same else None


def _place(block: Mapping[str, Any]) -> tuple[Any, Any]:
    return block.get("type"), block.get("index")


def _grow(block: Body, piece: Mapping[str, Any]) -> None:
    for name, value in piece.items():
        known = block.get(name)
        if name in _GROWING and isinstance(value, str) and isinstance(known, str):
            block[name] = known + value
        elif value is not None:
            block[name] = value


def signed(steps: Iterable[Step], calls: Iterable[Body]) -> list[Body]:
    """The calls of a turn, each with the signature that stood before it."""
    written = iter(calls)
    found: list[Body] = []
    signature: str | None = None
    for step in steps:
        if isinstance(step, ReasoningStep):
            signature = _signature([step], "tool")
        elif isinstance(step, ToolCallStep):
            call = next(written)
            found.append(call if signature is None else {**call, **_extra(signature)})
            signature = None
    return found


def signature_beside(steps: Iterable[Step]) -> Body:
    """What a message carries beside its text."""
    signature = _signature(steps, "text")
    return {} if signature is None else _extra(signature)


def _extra(signature: str) -> Body:
    return {"extra_content": {"google": {"thought_signature": signature}}}


def _signature(steps: Iterable[Step], attach: str) -> str | None:
    found = [state.value for state in _states(steps, SIGNATURE) if state.attach == attach]
    return found[-1] if found and isinstance(found[-1], str) else None


def _states(steps: Iterable[Step], scheme: str) -> Iterator[ReasoningState]:
    for step in steps:
        if isinstance(step, ReasoningStep):
            yield from (state for state in step.states if state.scheme == scheme)
