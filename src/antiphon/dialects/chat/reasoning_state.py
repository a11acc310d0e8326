"""Reasoning state of Chat Completions servers, sent back where it came from.

Routers stream `reasoning_details`: a list of blocks whose fragments come chunk by chunk, and which
is sent back as one list. Gemini's Chat endpoint signs a call or a message (`thought_signature`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from antiphon.core.history.steps import ReasoningStep, Step, ToolCallStep
from antiphon.core.items import Document
from antiphon.dialects.reasoning import reasoning_states

DETAILS = "openrouter.reasoning_details"
SIGNATURE = "gemini.thought_signature"
_CONCATENATED = ("text", "summary", "data")
"""Members that come in fragments; of the others, the latest value counts."""


def collect_details(steps: Iterable[Step]) -> list[Document]:
    """The blocks of a turn, each put together from its fragments (same type, same index)."""
    blocks: list[Document] = []
    for state in reasoning_states(steps, DETAILS):
        new_blocks: list[Document] = []  # one chunk never holds two fragments of one block
        for fragment in state.value if isinstance(state.value, list) else ():
            if not isinstance(fragment, Mapping):
                continue
            block = _find_block(fragment, blocks)
            if block is None:
                new_blocks.append({**fragment})
            else:
                _extend(block, fragment)
        blocks += new_blocks
    return blocks


def _find_block(fragment: Mapping[str, Any], blocks: list[Document]) -> Document | None:
    """The block that a fragment continues. Without an index it can only be the last one."""
    if fragment.get("index") is None:
        blocks = blocks[-1:]
    same = [block for block in blocks if _type_and_index(block) == _type_and_index(fragment)]
    return same[-1] if same else None


def _type_and_index(block: Mapping[str, Any]) -> tuple[Any, Any]:
    return block.get("type"), block.get("index")


def _extend(block: Document, fragment: Mapping[str, Any]) -> None:
    for name, value in fragment.items():
        known = block.get(name)
        if name in _CONCATENATED and isinstance(value, str) and isinstance(known, str):
            block[name] = known + value
        elif value is not None:
            block[name] = value


def add_call_signatures(steps: Iterable[Step], calls: Iterable[Document]) -> list[Document]:
    """The calls of a turn, each with the signature that preceded it."""
    remaining = iter(calls)
    signed: list[Document] = []
    signature: str | None = None
    for step in steps:
        if isinstance(step, ReasoningStep):
            signature = _signature([step], "tool")
        elif isinstance(step, ToolCallStep):
            call = next(remaining)
            signed.append(call if signature is None else {**call, **_extra_content(signature)})
            signature = None
    return signed


def text_signature(steps: Iterable[Step]) -> Document:
    """The member of a message that carries the signature of its text; empty without one."""
    signature = _signature(steps, "text")
    return {} if signature is None else _extra_content(signature)


def _extra_content(signature: str) -> Document:
    return {"extra_content": {"google": {"thought_signature": signature}}}


def _signature(steps: Iterable[Step], attach: str) -> str | None:
    found = [state.value for state in reasoning_states(steps, SIGNATURE) if state.attach == attach]
    return found[-1] if found and isinstance(found[-1], str) else None
