"""Encode a history as `input` items of the Responses API.

Items have no ids where that is possible: a server that stored nothing does not know them. Reasoning
is sent back exactly as its provider made it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import assert_never

from antiphon.core.history.steps import (
    AudioPart,
    FilePart,
    ImagePart,
    MessageStep,
    Part,
    ReasoningStep,
    RefusalPart,
    Step,
    TextPart,
    ToolCallStep,
    ToolResultStep,
    is_own,
)
from antiphon.core.items import Document
from antiphon.core.plan.plan import Plan
from antiphon.dialects.message_writer import join_text
from antiphon.dialects.reasoning import replays_reasoning
from antiphon.dialects.responses.items import SCHEME
from antiphon.dialects.responses.quirks import ResponsesQuirks

_DETAILS = {"low", "high", "auto", "original"}
_MAX_CALL_ID_LENGTH = 64


def encode_history(plan: Plan, quirks: ResponsesQuirks) -> Iterator[Document]:
    """Encode the history of a plan, one item after another."""
    ids = _ItemIds()
    for own, steps in groupby(plan.history, key=is_own):
        if own:
            yield from _encode_model_turn(list(steps), plan, quirks, ids)
        else:
            yield from (_encode_client_step(step, plan, ids) for step in steps)


class _ItemIds:
    """Call and reasoning ids that every server accepts, the same ones for the same history.

    A result belongs to the last call with its id: a thread may use an id again in a later turn, and
    then the later call gets another one.
    """

    def __init__(self) -> None:
        self._assigned: dict[str, str] = {}
        self._used: set[str] = set()
        self._reasoning_count = 0

    def assign_call_id(self, call_id: str) -> str:
        valid = call_id if 0 < len(call_id) <= _MAX_CALL_ID_LENGTH else _digest(call_id)
        assigned = valid
        number = 1
        while assigned in self._used:
            number += 1
            assigned = _digest(f"{valid} {number}")
        self._used.add(assigned)
        self._assigned[call_id] = assigned
        return assigned

    def find_call_id(self, call_id: str) -> str:
        """The id that was assigned to the call of a result."""
        return self._assigned.get(call_id, call_id)

    def next_reasoning_id(self) -> str:
        self._reasoning_count += 1
        return f"rs_{self._reasoning_count}"


def _digest(text: str) -> str:
    return f"call_{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


# --- the model's turn -----------------------------------------------------------------------------


def _encode_model_turn(
    steps: Sequence[Step], plan: Plan, quirks: ResponsesQuirks, ids: _ItemIds
) -> Iterator[Document]:
    has_calls = any(isinstance(step, ToolCallStep) for step in steps)
    replays = replays_reasoning(plan, has_calls=has_calls)
    output = [index for index, step in enumerate(steps) if not isinstance(step, ReasoningStep)]
    last_output = max(output, default=0)
    for index, step in enumerate(steps):
        match step:
            case ReasoningStep():
                if replays and (index < last_output or quirks.trailing_reasoning):
                    yield from _encode_reasoning(step, quirks, ids)
            case ToolCallStep():
                yield _encode_call(step, plan, ids)
            case _:
                yield _encode_message(step)


def _encode_message(step: Step) -> Document:
    assert isinstance(step, MessageStep)  # the other kinds of a turn have cases of their own
    message: Document = {
        "type": "message",
        "role": "assistant",
        "content": join_text(step.parts, ""),
    }
    return message if step.phase is None else {**message, "phase": step.phase}


def _encode_reasoning(
    reasoning: ReasoningStep, quirks: ResponsesQuirks, ids: _ItemIds
) -> Iterator[Document]:
    """Encode reasoning as its provider made it; that of another provider only as text, if at all.

    `{"type": "reasoning", "summary": [], "id": "rs_1", "encrypted_content": "gAAA"}`
    """
    items: list[Document] = [
        {"type": "reasoning", "summary": [], **state.value}
        for state in reasoning.states
        if state.scheme == SCHEME and isinstance(state.value, Mapping)
    ]
    text = reasoning.text or reasoning.summary
    if quirks.plain_reasoning and text:
        items = items or [{"type": "reasoning", "id": ids.next_reasoning_id(), "summary": []}]
        items[0]["content"] = [{"type": "reasoning_text", "text": text}]
    yield from items


def _encode_call(call: ToolCallStep, plan: Plan, ids: _ItemIds) -> Document:
    return {
        "type": "function_call",
        "call_id": ids.assign_call_id(call.call_id),
        "name": plan.identities.name_for_provider(call.name, call.namespace),
        "arguments": call.arguments,
    }


# --- the client's items ---------------------------------------------------------------------------


def _encode_client_step(step: Step, plan: Plan, ids: _ItemIds) -> Document:
    if isinstance(step, ToolResultStep):
        return {
            "type": "function_call_output",
            "call_id": ids.find_call_id(step.call_id),
            "output": _encode_output(step.parts),
        }
    assert isinstance(step, MessageStep)  # the model's steps are encoded by `_encode_model_turn`
    if step.native is not None:
        return dict(step.native)
    role = "system" if step.role == "developer" and not plan.developer_role else step.role
    return {"type": "message", "role": role, "content": [_encode_part(part) for part in step.parts]}


def _encode_output(parts: Sequence[Part]) -> str | list[Document]:
    """Encode the output of a tool as a string if possible: not every server accepts lists."""
    if all(isinstance(part, TextPart | RefusalPart) for part in parts):
        return join_text(parts, "\n")
    return [_encode_part(part) for part in parts]


def _encode_part(part: Part) -> Document:
    match part:
        case TextPart(text) | RefusalPart(text):
            return {"type": "input_text", "text": text}
        case ImagePart(url, detail):
            known = detail if detail in _DETAILS else "auto"
            return {"type": "input_image", "image_url": url, "detail": known}
        case FilePart():
            return {"type": "input_file", **_file_fields(part)}
        case AudioPart(data, audio_format):
            return {"type": "input_audio", "input_audio": {"data": data, "format": audio_format}}
        case _:
            assert_never(part)


def _file_fields(part: FilePart) -> Document:
    """Exactly one of content, id and URL; content requires a filename, the others allow none."""
    if part.data is not None:
        return {"filename": part.filename or "file", "file_data": part.data}
    return {"file_id": part.file_id} if part.file_id is not None else {"file_url": part.url}
