"""Ollama's own API, the writing half: a plan becomes the bytes of a request.

Rendering is byte-stable and append-only: `messages` stand last, and the body of a turn, up to its
closing brackets, is a prefix of the next turn's. Servers read a request into typed fields and
refuse what does not fit, so arguments are objects, images are base64 and schemas are mended.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeAlias

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
from antiphon.core.structured_output.contract import OutputContract
from antiphon.core.tools.naming import provider_name

Body: TypeAlias = dict[str, Any]

PATH = "/api/chat"
TAKEN = MediaSupport(types=frozenset({"image/*"}), image_links="", file_ids="")
"""What a server takes: images, and only with their content."""
_LEVELS = frozenset({"low", "medium", "high", "max"})
_OFF = frozenset({"none", "false", "off"})
_OPTIONS: Mapping[str, str] = {
    "frequency_penalty": "frequency_penalty",
    "max_output_tokens": "num_predict",
    "presence_penalty": "presence_penalty",
    "temperature": "temperature",
    "top_p": "top_p",
}


class OllamaQuirks(Struct, frozen=True, kw_only=True):
    """How one server wants to be asked: data alone."""

    options: Mapping[str, Any] = {}
    """Options of every request that the request itself does not set, such as `num_ctx`: without
    it a server takes as much context as it likes, and forgets the rest in silence."""
    fields: Mapping[str, Any] = {}
    """Other fields of every request, such as `keep_alive` or `truncate`."""


PLAIN = OllamaQuirks()


def encode(plan: Plan, *, stream: bool, quirks: OllamaQuirks = PLAIN) -> Outbound:
    """The request that asks a server for what was planned."""
    body: Body = {
        "model": plan.model,
        **quirks.fields,
        **_tools(plan),
        **_format(plan.contract),
        **_think(plan.effort),
        **_options(plan, quirks),
        **_logprobs(plan),
        "stream": stream,  # left out it would mean yes
        "messages": [*_leading(plan), *_messages(plan)] or [_nobody()],
    }
    accept = "application/x-ndjson" if stream else "application/json"
    return Outbound(
        path=PATH,
        headers={"content-type": "application/json", "accept": accept},
        body=msgspec.json.encode(body),
    )


# --- everything but the messages ------------------------------------------------------------------


def _tools(plan: Plan) -> Body:
    """The tools that may be called: the API knows no choice, so a choice is a shorter list."""
    choice = plan.tool_choice
    declared = [] if choice.mode == "none" else plan.declarations
    named = [tool for tool in declared if choice.mode != "function" or tool.name == choice.name]
    return {"tools": [_tool(tool) for tool in named]} if named else {}


def _tool(declaration: ToolDeclaration) -> Body:
    function: Body = {"name": declaration.name}
    if declaration.description is not None:
        function["description"] = declaration.description
    parameters = _schema(declaration.parameters or {}) | {"type": "object"}
    function["parameters"] = {"properties": {}, **parameters}
    return {"type": "function", "function": function}


_SHAPES: Mapping[str, type | tuple[type, ...]] = {
    "type": (str, list),
    "description": str,
    "enum": list,
    "required": list,
    "properties": Mapping,
    "anyOf": list,
}


def _schema(schema: Any) -> Body:
    """A schema whose known members have the types that a server reads them into."""
    given = schema if isinstance(schema, Mapping) else {}  # `true` allows anything, and so does {}
    fitting = {
        name: value
        for name, value in given.items()
        if name not in _SHAPES or isinstance(value, _SHAPES[name])
    }
    for name in ("type", "required"):
        if isinstance(fitting.get(name), list):
            fitting[name] = [each for each in fitting[name] if isinstance(each, str)]
    if "properties" in fitting:
        inner = fitting["properties"].items()
        fitting["properties"] = {name: _schema(value) for name, value in inner}
    if "anyOf" in fitting:
        fitting["anyOf"] = [_schema(value) for value in fitting["anyOf"]]
    return fitting


def _format(contract: OutputContract) -> Body:
    if contract.asked == "text":
        return {}
    if contract.asked == "json_object":
        return {"format": "json"}
    return {"format": dict(contract.schema or {})}


def _think(effort: str | None) -> Body:
    """A level where the word is one, else a switch: another word would be refused."""
    if effort is None:
        return {}
    return {"think": effort if effort in _LEVELS else effort not in _OFF}


def _options(plan: Plan, quirks: OllamaQuirks) -> Body:
    options = dict(quirks.options)
    for name, value in sorted(plan.parameters.items()):
        if name in _OPTIONS and value is not None:
            options[_OPTIONS[name]] = value
    return {"options": options} if options else {}


def _logprobs(plan: Plan) -> Body:
    if not plan.include_logprobs:
        return {}
    several = plan.parameters.get("top_logprobs")
    return {"logprobs": True, "top_logprobs": several} if several else {"logprobs": True}


# --- messages -------------------------------------------------------------------------------------


def _nobody() -> Body:
    """Without any message a server would only load its model."""
    return {"role": "user", "content": ""}


def _leading(plan: Plan) -> Iterator[Body]:
    """What is said once, before everything: it stays the same from turn to turn."""
    told = [text for text in (plan.instructions, plan.contract.instruction()) if text]
    if told:
        yield {"role": "system", "content": "\n\n".join(told)}


def _messages(plan: Plan) -> Iterator[Body]:
    names: dict[str, str] = {}  # of the tools behind the calls so far
    for own, steps in groupby(plan.history, key=is_own):
        if own:
            yield from _assistant(list(steps), plan, names)
        else:
            yield from (_other(step, names) for step in steps)


def _assistant(steps: Sequence[Step], plan: Plan, names: dict[str, str]) -> Iterator[Body]:
    """One turn, one message; a turn that only thought has nothing to say."""
    texts = ["".join(map(_words, step.parts)) for step in steps if isinstance(step, MessageStep)]
    calls = [_call(step, plan, names) for step in steps if isinstance(step, ToolCallStep)]
    if not texts and not calls:
        return
    message: Body = {"role": "assistant", "content": "\n\n".join(texts)}
    thoughts = "".join(
        step.text or step.summary for step in steps if isinstance(step, ReasoningStep)
    )
    replayed = plan.replay_reasoning
    if thoughts and (replayed == "always" or (replayed == "tool_turns" and calls)):
        message["thinking"] = thoughts
    if calls:
        message["tool_calls"] = calls
    yield message


def _call(call: ToolCallStep, plan: Plan, names: dict[str, str]) -> Body:
    known = plan.identities.by_requested_name(call.name, call.namespace)
    name = known.provider_name if known else provider_name(call.name, call.namespace)
    names[call.call_id] = name
    arguments = Raw(call.arguments.encode())  # an object, and as the model wrote it
    return {"id": call.call_id, "function": {"name": name, "arguments": arguments}}


def _other(step: Step, names: Mapping[str, str]) -> Body:
    if isinstance(step, ToolResultStep):
        # Older servers know results by the names of their tools alone.
        matched = {"tool_name": names[step.call_id], "tool_call_id": step.call_id}
        return _spoken("tool", step.parts) | matched
    assert isinstance(step, MessageStep)  # the assistant's own steps are folded elsewhere
    return _spoken("user" if step.role == "user" else "system", step.parts)


def _spoken(role: str, parts: Iterable[Part]) -> Body:
    texts: list[str] = []
    images: list[str] = []
    for part in parts:
        image = _image(part)
        if image is None:
            texts.append(_words(part))
        else:
            images.append(image)
    message: Body = {"role": role, "content": "\n".join(texts)}
    return message | {"images": images} if images else message


def _image(part: Part) -> str | None:
    """The image itself, in base64: a server does not go and fetch one."""
    if not isinstance(part, ImagePart):
        return None
    header, _, data = part.url.partition(",")
    if not header.startswith("data:") or not header.lower().endswith(";base64"):
        return None
    try:
        base64.b64decode(data, validate=True)
    except ValueError:
        return None
    return data or None


def _words(part: Part) -> str:
    """A part as text; what a server does not take says so."""
    match part:
        case ImagePart(url):
            linked = not url.startswith("data:")
            return f"[image: {url}]" if linked else "[image omitted: it cannot be read]"
        case FilePart(filename):
            return f"[file {filename or 'without a name'} omitted: this model takes no files]"
        case AudioPart():
            return "[audio omitted: this model takes no audio]"
        case _:
            return part.text
