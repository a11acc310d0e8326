"""Encode a plan as a Gemini `generateContent` request.

The encoding is byte-stable and append-only. The same plan always gives the same bytes, and
`contents` is the last field: the body of a turn, up to its closing brackets, is a prefix of the
next turn's body, so that the provider's prompt cache stays valid.

The path begins with `models`; everything before it (a version, or the project and location of
Vertex) belongs to the provider's base URL.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import structs

from antiphon.core.history.steps import MessageStep, RefusalPart, Step, TextPart
from antiphon.core.items import Document
from antiphon.core.plan.plan import Outbound, Plan
from antiphon.core.tools.declaration import ToolDeclaration
from antiphon.dialects.gemini.messages import encode_history, function_name
from antiphon.dialects.gemini.quirks import PLAIN, GeminiQuirks
from antiphon.dialects.gemini.schema import (
    has_reference,
    has_unsupported_reference,
    reduce_parameters,
    reduce_response,
)
from antiphon.dialects.json_output import encode_in_steps

_PARAMETERS: Mapping[str, str] = {
    "max_output_tokens": "maxOutputTokens",
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "stop": "stopSequences",
    "seed": "seed",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}
_CALLING_MODES = {"none": "NONE", "required": "ANY", "function": "ANY"}


def encode(plan: Plan, *, stream: bool, quirks: GeminiQuirks = PLAIN) -> Outbound:
    """Encode a plan as an HTTP request."""
    quirks = quirks.of(plan.model)
    system = _leading_system_messages(plan.history)
    instructions = [{"text": text} for text in _instructions(plan, system, quirks)]
    contents = encode_history(plan.history[len(system) :], plan.identities, quirks)
    body: Document = {}
    if instructions and quirks.system_instruction:
        body["systemInstruction"] = {"parts": instructions}
    elif instructions:
        contents[0]["parts"][:0] = instructions  # the first turn is always the user's
    body |= _tools(plan, quirks)
    if config := _generation_config(plan, quirks):
        body["generationConfig"] = config
    body["contents"] = contents
    accept = "text/event-stream" if stream else "application/json"
    return Outbound(
        path=_path(plan.model, stream=stream),
        headers={"content-type": "application/json", "accept": accept},
        body=encode_in_steps(body) if plan.is_large else msgspec.json.encode(body),
    )


def _path(model: str, *, stream: bool) -> str:
    """The URL path. A bare name gets `models/`; other kinds (`tunedModels/x`) have their path."""
    segments = [segment for segment in model.split("/") if segment.strip(".")]
    escaped = [
        re.sub(r"[^\w.@-]", _percent_encode, segment, flags=re.ASCII) for segment in segments
    ]
    prefix = "" if len(segments) > 1 else "models/"
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return f"/{prefix}{'/'.join(escaped)}:{method}"


def _percent_encode(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "replace"))


# --- instructions ---------------------------------------------------------------------------------


def _leading_system_messages(history: Sequence[Step]) -> list[MessageStep]:
    """System messages before any other step; none if there is no other step, since a request needs
    a user turn. Later system messages stay where they are, as parts of a user turn."""
    system: list[MessageStep] = []
    for step in history:
        if not isinstance(step, MessageStep) or step.role not in ("system", "developer"):
            return system
        system.append(step)
    return []


def _instructions(plan: Plan, system: Iterable[MessageStep], quirks: GeminiQuirks) -> Iterator[str]:
    if plan.instructions:
        yield plan.instructions
    for step in system:
        yield from (part.text for part in step.parts if isinstance(part, TextPart | RefusalPart))
    contract = plan.contract
    if not _has_native_format(plan, quirks):
        contract = structs.replace(contract, asked="text")
    if instruction := contract.instruction():
        yield instruction


def _has_native_format(plan: Plan, quirks: GeminiQuirks) -> bool:
    """Whether `responseMimeType` can be sent: most models refuse it beside tools."""
    if plan.contract.asked == "text":
        return False
    return quirks.json_beside_tools or not (plan.declarations or plan.native_tools)


# --- tools ----------------------------------------------------------------------------------------


def _tools(plan: Plan, quirks: GeminiQuirks) -> Document:
    functions = [_function(each, quirks) for each in plan.declarations]
    tools: list[Document] = [{"functionDeclarations": functions}] if functions else []
    if any(str(tool.get("type")).startswith("web_search") for tool in plan.native_tools):
        tools.append({"googleSearch": {}})
    if not tools:
        return {}
    config = _tool_config(plan, quirks) if functions else {}
    if len(tools) > 1:
        config["includeServerSideToolInvocations"] = True
    return {"tools": tools, "toolConfig": config} if config else {"tools": tools}


def _function(declaration: ToolDeclaration, quirks: GeminiQuirks) -> Document:
    function: Document = {"name": function_name(declaration.name)}
    if declaration.description:
        function["description"] = declaration.description
    schema = declaration.parameters
    if not quirks.json_schema or has_reference(schema):
        parameters = reduce_parameters(schema)
        return function if parameters is None else {**function, "parameters": parameters}
    if schema and schema.keys() - {"type"} and schema.get("properties") != {}:
        # The parameters must be an object, with an explicit type.
        typed = schema if "type" in schema else {"type": "object", **schema}
        function["parametersJsonSchema"] = typed
    return function


def _tool_config(plan: Plan, quirks: GeminiQuirks) -> Document:
    choice = plan.tool_choice
    calling: Document = {}
    if choice.mode != "auto":
        calling["mode"] = _CALLING_MODES[choice.mode]
    if choice.mode == "function" and choice.name is not None:
        calling["allowedFunctionNames"] = [function_name(choice.name)]
    if quirks.stream_arguments:
        calling["streamFunctionCallArguments"] = True
    return {"functionCallingConfig": calling} if calling else {}


# --- generationConfig -----------------------------------------------------------------------------


def _generation_config(plan: Plan, quirks: GeminiQuirks) -> Document:
    given = {field: plan.parameters.get(name) for name, field in _PARAMETERS.items()}
    config: Document = {field: value for field, value in given.items() if value is not None}
    config |= _response_format(plan, quirks)
    if thinking := _thinking_config(plan, quirks):
        config["thinkingConfig"] = thinking
    return config


def _response_format(plan: Plan, quirks: GeminiQuirks) -> Document:
    if not _has_native_format(plan, quirks):
        return {}
    response_format: Document = {"responseMimeType": "application/json"}
    schema = plan.contract.schema
    if plan.contract.asked != "json_schema" or schema is None:
        return response_format
    if quirks.json_schema and not has_unsupported_reference(schema):
        return {**response_format, "responseJsonSchema": schema}
    return {**response_format, "responseSchema": reduce_response(schema)}


def _thinking_config(plan: Plan, quirks: GeminiQuirks) -> Document:
    if quirks.effort is None:
        return {}
    thinking: Document = {}
    if plan.effort is not None and quirks.effort == "level":
        thinking["thinkingLevel"] = plan.effort
    elif plan.effort is not None and re.fullmatch("-?[0-9]{1,9}", plan.effort):
        thinking["thinkingBudget"] = int(plan.effort)
    if quirks.include_thoughts and thinking.get("thinkingBudget") != 0:
        thinking["includeThoughts"] = True
    return thinking
