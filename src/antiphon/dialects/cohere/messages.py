"""Encode a history as the `messages` of a Cohere chat request.

1. A turn with calls has no text beside them: its text is part of the tool plan.
2. An assistant message follows a user or a tool message, and the last message is one of those.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import msgspec
from msgspec import Raw

from antiphon.core.history.steps import (
    ImagePart,
    MessageStep,
    Part,
    Step,
    ToolCallStep,
    ToolResultStep,
    is_own,
)
from antiphon.core.items import Document
from antiphon.core.plan.plan import Plan
from antiphon.core.tools.identity import ToolIdentityMap
from antiphon.dialects.cohere.media import image_block, part_text
from antiphon.dialects.cohere.quirks import CohereQuirks
from antiphon.dialects.cohere.reasoning_state import THINKING, TOOL_PLAN
from antiphon.dialects.placeholders import CONTINUE, NO_OUTPUT, NO_TEXT
from antiphon.dialects.reasoning import reasoning_states

THINKING_OFF = frozenset({"none", "disabled"})
"""Efforts that turn thinking off."""


def encode_history(
    plan: Plan, quirks: CohereQuirks, instructions: Iterable[Document]
) -> list[Document]:
    """Encode the history of a plan after its instructions."""
    messages = [*instructions]
    for own, steps in groupby(plan.history, key=is_own):
        if own:
            message = _encode_model_turn(list(steps), plan)
            if message is not None:
                _require_question(messages)
                messages.append(message)
        else:
            messages += [_encode_client_step(step, quirks) for step in steps]
    _require_question(messages)
    return messages


def _require_question(messages: list[Document]) -> None:
    """Add a user message unless the last one is the user's or a tool's."""
    if not messages or messages[-1]["role"] not in ("user", "tool"):
        messages.append({"role": "user", "content": CONTINUE})


# --- the model's turn -----------------------------------------------------------------------------


def _encode_model_turn(steps: Sequence[Step], plan: Plan) -> Document | None:
    """Encode a turn as one message; None for a turn of reasoning alone."""
    calls = [
        _encode_call(step, plan.identities) for step in steps if isinstance(step, ToolCallStep)
    ]
    texts = ["".join(map(part_text, step.parts)) for step in steps if isinstance(step, MessageStep)]
    texts = [text for text in texts if text.strip()]
    thinking = _states(steps, THINKING) if _replays_thinking(plan, bool(calls)) else []
    if not calls:
        return _encode_answer(thinking, texts)
    plans = [*_states(steps, TOOL_PLAN), *texts]
    message: Document = {"role": "assistant"}
    if thinking:  # `tool_plan` beside thinking blocks is refused, so it becomes one of them
        message["content"] = [_thinking_block(text) for text in [*thinking, *plans]]
    elif plans:
        message["tool_plan"] = "\n\n".join(plans)
    return message | {"tool_calls": calls}


def _encode_answer(thinking: Sequence[str], texts: Sequence[str]) -> Document | None:
    if not texts:
        return None
    text = "\n\n".join(texts)
    blocks = [*map(_thinking_block, thinking), {"type": "text", "text": text}]
    return {"role": "assistant", "content": blocks if thinking else text}


def _replays_thinking(plan: Plan, has_calls: bool) -> bool:
    """Whether thinking is sent back: only if thinking is on, and beside calls in any case."""
    return plan.effort not in THINKING_OFF and (has_calls or plan.replay_reasoning == "always")


def _states(steps: Iterable[Step], scheme: str) -> list[str]:
    """The reasoning of this provider; that of others is not sent as the model's own."""
    states = reasoning_states(steps, scheme)
    return [state.value for state in states if isinstance(state.value, str)]


def _thinking_block(text: str) -> Document:
    return {"type": "thinking", "thinking": text}


def _encode_call(call: ToolCallStep, identities: ToolIdentityMap) -> Document:
    name = identities.name_for_provider(call.name, call.namespace)
    function = {"name": name, "arguments": call.arguments}
    return {"id": call.call_id, "type": "function", "function": function}


# --- messages of the client -----------------------------------------------------------------------


def _encode_client_step(step: Step, quirks: CohereQuirks) -> Document:
    if isinstance(step, ToolResultStep):
        content = _encode_result(step.parts, quirks)
        return {"role": "tool", "tool_call_id": step.call_id, "content": content}
    assert isinstance(step, MessageStep)  # the model's steps are encoded by `_encode_model_turn`
    if step.role != "user":
        return {"role": "system", "content": _join_text(step.parts, NO_TEXT)}
    if not any(isinstance(part, ImagePart) for part in step.parts):
        return {"role": "user", "content": _join_text(step.parts, NO_TEXT)}
    return {"role": "user", "content": [*_content_blocks(step.parts)]}


def _join_text(parts: Iterable[Part], empty: str) -> str:
    """Join the text of all parts; text without a visible character would be refused."""
    text = "\n".join(map(part_text, parts))
    return text if text.strip() else empty


def _content_blocks(parts: Iterable[Part]) -> Iterator[Document]:
    for part in parts:
        if isinstance(part, ImagePart):
            yield image_block(part)
        elif (text := part_text(part)).strip():
            yield {"type": "text", "text": text}


def _encode_result(parts: Sequence[Part], quirks: CohereQuirks) -> str | list[Document]:
    """Encode the output of a tool as text, or as one document for each text."""
    if quirks.tool_results == "text":
        return _join_text(parts, NO_OUTPUT)
    texts = [text for part in parts if (text := part_text(part)).strip()]
    return [
        {"type": "document", "document": {"data": _document_data(text)}}
        for text in texts or [NO_OUTPUT]
    ]


_read_object = msgspec.json.Decoder(dict[str, Raw]).decode


def _document_data(text: str) -> Raw | Document:
    """The JSON object in a text, or an object that contains the text."""
    try:
        _read_object(text)
    except (msgspec.DecodeError, RecursionError):
        return {"content": text}
    return Raw(text.encode())
