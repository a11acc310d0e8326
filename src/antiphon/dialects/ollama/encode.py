"""Encode a plan as an Ollama `/api/chat` request.

The encoding is byte-stable and append-only: `messages` is the last field, and the body of a turn,
up to its closing brackets, is a prefix of the next turn's. Servers read a request into typed fields
and refuse any other type, so arguments are objects, images are base64 and schemas are corrected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from antiphon.core.items import Document
from antiphon.core.plan.plan import Outbound, Plan
from antiphon.core.structured_output.contract import OutputContract
from antiphon.core.tools.declaration import ToolDeclaration
from antiphon.dialects.json_output import encode_in_steps
from antiphon.dialects.ollama.messages import encode_history
from antiphon.dialects.ollama.quirks import PLAIN, OllamaQuirks

PATH = "/api/chat"
_LEVELS = frozenset({"low", "medium", "high", "max"})
_OFF = frozenset({"none", "false", "off"})
_OPTIONS: Mapping[str, str] = {
    "frequency_penalty": "frequency_penalty",
    "max_output_tokens": "num_predict",
    "presence_penalty": "presence_penalty",
    "seed": "seed",
    "stop": "stop",
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
}


def encode(plan: Plan, *, stream: bool, quirks: OllamaQuirks = PLAIN) -> Outbound:
    """Encode a plan as an HTTP request."""
    body: Document = {
        "model": plan.model,
        **quirks.fields,
        **_tools(plan),
        **_format(plan.contract),
        **_think(plan.effort),
        **_options(plan, quirks),
        **_logprobs(plan),
        "stream": stream,  # the default is true
        "messages": encode_history(plan),
    }
    accept = "application/x-ndjson" if stream else "application/json"
    return Outbound(
        path=PATH,
        headers={"content-type": "application/json", "accept": accept},
        body=encode_in_steps(body) if plan.is_large else msgspec.json.encode(body),
    )


def _tools(plan: Plan) -> Document:
    """The tools that may be called. The API has no tool choice, so a choice is a shorter list."""
    choice = plan.tool_choice
    declared = [] if choice.mode == "none" else plan.declarations
    allowed = [tool for tool in declared if choice.mode != "function" or tool.name == choice.name]
    return {"tools": [_tool(tool) for tool in allowed]} if allowed else {}


def _tool(declaration: ToolDeclaration) -> Document:
    function: Document = {"name": declaration.name}
    if declaration.description is not None:
        function["description"] = declaration.description
    parameters = correct_schema(declaration.parameters or {}) | {"type": "object"}
    function["parameters"] = {"properties": {}, **parameters}
    return {"type": "function", "function": function}


def _format(contract: OutputContract) -> Document:
    if contract.asked == "text":
        return {}
    if contract.asked == "json_object":
        return {"format": "json"}
    return {"format": dict(contract.schema or {})}


def _think(effort: str | None) -> Document:
    """A level if the effort is one, else on or off: servers refuse any other level."""
    if effort is None:
        return {}
    return {"think": effort if effort in _LEVELS else effort not in _OFF}


def _options(plan: Plan, quirks: OllamaQuirks) -> Document:
    options = dict(quirks.options)
    for name, value in sorted(plan.parameters.items()):
        if name in _OPTIONS and value is not None:
            options[_OPTIONS[name]] = value
    return {"options": options} if options else {}


def _logprobs(plan: Plan) -> Document:
    if not plan.include_logprobs:
        return {}
    alternatives = plan.parameters.get("top_logprobs")
    return {"logprobs": True, "top_logprobs": alternatives} if alternatives else {"logprobs": True}


_KEYWORD_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "type": (str, list),
    "description": str,
    "enum": list,
    "required": list,
    "properties": Mapping,
    "anyOf": list,
}


def correct_schema(schema: Any) -> Document:
    """Drop known keywords whose values do not have the type that a server reads them into."""
    given = schema if isinstance(schema, Mapping) else {}  # `true` allows anything, and so does {}
    corrected = {
        name: value
        for name, value in given.items()
        if name not in _KEYWORD_TYPES or isinstance(value, _KEYWORD_TYPES[name])
    }
    for name in ("type", "required"):
        if isinstance(corrected.get(name), list):
            corrected[name] = [each for each in corrected[name] if isinstance(each, str)]
    if "properties" in corrected:
        properties = corrected["properties"].items()
        corrected["properties"] = {name: correct_schema(value) for name, value in properties}
    if "anyOf" in corrected:
        corrected["anyOf"] = [correct_schema(value) for value in corrected["anyOf"]]
    return corrected
