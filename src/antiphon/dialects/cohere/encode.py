"""Cohere's chat (v2), the writing half: a plan becomes the bytes of a request.

1. Rendering is byte-stable and append-only: `messages` stand last, and the body of a turn, up to
   its closing brackets, is a prefix of the next turn's.
2. A turn that calls tools has no text beside its calls: what it said is their plan.
3. An answer follows a user or a tool, and so does whatever is asked now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from antiphon.core.history.media import MediaSupport
from antiphon.core.history.steps import (
    AudioPart,
    FilePart,
    ImagePart,
    MessageStep,
    Part,
    ReasoningStep,
    Step,
    ToolCallStep,
    ToolResultStep,
    is_own,
)
from antiphon.core.plan.plan import Outbound, Plan, ToolDeclaration
from antiphon.core.tools.identity import ToolIdentityMap
from antiphon.core.tools.naming import provider_name
from antiphon.dialects.cohere.reasoning_state import THINKING, TOOL_PLAN

Body: TypeAlias = dict[str, Any]

PATH = "/v2/chat"
TAKEN = MediaSupport(types=frozenset({"image/*"}), file_ids="")
"""What the API takes: images, and nothing else."""
_DETAILS = frozenset({"low", "high", "auto"})
_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}
_OFF = frozenset({"none", "disabled"})
_GO_ON = "Continue."
_NO_TEXT = "[no text]"
_NO_OUTPUT = "[no output]"
_BUDGETS: Mapping[str, int] = MappingProxyType({"low": 1_024, "medium": 4_096, "high": 16_384})


class _Range(Struct, frozen=True):
    """The provider's name of a parameter, and what it accepts."""

    field: str
    least: float = 0
    most: float = 1


_PARAMETERS: Mapping[str, _Range] = {
    "frequency_penalty": _Range("frequency_penalty"),
    "max_output_tokens": _Range("max_tokens", 1, 2**31 - 1),
    "presence_penalty": _Range("presence_penalty"),
    "temperature": _Range("temperature"),
    "top_k": _Range("k", 0, 500),
    "top_p": _Range("p", 0.01, 0.99),
}


class CohereQuirks(Struct, frozen=True, kw_only=True):
    """How one provider wants to be asked: data alone."""

    budgets: Mapping[str, int] = _BUDGETS
    """How many tokens of thought an effort stands for. `none` and `disabled` turn thinking off;
    any other word leaves the measure to the model."""
    tool_results: Literal["text", "documents"] = "text"
    """Documents can be cited field by field."""
    fields: Mapping[str, Any] = {}
    """Other fields of every request, such as `citation_options` or `safety_mode`."""


PLAIN = CohereQuirks()


def encode(plan: Plan, *, stream: bool, quirks: CohereQuirks = PLAIN) -> Outbound:
    """The request that asks a provider for what was planned."""
    tools = _tools(plan)
    body: Body = {
        "model": plan.model,
        **quirks.fields,
        **tools,
        **({} if tools else _response_format(plan)),
        **_parameters(plan),
        **_thinking(plan, quirks),
        "stream": stream,
        "messages": _messages(plan, quirks, [*_leading(plan, tools)]),
    }
    accept = "text/event-stream" if stream else "application/json"
    return Outbound(
        path=PATH,
        headers={"content-type": "application/json", "accept": accept},
        body=msgspec.json.encode(body),
    )


# --- everything but the messages ------------------------------------------------------------------


def _tools(plan: Plan) -> Body:
    """The tools, and what is to be done with them. One that has to be called stands alone."""
    choice = plan.tool_choice
    declared = [
        tool for tool in plan.declarations if choice.mode != "function" or tool.name == choice.name
    ]
    if not declared:
        return {}
    body: Body = {"tools": [_tool(tool) for tool in declared]}
    if all(map(_is_strict, declared)):
        body["strict_tools"] = True
    if choice.mode != "auto":
        body["tool_choice"] = "NONE" if choice.mode == "none" else "REQUIRED"
    return body


def _tool(declaration: ToolDeclaration) -> Body:
    function: Body = {"name": declaration.name}
    if declaration.description is not None:
        function["description"] = declaration.description
    function["parameters"] = dict(declaration.parameters or _NO_PARAMETERS)
    return {"type": "function", "function": function}


def _is_strict(tool: ToolDeclaration) -> bool:
    """Strictness is for all tools or none, and each of them must insist on something."""
    return bool(tool.strict and tool.parameters and tool.parameters.get("required"))


def _response_format(plan: Plan) -> Body:
    contract = plan.contract
    if contract.asked == "text":
        return {}
    schema = {"json_schema": dict(contract.schema or {})} if contract.asked != "json_object" else {}
    return {"response_format": {"type": "json_object", **schema}}


def _parameters(plan: Plan) -> Body:
    """The supported parameters under their native names; a value out of bounds would be refused."""
    body: Body = {}
    for name, value in sorted(plan.parameters.items()):
        known = _PARAMETERS.get(name)
        if known is not None and value is not None:
            body[known.field] = min(max(value, known.least), known.most)
    return body


def _thinking(plan: Plan, quirks: CohereQuirks) -> Body:
    if plan.effort is None:
        return {}
    if plan.effort in _OFF:
        return {"thinking": {"type": "disabled"}}
    budget = quirks.budgets.get(plan.effort)
    measure = {} if budget is None else {"token_budget": budget}
    return {"thinking": {"type": "enabled", **measure}}


# --- messages -------------------------------------------------------------------------------------


def _leading(plan: Plan, tools: Body) -> Iterator[Body]:
    """What is said once, before everything: it stays the same from turn to turn."""
    contract = plan.contract
    if tools:  # with tools a format cannot be asked for natively
        contract = msgspec.structs.replace(contract, asked="text")
    told = [text for text in (plan.instructions, contract.instruction()) if text and text.strip()]
    if told:
        yield {"role": "system", "content": "\n\n".join(told)}


def _messages(plan: Plan, quirks: CohereQuirks, messages: list[Body]) -> list[Body]:
    for own, steps in groupby(plan.history, key=is_own):
        if own:
            answer = _assistant(list(steps), plan)
            if answer is not None:
                _ask(messages)
                messages.append(answer)
        else:
            messages += [_other(step, quirks) for step in steps]
    _ask(messages)
    return messages


def _ask(messages: list[Body]) -> None:
    """See to it that there is something to answer."""
    if not messages or messages[-1]["role"] not in ("user", "tool"):
        messages.append({"role": "user", "content": _GO_ON})


def _assistant(steps: Sequence[Step], plan: Plan) -> Body | None:
    """One turn, one message; a turn that only thought has nothing to say."""
    calls = [_call(step, plan.identities) for step in steps if isinstance(step, ToolCallStep)]
    texts = ["".join(map(_words, step.parts)) for step in steps if isinstance(step, MessageStep)]
    texts = [text for text in texts if text.strip()]
    thoughts = _kept(steps, THINKING) if _is_thinking(plan, bool(calls)) else []
    if not calls:
        return _answer(thoughts, texts)
    plans = [*_kept(steps, TOOL_PLAN), *texts]
    message: Body = {"role": "assistant"}
    if thoughts:  # a plan beside them is refused, so it is one of them
        message["content"] = [_thought(text) for text in [*thoughts, *plans]]
    elif plans:
        message["tool_plan"] = "\n\n".join(plans)
    return message | {"tool_calls": calls}


def _answer(thoughts: Sequence[str], texts: Sequence[str]) -> Body | None:
    if not texts:
        return None
    text = "\n\n".join(texts)
    blocks = [*map(_thought, thoughts), {"type": "text", "text": text}]
    return {"role": "assistant", "content": blocks if thoughts else text}


def _is_thinking(plan: Plan, calls: bool) -> bool:
    """Whether thoughts go back: to a model that thinks now, and beside calls in any case."""
    return plan.effort not in _OFF and (calls or plan.replay_reasoning == "always")


def _kept(steps: Iterable[Step], scheme: str) -> list[str]:
    """The thoughts that this very model has had; those of others would be none of its own."""
    states = (state for step in steps if isinstance(step, ReasoningStep) for state in step.states)
    return [
        state.value for state in states if state.scheme == scheme and isinstance(state.value, str)
    ]


def _thought(text: str) -> Body:
    return {"type": "thinking", "thinking": text}


def _call(call: ToolCallStep, identities: ToolIdentityMap) -> Body:
    known = identities.by_requested_name(call.name, call.namespace)
    name = known.provider_name if known else provider_name(call.name, call.namespace)
    function = {"name": name, "arguments": call.arguments}
    return {"id": call.call_id, "type": "function", "function": function}


def _other(step: Step, quirks: CohereQuirks) -> Body:
    if isinstance(step, ToolResultStep):
        content = _result(step.parts, quirks)
        return {"role": "tool", "tool_call_id": step.call_id, "content": content}
    assert isinstance(step, MessageStep)  # the assistant's own steps are folded elsewhere
    if step.role != "user":
        return {"role": "system", "content": _joined(step.parts, _NO_TEXT)}
    if not any(isinstance(part, ImagePart) for part in step.parts):
        return {"role": "user", "content": _joined(step.parts, _NO_TEXT)}
    return {"role": "user", "content": [*_blocks(step.parts)]}


def _joined(parts: Iterable[Part], empty: str) -> str:
    """Words part by part; without a visible character they would be refused."""
    text = "\n".join(map(_words, parts))
    return text if text.strip() else empty


def _blocks(parts: Iterable[Part]) -> Iterator[Body]:
    for part in parts:
        if isinstance(part, ImagePart):
            detail = {"detail": part.detail} if part.detail in _DETAILS else {}
            yield {"type": "image_url", "image_url": {"url": part.url, **detail}}
        elif (text := _words(part)).strip():
            yield {"type": "text", "text": text}


def _result(parts: Sequence[Part], quirks: CohereQuirks) -> str | list[Body]:
    """What a tool answered; a document is an object, or one that holds the text."""
    if quirks.tool_results == "text":
        return _joined(parts, _NO_OUTPUT)
    texts = [text for part in parts if (text := _words(part)).strip()]
    return [
        {"type": "document", "document": {"data": _data(each)}} for each in texts or [_NO_OUTPUT]
    ]


_read_object = msgspec.json.Decoder(dict[str, Raw]).decode


def _data(text: str) -> Raw | Body:
    try:
        _read_object(text)
    except (msgspec.DecodeError, RecursionError):
        return {"content": text}
    return Raw(text.encode())


def _words(part: Part) -> str:
    """A part as text; what does not fit says so."""
    match part:
        case ImagePart():
            return "[image omitted: it cannot be shown here]"
        case FilePart(filename):
            return f"[file {filename or 'without a name'} omitted: this model takes no files]"
        case AudioPart():
            return "[audio omitted: this model takes no audio]"
        case _:
            return part.text
