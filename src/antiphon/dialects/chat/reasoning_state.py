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
SIGNATURES: Mapping[str, str] = {"google": SIGNATURE, "vertex": "vertex.thought_signature"}
"""The schemes of signatures, by the member of `extra_content` that has them: Vertex AI has its own,
and gets them back there."""
_MEMBERS = {scheme: member for member, scheme in SIGNATURES.items()}
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
    signature: Document = {}
    for step in steps:
        if isinstance(step, ReasoningStep):
            signature = _signature([step], "tool")
        elif isinstance(step, ToolCallStep):
            call = next(remaining)
            signed.append({**call, **signature} if signature else call)
            signature = {}
    return signed


def text_signature(steps: Iterable[Step]) -> Document:
    """The member of a message that carries the signature of its text; empty without one."""
    return _signature(steps, "text")


def _signature(steps: Iterable[Step], attach: str) -> Document:
    states = [state for state in reasoning_states(steps, *_MEMBERS) if state.attach == attach]
    if not states or not isinstance(states[-1].value, str):
        return {}
    member = _MEMBERS[states[-1].scheme]
    return {"extra_content": {member: {"thought_signature": states[-1].value}}}
