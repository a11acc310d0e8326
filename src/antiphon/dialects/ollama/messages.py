"""Encode a history as the `messages` of an Ollama chat request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from msgspec import Raw

from antiphon.core.history.steps import (
    MessageStep,
    Part,
    ReasoningStep,
    Step,
    ToolCallStep,
    ToolResultStep,
    is_own,
)
from antiphon.core.items import Document
from antiphon.core.plan.plan import Plan
from antiphon.dialects.ollama.media import image_data, part_text


def encode_history(plan: Plan) -> list[Document]:
    """Encode instructions and history.

    Without any message a server would only load its model, so there is always one.
    """
    messages = [*_instructions(plan), *_messages(plan)]
    return messages or [{"role": "user", "content": ""}]


def _instructions(plan: Plan) -> Iterator[Document]:
    """One system message before all others; it is the same in every turn."""
    texts = [text for text in (plan.instructions, plan.contract.instruction()) if text]
    if texts:
        yield {"role": "system", "content": "\n\n".join(texts)}


def _messages(plan: Plan) -> Iterator[Document]:
    tool_names: dict[str, str] = {}  # by call id
    for own, steps in groupby(plan.history, key=is_own):
        if own:
            yield from _encode_model_turn(list(steps), plan, tool_names)
        else:
            yield from (_encode_client_step(step, tool_names) for step in steps)


def _encode_model_turn(
    steps: Sequence[Step], plan: Plan, tool_names: dict[str, str]
) -> Iterator[Document]:
    """Encode a turn as one message; a turn of reasoning alone is left out."""
    texts = ["".join(map(part_text, step.parts)) for step in steps if isinstance(step, MessageStep)]
    calls = [
        _encode_call(step, plan, tool_names) for step in steps if isinstance(step, ToolCallStep)
    ]
    if not texts and not calls:
        return
    message: Document = {"role": "assistant", "content": "\n\n".join(texts)}
    reasoning = "".join(
        step.text or step.summary for step in steps if isinstance(step, ReasoningStep)
    )
    replay = plan.replay_reasoning
    if reasoning and (replay == "always" or (replay == "tool_turns" and calls)):
        message["thinking"] = reasoning
    if calls:
        message["tool_calls"] = calls
    yield message


def _encode_call(call: ToolCallStep, plan: Plan, tool_names: dict[str, str]) -> Document:
    name = plan.identities.name_for_provider(call.name, call.namespace)
    tool_names[call.call_id] = name
    arguments = Raw(call.arguments.encode())  # an object, byte for byte as the model wrote it
    return {"id": call.call_id, "function": {"name": name, "arguments": arguments}}


def _encode_client_step(step: Step, tool_names: Mapping[str, str]) -> Document:
    if isinstance(step, ToolResultStep):
        # Older servers match results by the name of the tool alone.
        callee = {"tool_name": tool_names[step.call_id], "tool_call_id": step.call_id}
        return _encode_message("tool", step.parts) | callee
    assert isinstance(step, MessageStep)  # the model's steps are encoded by `_encode_model_turn`
    return _encode_message("user" if step.role == "user" else "system", step.parts)


def _encode_message(role: str, parts: Iterable[Part]) -> Document:
    texts: list[str] = []
    images: list[str] = []
    for part in parts:
        image = image_data(part)
        if image is None:
            texts.append(part_text(part))
        else:
            images.append(image)
    message: Document = {"role": role, "content": "\n".join(texts)}
    return message | {"images": images} if images else message
