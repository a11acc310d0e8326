"""The Responses API, the writing half: a plan becomes the bytes of a request to another server.

Nothing is kept there: `store` is always false, and the whole history goes with every request. The
rendering is byte-stable and append-only, with `input` last: the body of a turn, up to its closing
brackets, is a prefix of the next turn's body, so that a provider's prompt cache survives.

Items go without ids where they can: a server that kept nothing could not know them. Reasoning goes
back just as its provider made it.
"""

from __future__ import annotations

import hashlib
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
from antiphon.core.tools.naming import provider_name
from antiphon.dialects.message_writer import joined
from antiphon.dialects.responses.items import SCHEME

Body: TypeAlias = dict[str, Any]

PATH = "/responses"
_DETAILS = {"low", "high", "auto", "original"}
_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}
_LONGEST_CALL_ID = 64
_NOTHING: Mapping[str, Any] = {  # no server takes a request that says nothing at all
    "type": "message",
    "role": "user",
    "content": [{"type": "input_text", "text": "[no input]"}],
}
# Parameters that stand inside of another field.
_INSIDE: Mapping[str, str] = {
    "summary": "reasoning",
    "generate_summary": "reasoning",
    "context": "reasoning",
    "mode": "reasoning",
    "verbosity": "text",
}


class ResponsesQuirks(Struct, frozen=True, kw_only=True):
    """How one provider differs from the API's inventor: data, and a function at most."""

    sealed_reasoning: bool = True
    """The provider seals its reasoning, if asked to, and wants it back so."""
    plain_reasoning: bool = False
    """Reasoning goes back as text. OpenAI refuses it; servers of open models know nothing else."""
    trailing_reasoning: bool = False
    """Reasoning may be the last thing in a turn. OpenAI wants to see what it led to."""
    server_tools: frozenset[str] = frozenset()
    """Names of calls that the provider answers itself, though they look like a client's."""
    patch: Callable[[Body, Plan], Body] | None = None
    """The last word: a body in, a body out."""


PLAIN = ResponsesQuirks()


def encode(plan: Plan, *, stream: bool, quirks: ResponsesQuirks = PLAIN) -> Outbound:
    """The request that asks a provider for what was planned."""
    body: Body = {
        "model": plan.model,
        **_instructions(plan),
        **_tools(plan),
        **_settings(plan),
        **_include(plan, quirks),
        "store": False,
        "stream": stream,
        "input": list(_input(plan, quirks)) or [_NOTHING],
    }
    if quirks.patch is not None:
        body = quirks.patch(body, plan)
    body["input"] = body.pop("input")  # last, whatever a patch has added
    accept = "text/event-stream" if stream else "application/json"
    return Outbound(
        path=PATH,
        headers={"content-type": "application/json", "accept": accept},
        body=msgspec.json.encode(body),
    )


# --- everything but the input ---------------------------------------------------------------------


def _instructions(plan: Plan) -> Body:
    told = [text for text in (plan.instructions, plan.contract.instruction()) if text]
    return {"instructions": "\n\n".join(told)} if told else {}


def _tools(plan: Plan) -> Body:
    tools = [*map(_tool, plan.declarations), *map(dict, plan.native_tools)]
    return {"tools": tools, "tool_choice": _tool_choice(plan.tool_choice)} if tools else {}


def _tool(declaration: ToolDeclaration) -> Body:
    tool: Body = {"type": "function", "name": declaration.name}
    if declaration.description is not None:
        tool["description"] = declaration.description
    tool["parameters"] = dict(declaration.parameters or _NO_PARAMETERS)
    if declaration.strict is not None:
        tool["strict"] = declaration.strict
    return tool


def _tool_choice(choice: ToolChoice) -> str | Body:
    return {"type": "function", "name": choice.name} if choice.mode == "function" else choice.mode


def _settings(plan: Plan) -> Body:
    """Parameters under their own names, with those of reasoning and text where they belong."""
    settings: Body = {}
    for name, value in sorted(plan.parameters.items()):
        if value is not None:
            place = settings.setdefault(_INSIDE[name], {}) if name in _INSIDE else settings
            place[name] = value
    if plan.effort is not None:
        settings.setdefault("reasoning", {})["effort"] = plan.effort
    if plan.contract.asked != "text":
        settings.setdefault("text", {})["format"] = _format(plan.contract)
    return settings


def _format(contract: OutputContract) -> Body:
    if contract.asked == "json_object":
        return {"type": "json_object"}
    form: Body = {"type": "json_schema", "name": contract.name}
    if contract.description is not None:
        form["description"] = contract.description
    form["schema"] = dict(contract.schema or {})
    if contract.strict is not None:
        form["strict"] = contract.strict
    return form


def _include(plan: Plan, quirks: ResponsesQuirks) -> Body:
    """What would not come unasked. A model that does not reason refuses to be asked for it."""
    include = []
    if quirks.sealed_reasoning and plan.replay_reasoning != "never":
        include.append("reasoning.encrypted_content")
    if plan.include_logprobs:
        include.append("message.output_text.logprobs")
    return {"include": include} if include else {}


# --- the input ------------------------------------------------------------------------------------


class _Ids:
    """Ids that every server accepts, the same ones for the same history.

    An answer belongs to the last call of its id: a thread may use an id again in a later turn, and
    then the later call gets another one.
    """

    def __init__(self) -> None:
        self._given: dict[str, str] = {}
        self._taken: set[str] = set()
        self._thoughts = 0

    def called(self, call_id: str) -> str:
        short = call_id if 0 < len(call_id) <= _LONGEST_CALL_ID else _digest(call_id)
        given, number = short, 1
        while given in self._taken:
            number += 1
            given = _digest(f"{short} {number}")
        self._taken.add(given)
        self._given[call_id] = given
        return given

    def answered(self, call_id: str) -> str:
        return self._given.get(call_id, call_id)

    def thought(self) -> str:
        self._thoughts += 1
        return f"rs_{self._thoughts}"


def _digest(text: str) -> str:
    return f"call_{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def _input(plan: Plan, quirks: ResponsesQuirks) -> Iterator[Body]:
    ids = _Ids()
    for own, steps in groupby(plan.history, key=is_own):
        if own:
            yield from _turn(list(steps), plan, quirks, ids)
        else:
            yield from (_other(step, plan, ids) for step in steps)


def _turn(steps: Sequence[Step], plan: Plan, quirks: ResponsesQuirks, ids: _Ids) -> Iterator[Body]:
    calls = any(isinstance(step, ToolCallStep) for step in steps)
    replay = plan.replay_reasoning == "always" or (plan.replay_reasoning == "tool_turns" and calls)
    said = [place for place, step in enumerate(steps) if not isinstance(step, ReasoningStep)]
    for place, step in enumerate(steps):
        match step:
            case ReasoningStep():
                if replay and (place < max(said, default=0) or quirks.trailing_reasoning):
                    yield from _reasoning(step, quirks, ids)
            case ToolCallStep():
                yield _call(step, plan, ids)
            case _:
                yield _message(step)


def _message(step: Step) -> Body:
    assert isinstance(step, MessageStep)  # the other kinds of a turn have rows of their own
    message: Body = {"type": "message", "role": "assistant", "content": joined(step.parts, "")}
    return message if step.phase is None else {**message, "phase": step.phase}


def _reasoning(thought: ReasoningStep, quirks: ResponsesQuirks, ids: _Ids) -> Iterator[Body]:
    """Reasoning as its provider made it; of a stranger's only the text, where text is taken."""
    items: list[Body] = [
        {"type": "reasoning", "summary": [], **state.value}
        for state in thought.states
        if state.scheme == SCHEME and isinstance(state.value, Mapping)
    ]
    text = thought.text or thought.summary
    if quirks.plain_reasoning and text:
        items = items or [{"type": "reasoning", "id": ids.thought(), "summary": []}]
        items[0]["content"] = [{"type": "reasoning_text", "text": text}]
    yield from items


def _call(call: ToolCallStep, plan: Plan, ids: _Ids) -> Body:
    known = plan.identities.by_requested_name(call.name, call.namespace)
    return {
        "type": "function_call",
        "call_id": ids.called(call.call_id),
        "name": known.provider_name if known else provider_name(call.name, call.namespace),
        "arguments": call.arguments,
    }


def _other(step: Step, plan: Plan, ids: _Ids) -> Body:
    if isinstance(step, ToolResultStep):
        return {
            "type": "function_call_output",
            "call_id": ids.answered(step.call_id),
            "output": _output(step.parts),
        }
    assert isinstance(step, MessageStep)  # the assistant's own steps are rendered elsewhere
    role = "system" if step.role == "developer" and not plan.developer_role else step.role
    return {"type": "message", "role": role, "content": [_part(part) for part in step.parts]}


def _output(parts: Sequence[Part]) -> str | list[Body]:
    """A plain string wherever it can be one: not every server takes lists."""
    if all(isinstance(part, TextPart | RefusalPart) for part in parts):
        return joined(parts, "\n")
    return [_part(part) for part in parts]


def _part(part: Part) -> Body:
    match part:
        case TextPart(text) | RefusalPart(text):
            return {"type": "input_text", "text": text}
        case ImagePart(url, detail):
            known = detail if detail in _DETAILS else "auto"
            return {"type": "input_image", "image_url": url, "detail": known}
        case FilePart():
            return {"type": "input_file", **_file(part)}
        case AudioPart(data, form):
            return {"type": "input_audio", "input_audio": {"data": data, "format": form}}
        case _:
            assert_never(part)


def _file(part: FilePart) -> Body:
    """Exactly one of content, id and address; a name goes with content, and must."""
    if part.data is not None:
        return {"filename": part.filename or "file", "file_data": part.data}
    return {"file_id": part.file_id} if part.file_id is not None else {"file_url": part.url}
