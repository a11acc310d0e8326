"""Gemini's generateContent, the writing half: a plan becomes the bytes of a request.

Rendering is byte-stable and append-only. The same plan always gives the same bytes, and `contents`
stand last: the body of a turn, up to its closing brackets, is a prefix of the next turn's body, so
that a provider's prompt cache survives.

The path begins with the models; everything before it (a version, or the project and location of
Vertex) belongs to the provider's address.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import structs

from antiphon.core.history.steps import MessageStep, RefusalPart, Step, TextPart
from antiphon.core.plan.plan import Outbound, Plan, ToolDeclaration
from antiphon.dialects.gemini.messages import contents, function_name
from antiphon.dialects.gemini.quirks import PLAIN, GeminiQuirks
from antiphon.dialects.gemini.schema import reduce_parameters, reduce_response

__all__ = ["PLAIN", "GeminiQuirks", "encode"]

Body: TypeAlias = dict[str, Any]

_PARAMETERS: Mapping[str, str] = {
    "max_output_tokens": "maxOutputTokens",
    "temperature": "temperature",
    "top_p": "topP",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}
_MODES = {"none": "NONE", "required": "ANY", "function": "ANY"}


def encode(plan: Plan, *, stream: bool, quirks: GeminiQuirks = PLAIN) -> Outbound:
    """The request that asks a model for what was planned."""
    quirks = quirks.of(plan.model)
    system = _leading(plan.history)
    told = [{"text": text} for text in _told(plan, system, quirks)]
    turns = contents(plan.history[len(system) :], plan.identities, quirks)
    body: Body = {}
    if told and quirks.system_instruction:
        body["systemInstruction"] = {"parts": told}
    elif told:
        turns[0]["parts"][:0] = told  # the first turn is always the user's
    body |= _tools(plan, quirks)
    if config := _config(plan, quirks):
        body["generationConfig"] = config
    body["contents"] = turns
    accept = "text/event-stream" if stream else "application/json"
    return Outbound(
        path=_path(plan.model, stream=stream),
        headers={"content-type": "application/json", "accept": accept},
        body=msgspec.json.encode(body),
    )


def _path(model: str, *, stream: bool) -> str:
    """A bare name is one of the models; other kinds (`tunedModels/x`) come with their path."""
    steps = [step for step in model.split("/") if step.strip(".")]
    place = "/".join(re.sub(r"[^\w.@-]", _escaped, step, flags=re.ASCII) for step in steps)
    prefix = "" if len(steps) > 1 else "models/"
    return f"/{prefix}{place}:{'streamGenerateContent?alt=sse' if stream else 'generateContent'}"


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "replace"))


# --- what is said once ----------------------------------------------------------------------------


def _leading(history: Sequence[Step]) -> list[MessageStep]:
    """What the system says before anybody else; nothing if nobody else does: a model needs a user.
    What it says later stays in its place, as the user's words."""
    system: list[MessageStep] = []
    for step in history:
        if not isinstance(step, MessageStep) or step.role not in ("system", "developer"):
            return system
        system.append(step)
    return []


def _told(plan: Plan, system: Iterable[MessageStep], quirks: GeminiQuirks) -> Iterator[str]:
    if plan.instructions:
        yield plan.instructions
    for step in system:
        yield from (part.text for part in step.parts if isinstance(part, TextPart | RefusalPart))
    contract = plan.contract
    if not _asks_natively(plan, quirks):
        contract = structs.replace(contract, asked="text")
    if instruction := contract.instruction():
        yield instruction


def _asks_natively(plan: Plan, quirks: GeminiQuirks) -> bool:
    """Most models refuse to write JSON by order as long as they may call functions."""
    if plan.contract.asked == "text":
        return False
    return quirks.json_beside_tools or not (plan.declarations or plan.native_tools)


# --- tools ----------------------------------------------------------------------------------------


def _tools(plan: Plan, quirks: GeminiQuirks) -> Body:
    functions = [_function(each, quirks) for each in plan.declarations]
    tools: list[Body] = [{"functionDeclarations": functions}] if functions else []
    if any(str(tool.get("type")).startswith("web_search") for tool in plan.native_tools):
        tools.append({"googleSearch": {}})
    if not tools:
        return {}
    config = _tool_config(plan, quirks) if functions else {}
    if len(tools) > 1:
        config["includeServerSideToolInvocations"] = True
    return {"tools": tools, "toolConfig": config} if config else {"tools": tools}


def _function(declaration: ToolDeclaration, quirks: GeminiQuirks) -> Body:
    function: Body = {"name": function_name(declaration.name)}
    if declaration.description:
        function["description"] = declaration.description
    schema = declaration.parameters
    if not quirks.json_schema:
        parameters = reduce_parameters(schema)
        return function if parameters is None else {**function, "parameters": parameters}
    if schema and schema.keys() - {"type"} and schema.get("properties") != {}:
        # It has to be an object, and to say so.
        typed = schema if "type" in schema or "$ref" in schema else {"type": "object", **schema}
        function["parametersJsonSchema"] = typed
    return function


def _tool_config(plan: Plan, quirks: GeminiQuirks) -> Body:
    choice = plan.tool_choice
    calling: Body = {}
    if choice.mode != "auto":
        calling["mode"] = _MODES[choice.mode]
    if choice.mode == "function" and choice.name is not None:
        calling["allowedFunctionNames"] = [function_name(choice.name)]
    if quirks.stream_arguments:
        calling["streamFunctionCallArguments"] = True
    return {"functionCallingConfig": calling} if calling else {}


# --- how to answer --------------------------------------------------------------------------------


def _config(plan: Plan, quirks: GeminiQuirks) -> Body:
    given = {field: plan.parameters.get(name) for name, field in _PARAMETERS.items()}
    config: Body = {field: value for field, value in given.items() if value is not None}
    config |= _format(plan, quirks)
    if thinking := _thinking(plan, quirks):
        config["thinkingConfig"] = thinking
    return config


def _format(plan: Plan, quirks: GeminiQuirks) -> Body:
    if not _asks_natively(plan, quirks):
        return {}
    form: Body = {"responseMimeType": "application/json"}
    schema = plan.contract.schema
    if plan.contract.asked != "json_schema" or schema is None:
        return form
    if quirks.json_schema:
        return {**form, "responseJsonSchema": schema}
    return {**form, "responseSchema": reduce_response(schema)}


def _thinking(plan: Plan, quirks: GeminiQuirks) -> Body:
    if quirks.effort is None:
        return {}
    thinking: Body = {}
    if plan.effort is not None and quirks.effort == "level":
        thinking["thinkingLevel"] = plan.effort
    elif plan.effort is not None and re.fullmatch("-?[0-9]{1,9}", plan.effort):
        thinking["thinkingBudget"] = int(plan.effort)
    if quirks.include_thoughts and thinking.get("thinkingBudget") != 0:
        thinking["includeThoughts"] = True
    return thinking
