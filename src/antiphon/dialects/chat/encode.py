"""Chat Completions, the writing half: a plan becomes the bytes of a request.

Rendering is byte-stable and append-only. The same plan always gives the same bytes, and `messages`
stand last: the body of a turn, up to its closing brackets, is a prefix of the next turn's body, so
that a provider's prompt cache survives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeAlias, assert_never

import msgspec
from msgspec import Struct

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
from antiphon.core.plan.plan import Outbound, Plan, ToolChoice, ToolDeclaration
from antiphon.core.structured_output.contract import OutputContract
from antiphon.core.tools.identity import ToolIdentityMap
from antiphon.core.tools.naming import provider_name
from antiphon.dialects.call_ids import CallIdForm, CallIds
from antiphon.dialects.chat import reasoning_state as chat_state
from antiphon.dialects.chat.plain_messages import dialogue
from antiphon.dialects.message_writer import joined

Body: TypeAlias = dict[str, Any]

PATH = "/chat/completions"
_DETAILS = {"low", "high", "auto"}
_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}


class ChatQuirks(Struct, frozen=True, kw_only=True):
    """How one provider's requests differ from the common form: data, and a function at most."""

    fields: Mapping[str, Any] = {}
    """Fields of every request."""
    max_tokens_field: str = "max_tokens"
    effort_field: str | None = "reasoning_effort"
    """A dot leads into an object. None: `patch` says it in another way."""
    thinking_on: Mapping[str, Any] = {}
    """Fields that go with an effort."""
    thinking_off: Mapping[str, Any] | None = None
    """Fields that stand in place of the effort `none`; None: it is a word like the others."""
    user_field: str | None = "user"
    """Where the user's identifier goes; None leaves it out."""
    reasoning_field: str = "reasoning_content"
    reasoning_required: bool = False
    """A turn that called tools must carry its reasoning, be it lost."""
    lost_reasoning: str = ""
    """What stands for it then."""
    replay_details: bool = False
    """`reasoning_details` go back as they came, in place of the reasoning."""
    replay_signatures: bool = False
    """Gemini's signatures go back beside the calls, or the text, that they came with."""
    call_ids: CallIdForm | None = None
    """The only ids of calls that are taken; None: any."""
    required_choice: str = "required"
    """The word for a call that has to be made."""
    free_choice: str | None = "auto"
    """The word for a call that may be made; None leaves it out."""
    schema_drops: frozenset[str] = frozenset()
    """Notes at the top of a tool's schema that are refused; they mean nothing to a model."""
    plain_dialogue: bool = False
    """The provider knows no tools, and no two messages of one role in a row."""
    only_streams: bool = False
    """Whole answers are refused, or cut short: a stream is read to its end instead."""
    stream_usage: bool = True
    """False: the provider refuses to be asked for usage in a stream, or sends it anyway."""
    patch: Callable[[Body, Plan], Body] | None = None
    """The last word: a body in, a body out."""


PLAIN = ChatQuirks()


def encode(plan: Plan, *, stream: bool, quirks: ChatQuirks = PLAIN) -> Outbound:
    """The request that asks a provider for what was planned."""
    stream = stream or quirks.only_streams
    messages = [*_leading(plan), *_messages(plan, quirks)]
    body: Body = {
        "model": plan.model,
        **quirks.fields,
        **_tools(plan, quirks),
        **_response_format(plan.contract),
        **_parameters(plan, quirks),
        **_effort(plan.effort, quirks),
        **_streaming(stream, quirks),
        "messages": dialogue(messages) if quirks.plain_dialogue else messages,
    }
    if quirks.patch is not None:
        body = quirks.patch(body, plan)
    body["messages"] = body.pop("messages")  # last, whatever a patch has added
    accept = "text/event-stream" if stream else "application/json"
    return Outbound(
        path=PATH,
        headers={"content-type": "application/json", "accept": accept},
        body=msgspec.json.encode(body),
    )


# --- everything but the messages ------------------------------------------------------------------


def _tools(plan: Plan, quirks: ChatQuirks) -> Body:
    declared = [_tool(declaration, quirks) for declaration in plan.declarations]
    tools = [*declared, *map(dict, plan.native_tools)]
    choice = _tool_choice(plan.tool_choice, quirks)
    if not tools or choice is None:
        return {"tools": tools} if tools else {}
    return {"tools": tools, "tool_choice": choice}


def _tool(declaration: ToolDeclaration, quirks: ChatQuirks) -> Body:
    function: Body = {"name": declaration.name}
    if declaration.description is not None:
        function["description"] = declaration.description
    # Left out it would mean the same, but not every server knows.
    schema = declaration.parameters or _NO_PARAMETERS
    function["parameters"] = {
        name: value for name, value in schema.items() if name not in quirks.schema_drops
    }
    if declaration.strict is not None:
        function["strict"] = declaration.strict
    return {"type": "function", "function": function}


def _tool_choice(choice: ToolChoice, quirks: ChatQuirks) -> str | Body | None:
    if choice.mode == "function":
        return {"type": "function", "function": {"name": choice.name}}
    words = {"required": quirks.required_choice, "auto": quirks.free_choice}
    return words.get(choice.mode, choice.mode)


def _response_format(contract: OutputContract) -> Body:
    if contract.asked == "text":
        return {}
    if contract.asked == "json_object":
        return {"response_format": {"type": "json_object"}}
    schema: Body = {"name": contract.name}
    if contract.description is not None:
        schema["description"] = contract.description
    schema["schema"] = dict(contract.schema or {})
    if contract.strict is not None:
        schema["strict"] = contract.strict
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def _parameters(plan: Plan, quirks: ChatQuirks) -> Body:
    """The supported parameters under their Chat names; what has no other name keeps its own."""
    fields: Mapping[str, str | None] = {
        "max_output_tokens": quirks.max_tokens_field,
        "safety_identifier": quirks.user_field,
        "user": quirks.user_field,  # deprecated: it comes later in the alphabet, and too late
    }
    body: Body = {}
    for name, value in sorted(plan.parameters.items()):
        field = fields.get(name, name)
        if field is not None and value is not None:
            body.setdefault(field, value)
    if not body.get("top_logprobs"):
        body.pop("top_logprobs", None)
    if plan.include_logprobs or "top_logprobs" in body:
        body["logprobs"] = True
    return body


def _effort(effort: str | None, quirks: ChatQuirks) -> Body:
    if effort is None or quirks.effort_field is None:
        return {}
    if effort == "none" and quirks.thinking_off is not None:
        return {**quirks.thinking_off}
    outer, _, inner = quirks.effort_field.partition(".")
    return {**quirks.thinking_on, outer: {inner: effort} if inner else effort}


def _streaming(stream: bool, quirks: ChatQuirks) -> Body:
    if not stream:
        return {}
    usage: Body = {"stream_options": {"include_usage": True}} if quirks.stream_usage else {}
    return {"stream": True, **usage}


# --- messages -------------------------------------------------------------------------------------


def _leading(plan: Plan) -> Iterator[Body]:
    """What is said once, before everything: it stays the same from turn to turn."""
    told = [text for text in (plan.instructions, plan.contract.instruction()) if text]
    if told:
        yield {"role": "system", "content": "\n\n".join(told)}


def _messages(plan: Plan, quirks: ChatQuirks) -> Iterator[Body]:
    ids = CallIds(quirks.call_ids)
    for own, steps in groupby(plan.history, key=is_own):
        if own:
            yield from _assistant(list(steps), plan, quirks, ids)
        else:
            yield from (_other(step, plan, ids) for step in steps)


def _assistant(
    steps: Sequence[Step], plan: Plan, quirks: ChatQuirks, ids: CallIds
) -> Iterator[Body]:
    """One turn, one message; a turn that only thought has nothing to say."""
    texts = [joined(step.parts, "") for step in steps if isinstance(step, MessageStep)]
    calls = [_call(step, plan.identities, ids) for step in steps if isinstance(step, ToolCallStep)]
    if not texts and not calls:
        return
    message: Body = {"role": "assistant", "content": "\n\n".join(texts) if texts else None}
    message |= _thoughts(steps, bool(calls), plan, quirks)
    if quirks.replay_signatures:
        message |= chat_state.signature_beside(steps)
        calls = chat_state.signed(steps, calls)
    if calls:
        message["tool_calls"] = calls
    yield message


def _thoughts(steps: Sequence[Step], calls: bool, plan: Plan, quirks: ChatQuirks) -> Body:
    """What the model thought in this turn, in the form that its provider wants to see again."""
    if quirks.replay_details and (details := chat_state.details(steps)):
        return {"reasoning_details": details}
    if plan.replay_reasoning == "never" or (plan.replay_reasoning == "tool_turns" and not calls):
        return {}
    text = "".join(step.text or step.summary for step in steps if isinstance(step, ReasoningStep))
    if text:
        return {quirks.reasoning_field: text}
    lost = calls and quirks.reasoning_required
    return {quirks.reasoning_field: quirks.lost_reasoning} if lost else {}


def _call(call: ToolCallStep, identities: ToolIdentityMap, ids: CallIds) -> Body:
    known = identities.by_requested_name(call.name, call.namespace)
    name = known.provider_name if known else provider_name(call.name, call.namespace)
    function = {"name": name, "arguments": call.arguments}
    return {"id": ids.called(call.call_id), "type": "function", "function": function}


def _other(step: Step, plan: Plan, ids: CallIds) -> Body:
    if isinstance(step, ToolResultStep):
        call_id = ids.answered(step.call_id)
        return {"role": "tool", "tool_call_id": call_id, "content": _content(step.parts)}
    assert isinstance(step, MessageStep)  # the assistant's own steps are folded elsewhere
    if step.role == "user":
        return {"role": "user", "content": _content(step.parts)}
    role = "developer" if step.role == "developer" and plan.developer_role else "system"
    return {"role": role, "content": joined(step.parts, "\n")}


def _content(parts: Sequence[Part]) -> str | list[Body]:
    """A plain string wherever it can be one: strict servers know no other content."""
    if all(isinstance(part, TextPart | RefusalPart) for part in parts):
        return joined(parts, "\n")
    return [_part(part) for part in parts]


def _part(part: Part) -> Body:
    match part:
        case TextPart(text) | RefusalPart(text):
            return {"type": "text", "text": text}
        case ImagePart(url, detail):
            image = {"url": url, "detail": detail} if detail in _DETAILS else {"url": url}
            return {"type": "image_url", "image_url": image}
        case FilePart():
            return {"type": "file", "file": _file(part)}
        case AudioPart(data, form):
            return {"type": "input_audio", "input_audio": {"data": data, "format": form}}
        case _:
            assert_never(part)


def _file(part: FilePart) -> Body:
    fields = {
        "filename": part.filename,
        "file_data": part.data or part.url,
        "file_id": part.file_id,
    }
    return {name: value for name, value in fields.items() if value is not None}
