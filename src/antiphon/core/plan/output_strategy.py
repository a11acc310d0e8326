"""Output strategy: how a structured output format is requested from this provider.

The first strategy that the provider supports is used:

1. Native: the provider's own parameter for the format.
2. Answer tool: the model must call a tool whose arguments are the answer. Only if the client loses
   nothing by it: its tools stay callable, its own `tool_choice` applies, the model may still think.
3. JSON mode: the provider's parameter for any JSON, and the schema in the instructions.
4. Instructions only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Struct, structs

from antiphon.core.capabilities import Capabilities
from antiphon.core.diagnostic import Code, Diagnostic, degraded, ignored
from antiphon.core.plan.declare_tools import DeclaredTools
from antiphon.core.plan.effort import thinks
from antiphon.core.plan.parameters import find_update, subject_of
from antiphon.core.plan.parse_tool import open_objects
from antiphon.core.plan.plan import Notes
from antiphon.core.request import Request
from antiphon.core.structured_output.contract import (
    WRAPPER,
    FormatKind,
    OutputContract,
    check_schema,
)
from antiphon.core.tools.declaration import ToolChoice, ToolDeclaration
from antiphon.core.tools.naming import hashed_name, provider_name
from antiphon.errors import InvalidRequest

_TEXT_FORMAT = {"type": "text"}
_TEXT = OutputContract(requested="text", asked="text")


class OutputStrategy(Struct, frozen=True, kw_only=True):
    """The output contract, and the tools of the request, with the answer tool if there is one."""

    contract: OutputContract
    tools: DeclaredTools
    text_format: Mapping[str, Any] = MappingProxyType({"type": "text"})
    """The format as it was requested, by the request or by an item of the input."""


def decide_output(
    request: Request,
    items: Sequence[Mapping[str, Any]],
    tools: DeclaredTools,
    effort: str | None,
    capabilities: Capabilities,
    notes: Notes,
) -> OutputStrategy:
    """Choose the output strategy. An invalid format is an error of the request's own format, but
    only a diagnostic where an item of the history has set it."""
    own = request.format_param
    param, form = find_update(items, "text", "format") or (own, request.text_format)
    if form == _TEXT_FORMAT:
        return OutputStrategy(contract=_TEXT, tools=tools)
    try:
        schema_param = request.schema_param if param == own else f"{param}.schema"
        contract = _read_format(param, schema_param, form)
    except InvalidRequest as error:
        if param == own:
            raise
        invalid = error.param or param
        message = f"{error.message} Ignored; the request's own `{own}` applies."
        notes.append(ignored(Code.FORMAT_IGNORED, invalid, message, subject_of(invalid)))
        param = own
        form = request.text_format
        contract = _read_format(param, request.schema_param, form)
    strategy = choose_output_strategy(contract, param, tools, effort, capabilities, notes)
    return structs.replace(strategy, text_format=form)


def _read_format(param: str, schema_param: str, form: Any) -> OutputContract:
    """Read a format; the parameters name where it and its schema were requested."""
    named = subject_of(param)
    match form:
        case {"type": "text" | "json_object" as kind}:
            return OutputContract(param=named, requested=kind)
        case {"type": "json_schema"}:
            schema = _read_schema(schema_param, form)
            return OutputContract(param=named, requested="json_schema", **schema)
    kind = form.get("type") if isinstance(form, Mapping) else None
    raise InvalidRequest(
        f"`{param}.type` must be 'text', 'json_object' or 'json_schema', not {kind!r}.",
        param=f"{param}.type",
    )


def _read_schema(param: str, form: Mapping[str, Any]) -> dict[str, Any]:
    schema = form.get("schema")
    problem = check_schema(schema) if isinstance(schema, Mapping) else "it is not an object"
    if problem is not None:
        raise InvalidRequest(
            f"`{param}` is not a supported JSON Schema: {problem}.",
            param=param,
            code="invalid_json_schema",
        )
    return {
        "name": form.get("name") or "",
        "description": form.get("description"),
        "schema": schema,
        "strict": form.get("strict"),
    }


def choose_output_strategy(
    contract: OutputContract,
    param: str,
    tools: DeclaredTools,
    effort: str | None,
    capabilities: Capabilities,
    notes: Notes,
) -> OutputStrategy:
    """Choose the strategy for the requested format; `param` is where it was requested."""
    formats = _native_formats(tools, capabilities)
    if contract.requested in formats:
        native = structs.replace(contract, asked=contract.requested)
        return OutputStrategy(contract=native, tools=tools)
    problem = f"Output format {contract.requested!r} is not supported by {capabilities.model_name}"
    if contract.requested == "json_object":
        return _use_instructions(contract, "text", param, tools, problem, notes)
    tool = _build_answer_tool(contract, tools, effort, capabilities)
    if isinstance(tool, str):
        fallback: FormatKind = "json_object" if "json_object" in formats else "text"
        problem += f", and no answer tool can be used ({tool})"
        return _use_instructions(contract, fallback, param, tools, problem, notes)
    message = f"{problem}; the model must call an answer tool instead. The output is validated."
    notes.append(_degraded(param, message))
    return _use_answer_tool(contract, tool, tools, capabilities)


def _native_formats(tools: DeclaredTools, capabilities: Capabilities) -> frozenset[str]:
    """The formats that the provider supports in this request; it always supports text."""
    no_tools = not tools.declarations and not tools.native_tools
    supported = (
        capabilities.formats if no_tools or capabilities.formats_beside_tools else frozenset()
    )
    return supported | {"text"}


def _use_instructions(
    contract: OutputContract,
    native: FormatKind,
    param: str,
    tools: DeclaredTools,
    problem: str,
    notes: Notes,
) -> OutputStrategy:
    how = (
        "the format is described in the instructions"
        if native == "text"
        else "JSON mode is used, with the schema in the instructions"
    )
    notes.append(_degraded(param, f"{problem}; {how}. The output is validated."))
    return OutputStrategy(contract=structs.replace(contract, asked=native), tools=tools)


def _degraded(param: str, message: str) -> Diagnostic:
    return degraded(Code.FORMAT_DEGRADED, f"{param}.type", message, subject_of(f"{param}.type"))


# The answer tool


def _use_answer_tool(
    contract: OutputContract,
    tool: ToolDeclaration,
    tools: DeclaredTools,
    capabilities: Capabilities,
) -> OutputStrategy:
    by_name = not tools.declarations and "function" in capabilities.tool_choice
    choice = ToolChoice("function", tool.name) if by_name else ToolChoice("required")
    declarations = (*tools.declarations, tool)
    return OutputStrategy(
        contract=structs.replace(contract, tool=tool.name, wrapped=not _is_object(contract)),
        tools=structs.replace(tools, declarations=declarations, tool_choice=choice),
    )


def _build_answer_tool(
    contract: OutputContract, tools: DeclaredTools, effort: str | None, capabilities: Capabilities
) -> ToolDeclaration | str:
    """Build the answer tool, or return why none can be used."""
    obstacle = _find_obstacle(tools, capabilities, thinking=thinks(effort, capabilities))
    if obstacle is not None:
        return obstacle
    name = _find_free_name(contract, tools)
    parameters = _build_parameters(contract)
    if name is None or parameters is None:
        return "the schema cannot be the parameters of a tool"
    about = f" ({contract.description})" if contract.description else ""
    return ToolDeclaration(
        name=name,
        description=f"Gives the final answer{about}: its arguments are that answer, as JSON."
        " Call it once, when everything else is done.",
        parameters=parameters if capabilities.closed_objects else open_objects(parameters),
        strict=True if _is_strict(contract, tools, capabilities) else None,
    )


def _is_strict(contract: OutputContract, tools: DeclaredTools, capabilities: Capabilities) -> bool:
    if capabilities.strict_together and tools.declarations:  # all tools or none
        return all(tool.strict for tool in tools.declarations)
    return bool(contract.strict) and capabilities.strict_tools


def _find_obstacle(
    tools: DeclaredTools, capabilities: Capabilities, *, thinking: bool
) -> str | None:
    """Why the model cannot be made to call an answer tool."""
    # With `function` the client's own tools could not be called any more.
    modes = {"required"} if tools.declarations else {"required", "function"}
    obstacles = {
        "tools are not supported": not capabilities.tools,
        "the request has its own `tool_choice`": tools.tool_choice.mode != "auto",
        "the provider's own tools could be called instead": bool(tools.native_tools),
        "there are too many tools": len(tools.declarations) >= capabilities.max_tools,
        "a tool call cannot be forced": not modes & capabilities.tool_choice,
        "a forced call disables thinking": thinking and capabilities.forced_choice_stops_thinking,
    }
    return next((obstacle for obstacle, applies in obstacles.items() if applies), None)


def _find_free_name(contract: OutputContract, tools: DeclaredTools) -> str | None:
    """A tool name derived from the format's name, so that it stays the same from turn to turn."""
    name = f"answer_{contract.name}" if contract.name else "answer"
    candidates = (provider_name(name), hashed_name(name))
    return next((each for each in candidates if each not in tools.identities), None)


def _is_object(contract: OutputContract) -> bool:
    return contract.schema is not None and contract.schema.get("type") == "object"


def _build_parameters(contract: OutputContract) -> Mapping[str, Any] | None:
    """The schema of an object, or an object around another schema; None if it has references that
    would break by being moved."""
    schema = contract.schema or {}
    if _is_object(contract):
        return schema
    if _ROOT_REFERENCE.search(msgspec.json.encode(schema)):
        return None
    shared = {name: schema[name] for name in _SHARED if name in schema}
    inner = {name: value for name, value in schema.items() if name not in _NOT_MOVED}
    return {
        "type": "object",
        "properties": {WRAPPER: inner},
        "required": [WRAPPER],
        "additionalProperties": False,
        **shared,
    }


_SHARED = ("$defs", "definitions")
_NOT_MOVED = frozenset({*_SHARED, "$schema"})
_ROOT_REFERENCE = re.compile(
    rb'"\$(?:id|anchor|dynamicRef|dynamicAnchor|recursiveRef|recursiveAnchor)":'
    rb'|"\$ref":"(?!#/(?:\$defs|definitions)/)'
)
"""A keyword that defines or uses a location, except references to definitions, which stay at the
root."""
