"""How the form of an answer is asked for: the best way that this provider has, step by step down.

1. The provider is asked for it, in its own words.
2. The model has to call a tool whose arguments are the answer. Nothing of the client's is lost for
   that: its tools stay callable, its own choice of tools counts, and the model may still think.
3. The provider is asked for JSON, and the model is told the schema.
4. The model is told.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct, structs

from antiphon.core.diagnostic import Code, Decision, Diagnostic
from antiphon.core.plan.plan import Capabilities, ToolChoice, ToolDeclaration
from antiphon.core.planning.declare_tools import Declared
from antiphon.core.planning.effort import thinks
from antiphon.core.planning.parse_tool import open_objects
from antiphon.core.structured_output.contract import FormatKind, OutputContract
from antiphon.core.tools.naming import marked_name, provider_name


class OutputStrategy(Struct, frozen=True, kw_only=True):
    """The contract, and the tools that it is asked for with."""

    contract: OutputContract
    declared: Declared
    diagnostics: tuple[Diagnostic, ...] = ()


def choose_output_strategy(
    contract: OutputContract,
    param: str,
    declared: Declared,
    effort: str | None,
    capabilities: Capabilities,
) -> OutputStrategy:
    """Decide, for a contract that only says what was requested; `param` is where it says so."""
    formats = _formats(declared, capabilities)
    if contract.requested in formats:
        native = structs.replace(contract, asked=contract.requested)
        return OutputStrategy(contract=native, declared=declared)
    if contract.requested == "json_object":
        return _told(contract, "text", param, declared, "")
    tool = _answer_tool(contract, declared, effort, capabilities)
    if isinstance(tool, str):
        weaker: FormatKind = "json_object" if "json_object" in formats else "text"
        return _told(contract, weaker, param, declared, f", and no tool can be forced ({tool})")
    return _by_tool(contract, tool, param, declared, capabilities)


def _formats(declared: Declared, capabilities: Capabilities) -> frozenset[str]:
    """What the provider can be asked for in this request; text goes without saying."""
    alone = not declared.declarations and not declared.native_tools
    able = capabilities.formats if alone or capabilities.formats_beside_tools else frozenset()
    return able | {"text"}


def _told(
    contract: OutputContract, asked: FormatKind, param: str, declared: Declared, why: str
) -> OutputStrategy:
    how = "the model is told" if asked == "text" else "JSON is asked for, the model told the schema"
    return OutputStrategy(
        contract=structs.replace(contract, asked=asked),
        declared=declared,
        diagnostics=(_weaker(contract, param, f"{why}: {how}, and the answer checked."),),
    )


def _weaker(contract: OutputContract, param: str, how: str) -> Diagnostic:
    return Diagnostic(
        code=Code.FORMAT_DEGRADED,
        decision=Decision.DEGRADED,
        param=f"{param}.type",
        message=f"The provider cannot be asked for {contract.requested}{how}",
        subject="text.format.type",
    )


# The tool that is called with the answer

WRAPPER = "value"
"""The one field of its arguments, where the answer itself is no object."""


def _by_tool(
    contract: OutputContract,
    tool: ToolDeclaration,
    param: str,
    declared: Declared,
    capabilities: Capabilities,
) -> OutputStrategy:
    named = not declared.declarations and "function" in capabilities.tool_choice
    choice = ToolChoice("function", tool.name) if named else ToolChoice("required")
    tools = (*declared.declarations, tool)
    how = ": the model has to call a tool with its answer, and the answer is checked."
    return OutputStrategy(
        contract=structs.replace(contract, tool=tool.name, wrapped=not _is_object(contract)),
        declared=structs.replace(declared, declarations=tools, tool_choice=choice),
        diagnostics=(_weaker(contract, param, how),),
    )


def _answer_tool(
    contract: OutputContract, declared: Declared, effort: str | None, capabilities: Capabilities
) -> ToolDeclaration | str:
    """The tool, or why there can be none."""
    obstacle = _obstacle(declared, capabilities, thinking=thinks(effort, capabilities))
    if obstacle is not None:
        return obstacle
    name = _free_name(contract, declared)
    parameters = _parameters(contract)
    if name is None or parameters is None:
        return "the format cannot be told as one"
    about = f" ({contract.description})" if contract.description else ""
    return ToolDeclaration(
        name=name,
        description=f"Gives the final answer{about}: its arguments are that answer, as JSON."
        " Call it once, when everything else is done.",
        parameters=parameters if capabilities.closed_objects else open_objects(parameters),
        strict=True if _is_strict(contract, declared, capabilities) else None,
    )


def _is_strict(contract: OutputContract, declared: Declared, capabilities: Capabilities) -> bool:
    if capabilities.strict_together and declared.declarations:  # do as the others do
        return all(tool.strict for tool in declared.declarations)
    return bool(contract.strict) and capabilities.strict_tools


def _obstacle(declared: Declared, capabilities: Capabilities, *, thinking: bool) -> str | None:
    beside = bool(declared.declarations)  # they have to stay callable
    words = {"required"} if beside else {"required", "function"}
    obstacles = {
        "the model takes none": not capabilities.tools,
        "the request has a choice of its own": declared.tool_choice.mode != "auto",
        "the provider's own tools would do": bool(declared.native_tools),
        "there are too many": len(declared.declarations) >= capabilities.max_tools,
        "the provider cannot be told to": not words & capabilities.tool_choice,
        "the model would not think": thinking and capabilities.forced_choice_stops_thinking,
    }
    return next((why for why, is_so in obstacles.items() if is_so), None)


def _free_name(contract: OutputContract, declared: Declared) -> str | None:
    """A name made from the format's, so that it stays the same from turn to turn."""
    name = f"answer_{contract.name}" if contract.name else "answer"
    candidates = (provider_name(name), marked_name(name))
    return next((each for each in candidates if each not in declared.identities), None)


def _is_object(contract: OutputContract) -> bool:
    return contract.schema is not None and contract.schema.get("type") == "object"


def _parameters(contract: OutputContract) -> Mapping[str, Any] | None:
    """The schema, or one of an object around it; None if it refers to what would then move."""
    schema = contract.schema or {}
    if _is_object(contract):
        return schema
    if _ROOTED.search(msgspec.json.encode(schema)):
        return None
    shared = {name: schema[name] for name in _SHARED if name in schema}
    inner = {name: value for name, value in schema.items() if name not in _APART}
    return {
        "type": "object",
        "properties": {WRAPPER: inner},
        "required": [WRAPPER],
        "additionalProperties": False,
        **shared,
    }


_SHARED = ("$defs", "definitions")
_APART = frozenset({*_SHARED, "$schema"})
_ROOTED = re.compile(
    rb'"\$(?:id|anchor|dynamicRef|dynamicAnchor|recursiveRef|recursiveAnchor)":'
    rb'|"\$ref":"(?!#/(?:\$defs|definitions)/)'
)
"""A word that says where something is, unless that is a place which does not move."""
