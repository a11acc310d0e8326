"""Encode a plan as a Cohere chat request (`/v2/chat`).

The encoding is byte-stable and append-only: `messages` is the last field, and the body of a turn,
up to its closing brackets, is a prefix of the next turn's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from antiphon.core.items import Document
from antiphon.core.plan.plan import Outbound, Plan
from antiphon.core.tools.declaration import ToolDeclaration
from antiphon.dialects.cohere.messages import THINKING_OFF, encode_history
from antiphon.dialects.cohere.quirks import PLAIN, CohereQuirks
from antiphon.dialects.json_output import encode_in_steps

PATH = "/v2/chat"
_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}


class _ParameterRange(Struct, frozen=True):
    """The provider's name of a parameter, and the values that it accepts."""

    field: str
    minimum: float = 0
    maximum: float = 1


_PARAMETERS: Mapping[str, _ParameterRange] = {
    "frequency_penalty": _ParameterRange("frequency_penalty"),
    "max_output_tokens": _ParameterRange("max_tokens", 1, 2**31 - 1),
    "presence_penalty": _ParameterRange("presence_penalty"),
    "seed": _ParameterRange("seed", 0, 2**64 - 1),
    "temperature": _ParameterRange("temperature"),
    "top_k": _ParameterRange("k", 0, 500),
    "top_p": _ParameterRange("p", 0.01, 0.99),
}


def encode(plan: Plan, *, stream: bool, quirks: CohereQuirks = PLAIN) -> Outbound:
    """Encode a plan as an HTTP request."""
    tools = _tools(plan)
    body: Document = {
        "model": plan.model,
        **quirks.fields,
        **tools,
        **({} if tools else _response_format(plan)),
        **_parameters(plan),
        **_thinking(plan, quirks),
        "stream": stream,
        "messages": encode_history(plan, quirks, _instructions(plan, tools)),
    }
    accept = "text/event-stream" if stream else "application/json"
    return Outbound(
        path=PATH,
        headers={"content-type": "application/json", "accept": accept},
        body=encode_in_steps(body) if plan.is_large else msgspec.json.encode(body),
    )


def _instructions(plan: Plan, tools: Document) -> Iterator[Document]:
    """One system message before all others; it is the same in every turn."""
    contract = plan.contract
    if tools:  # `response_format` is refused beside tools
        contract = msgspec.structs.replace(contract, asked="text")
    texts = [text for text in (plan.instructions, contract.instruction()) if text and text.strip()]
    if texts:
        yield {"role": "system", "content": "\n\n".join(texts)}


def _tools(plan: Plan) -> Document:
    """Tools and tool choice. To force one tool, only that tool is declared."""
    choice = plan.tool_choice
    declared = [
        tool for tool in plan.declarations if choice.mode != "function" or tool.name == choice.name
    ]
    if not declared:
        return {}
    body: Document = {"tools": [_tool(tool) for tool in declared]}
    if all(map(_is_strict, declared)):
        body["strict_tools"] = True
    if choice.mode != "auto":
        body["tool_choice"] = "NONE" if choice.mode == "none" else "REQUIRED"
    return body


def _tool(declaration: ToolDeclaration) -> Document:
    function: Document = {"name": declaration.name}
    if declaration.description is not None:
        function["description"] = declaration.description
    function["parameters"] = dict(declaration.parameters or _NO_PARAMETERS)
    return {"type": "function", "function": function}


def _is_strict(tool: ToolDeclaration) -> bool:
    """`strict_tools` is for all tools or none, and each must have a required parameter."""
    return bool(tool.strict and tool.parameters and tool.parameters.get("required"))


def _response_format(plan: Plan) -> Document:
    contract = plan.contract
    if contract.asked == "text":
        return {}
    schema = {"json_schema": dict(contract.schema or {})} if contract.asked != "json_object" else {}
    return {"response_format": {"type": "json_object", **schema}}


def _parameters(plan: Plan) -> Document:
    """The supported parameters, clamped: a value out of range would be refused."""
    body: Document = {}
    for name, value in sorted(plan.parameters.items()):
        known = _PARAMETERS.get(name)
        if known is not None and value is not None:
            body[known.field] = min(max(value, known.minimum), known.maximum)
    if stop := plan.parameters.get("stop"):
        body["stop_sequences"] = list(stop)
    return body


def _thinking(plan: Plan, quirks: CohereQuirks) -> Document:
    if plan.effort is None:
        return {}
    if plan.effort in THINKING_OFF:
        return {"thinking": {"type": "disabled"}}
    asked = int(plan.effort) if plan.effort.isdecimal() else None
    budget = quirks.budgets.get(plan.effort, asked)
    budget_field = {} if budget is None else {"token_budget": budget}
    return {"thinking": {"type": "enabled", **budget_field}}
