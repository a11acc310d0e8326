"""History as Chat Completions messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import assert_never

from antiphon.core.history.steps import (
    AudioPart,
    FilePart,
    ImagePart,
    MessageStep,
    Part,
    RefusalPart,
    Step,
    TextPart,
    ToolCallStep,
    ToolResultStep,
    is_own,
)
from antiphon.core.items import Document
from antiphon.core.plan.plan import Plan
from antiphon.core.tools.identity import ToolIdentityMap
from antiphon.dialects.call_ids import CallIds
from antiphon.dialects.chat.plain_messages import flatten_messages
from antiphon.dialects.chat.quirks import ChatQuirks
from antiphon.dialects.chat.reasoning_state import (
    add_call_signatures,
    collect_details,
    text_signature,
)
from antiphon.dialects.message_writer import join_text
from antiphon.dialects.placeholders import NO_TEXT
from antiphon.dialects.reasoning import reasoning_text, replays_reasoning

_IMAGE_DETAILS = {"low", "high", "auto"}


def write_messages(plan: Plan, quirks: ChatQuirks) -> list[Document]:
    """The messages of a request. Servers refuse a request without any, and many chat templates one
    without a user message."""
    history = [*_history_messages(plan, quirks)] or [{"role": "user", "content": NO_TEXT}]
    messages = [*_system_message(plan), *history]
    return flatten_messages(messages) if quirks.plain_dialogue else messages


def _system_message(plan: Plan) -> Iterator[Document]:
    """The system prompt, the same in every turn."""
    texts = [plan.instructions] if plan.instructions else []
    if plan.contract.requested != "text" and (instruction := plan.contract.instruction()):
        texts.append(instruction)
    if texts:
        yield {"role": "system", "content": "\n\n".join(texts)}


def _history_messages(plan: Plan, quirks: ChatQuirks) -> Iterator[Document]:
    ids = CallIds(quirks.call_ids)
    for own, steps in groupby(plan.history, key=is_own):
        if own:
            yield from _assistant_message(list(steps), plan, quirks, ids)
        else:
            for step in steps:
                yield _client_message(step, plan, ids)


def _assistant_message(
    steps: Sequence[Step], plan: Plan, quirks: ChatQuirks, ids: CallIds
) -> Iterator[Document]:
    """One turn, one message; a turn of reasoning alone gives none."""
    texts = [join_text(step.parts, "") for step in steps if isinstance(step, MessageStep)]
    call_steps = [step for step in steps if isinstance(step, ToolCallStep)]
    calls = [_tool_call(step, plan.identities, ids) for step in call_steps]
    if not texts and not calls:
        return
    message: Document = {"role": "assistant"}
    if texts or quirks.content_beside_calls:
        message["content"] = "\n\n".join(texts) if texts else None
    message |= _reasoning(steps, plan, quirks, has_calls=bool(calls))
    if quirks.replay_signatures:
        message |= text_signature(steps)
        calls = add_call_signatures(steps, calls)
    if calls:
        message["tool_calls"] = calls
    yield message


def _reasoning(
    steps: Sequence[Step], plan: Plan, quirks: ChatQuirks, *, has_calls: bool
) -> Document:
    """The reasoning of an earlier turn, in the form that the provider accepts back."""
    if quirks.replay_details and (details := collect_details(steps)):
        return {"reasoning_details": details}
    if not replays_reasoning(plan, has_calls=has_calls):
        return {}
    if text := reasoning_text(steps):
        return {quirks.reasoning_field: text}
    lost = has_calls and quirks.reasoning_required
    return {quirks.reasoning_field: quirks.lost_reasoning} if lost else {}


def _tool_call(step: ToolCallStep, identities: ToolIdentityMap, ids: CallIds) -> Document:
    name = identities.name_for_provider(step.name, step.namespace)
    function = {"name": name, "arguments": step.arguments}
    return {"id": ids.assign(step.call_id), "type": "function", "function": function}


def _client_message(step: Step, plan: Plan, ids: CallIds) -> Document:
    if isinstance(step, ToolResultStep):
        call_id = ids.find(step.call_id)
        return {"role": "tool", "tool_call_id": call_id, "content": _content(step.parts)}
    assert isinstance(step, MessageStep)  # the assistant's steps are a group of their own
    if step.role == "user":
        return {"role": "user", "content": _content(step.parts)}
    role = "developer" if step.role == "developer" and plan.developer_role else "system"
    return {"role": role, "content": join_text(step.parts, "\n")}


def _content(parts: Sequence[Part]) -> str | list[Document]:
    """A plain string wherever possible: some servers accept nothing else."""
    if len(parts) == 1 and type(part := parts[0]) is TextPart:
        return part.text
    if all(isinstance(part, (TextPart, RefusalPart)) for part in parts):
        return join_text(parts, "\n")
    return [_content_part(part) for part in parts]


def _content_part(part: Part) -> Document:
    match part:
        case TextPart(text) | RefusalPart(text):
            return {"type": "text", "text": text}
        case ImagePart(url, detail):
            image = {"url": url, "detail": detail} if detail in _IMAGE_DETAILS else {"url": url}
            return {"type": "image_url", "image_url": image}
        case FilePart():
            return {"type": "file", "file": _file(part)}
        case AudioPart(data, audio_format):
            return {"type": "input_audio", "input_audio": {"data": data, "format": audio_format}}
        case _:
            assert_never(part)


def _file(part: FilePart) -> Document:
    fields = {
        "filename": part.filename,
        "file_data": part.data or part.url,
        "file_id": part.file_id,
    }
    return {name: value for name, value in fields.items() if value is not None}
