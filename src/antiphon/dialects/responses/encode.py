"""Encode a plan as a Responses API request.

The provider stores nothing: `store` is always false, and every request contains the whole history.
The encoding is byte-stable and append-only, with `input` as the last field: the body of a turn, up
to its closing brackets, is a prefix of the next turn's body, so that the provider's prompt cache
stays valid.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from antiphon.core.items import Document
from antiphon.core.plan.plan import Outbound, Plan
from antiphon.core.structured_output.contract import OutputContract
from antiphon.core.tools.declaration import ToolChoice, ToolDeclaration
from antiphon.dialects.json_output import encode_in_steps
from antiphon.dialects.responses.messages import encode_history
from antiphon.dialects.responses.quirks import PLAIN, ResponsesQuirks
from antiphon.dialects.responses.schema import function_parameters

PATH = "/responses"
_NO_INPUT: Mapping[str, Any] = {  # every server refuses an empty `input`
    "type": "message",
    "role": "user",
    "content": [{"type": "input_text", "text": "[no input]"}],
}
# Parameters that belong to another field.
_PARENT_FIELDS: Mapping[str, str] = {
    "summary": "reasoning",
    "generate_summary": "reasoning",
    "context": "reasoning",
    "mode": "reasoning",
    "verbosity": "text",
}


def encode(plan: Plan, *, stream: bool, quirks: ResponsesQuirks = PLAIN) -> Outbound:
    """Encode a plan as an HTTP request."""
    body: Document = {
        "model": plan.model,
        **_instructions(plan),
        **_tools(plan),
        **_settings(plan),
        **_include(plan, quirks),
        "store": False,
        "stream": stream,
        "input": list(encode_history(plan, quirks)) or [_NO_INPUT],
    }
    if quirks.patch is not None:
        body = quirks.patch(body, plan)
    body["input"] = body.pop("input")  # last, whatever a patch has added
    accept = "text/event-stream" if stream else "application/json"
    return Outbound(
        path=PATH,
        headers={"content-type": "application/json", "accept": accept},
        body=encode_in_steps(body) if plan.is_large else msgspec.json.encode(body),
    )


def _instructions(plan: Plan) -> Document:
    texts = [text for text in (plan.instructions, plan.contract.instruction()) if text]
    return {"instructions": "\n\n".join(texts)} if texts else {}


def _tools(plan: Plan) -> Document:
    tools = [*map(_tool, plan.declarations), *map(dict, plan.native_tools)]
    return {"tools": tools, "tool_choice": _tool_choice(plan.tool_choice)} if tools else {}


def _tool(declaration: ToolDeclaration) -> Document:
    tool: Document = {"type": "function", "name": declaration.name}
    if declaration.description is not None:
        tool["description"] = declaration.description
    tool["parameters"] = function_parameters(declaration.parameters)
    if declaration.strict is not None:
        tool["strict"] = declaration.strict
    return tool


def _tool_choice(choice: ToolChoice) -> str | Document:
    return {"type": "function", "name": choice.name} if choice.mode == "function" else choice.mode


def _settings(plan: Plan) -> Document:
    """Parameters under their own names, with those of reasoning and text inside these fields."""
    settings: Document = {}
    for name, value in sorted(plan.parameters.items()):
        if value is not None:
            parent = _PARENT_FIELDS.get(name)
            fields = settings if parent is None else settings.setdefault(parent, {})
            fields[name] = value
    if plan.effort is not None:
        settings.setdefault("reasoning", {})["effort"] = plan.effort
    if plan.contract.asked != "text":
        settings.setdefault("text", {})["format"] = _text_format(plan.contract)
    return settings


def _text_format(contract: OutputContract) -> Document:
    if contract.asked == "json_object":
        return {"type": "json_object"}
    text_format: Document = {"type": "json_schema", "name": contract.name}
    if contract.description is not None:
        text_format["description"] = contract.description
    text_format["schema"] = dict(contract.schema or {})
    if contract.strict is not None:
        text_format["strict"] = contract.strict
    return text_format


def _include(plan: Plan, quirks: ResponsesQuirks) -> Document:
    """Optional output. A model without reasoning refuses a request for encrypted reasoning."""
    include = [*plan.include]
    if quirks.sealed_reasoning and plan.replay_reasoning != "never":
        include.append("reasoning.encrypted_content")
    if plan.include_logprobs:
        include.append("message.output_text.logprobs")
    return {"include": include} if include else {}
