"""Chat Completions encoder: a plan becomes the bytes of a request.

The output is byte-stable and append-only. The same plan always gives the same bytes, and `messages`
come last: the body of a turn, up to its closing brackets, is a prefix of the next turn's body, so
that a provider's prompt cache keeps matching.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from antiphon.core.items import Document
from antiphon.core.plan.plan import Outbound, Plan
from antiphon.core.structured_output.contract import OutputContract
from antiphon.core.tools.declaration import ToolChoice, ToolDeclaration
from antiphon.dialects.chat.messages import write_messages
from antiphon.dialects.chat.quirks import PLAIN, ChatQuirks
from antiphon.dialects.json_output import encode_in_steps

PATH = "/chat/completions"
_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}


def encode(plan: Plan, *, stream: bool, quirks: ChatQuirks = PLAIN) -> Outbound:
    stream = stream or quirks.only_streams
    body: Document = {"model": plan.model, **quirks.fields}
    if plan.declarations or plan.native_tools:
        body |= _tools(plan, quirks)
    if plan.contract.asked != "text":
        body |= _response_format(plan.contract)
    if plan.parameters or plan.include_logprobs:
        body |= _parameters(plan, quirks)
    if plan.effort is not None:
        body |= _effort(plan.effort, quirks)
    if stream:
        body |= _streaming(quirks)
    body["messages"] = write_messages(plan, quirks)
    if quirks.patch is not None:
        body = quirks.patch(body, plan)
        body["messages"] = body.pop("messages")  # last, whatever the patch has added
    accept = "text/event-stream" if stream else "application/json"
    return Outbound(
        path=PATH,
        headers={"content-type": "application/json", "accept": accept},
        body=encode_in_steps(body) if plan.is_large else msgspec.json.encode(body),
    )


def _tools(plan: Plan, quirks: ChatQuirks) -> Document:
    declared = [_tool(declaration, quirks) for declaration in plan.declarations]
    tools = [*declared, *map(dict, plan.native_tools)]
    choice = _tool_choice(plan.tool_choice, quirks)
    return {"tools": tools} if choice is None else {"tools": tools, "tool_choice": choice}


def _tool(declaration: ToolDeclaration, quirks: ChatQuirks) -> Document:
    function: Document = {"name": declaration.name}
    if declaration.description is not None:
        function["description"] = declaration.description
    # Without `parameters` it would mean the same, but not every server accepts that.
    schema = declaration.parameters or _NO_PARAMETERS
    function["parameters"] = {
        name: value for name, value in schema.items() if name not in quirks.schema_drops
    }
    if declaration.strict is not None:
        function["strict"] = declaration.strict
    return {"type": "function", "function": function}


def _tool_choice(choice: ToolChoice, quirks: ChatQuirks) -> str | Document | None:
    if choice.mode == "function":
        return {"type": "function", "function": {"name": choice.name}}
    values = {"required": quirks.required_choice, "auto": quirks.free_choice}
    return values.get(choice.mode, choice.mode)


def _response_format(contract: OutputContract) -> Document:
    if contract.asked == "json_object":
        return {"response_format": {"type": "json_object"}}
    schema: Document = {"name": contract.name}
    if contract.description is not None:
        schema["description"] = contract.description
    schema["schema"] = dict(contract.schema or {})
    if contract.strict is not None:
        schema["strict"] = contract.strict
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def _parameters(plan: Plan, quirks: ChatQuirks) -> Document:
    """The supported parameters under their Chat names; those without one keep their own."""
    fields: Mapping[str, str | None] = {
        "max_output_tokens": quirks.max_tokens_field,
        "prefill": None,  # the last message is the begin of the response; `patch` may mark it
        "safety_identifier": quirks.user_field,
        "seed": quirks.seed_field,
        "user": quirks.user_field,  # deprecated; sorted after `safety_identifier`, which wins
    }
    body: Document = {}
    for name, value in sorted(plan.parameters.items()):
        field = fields.get(name, name)
        if field is not None and value is not None:
            body.setdefault(field, value)
    if not body.get("top_logprobs"):
        body.pop("top_logprobs", None)
    if plan.include_logprobs or "top_logprobs" in body:
        body["logprobs"] = True
    return body


def _effort(effort: str, quirks: ChatQuirks) -> Document:
    if quirks.effort_field is None:
        return {}
    if effort == "none" and quirks.thinking_off is not None:
        return {**quirks.thinking_off}
    outer, _, inner = quirks.effort_field.partition(".")
    return {**quirks.thinking_on, outer: {inner: effort} if inner else effort}


def _streaming(quirks: ChatQuirks) -> Document:
    usage: Document = {"stream_options": {"include_usage": True}} if quirks.stream_usage else {}
    return {"stream": True, **usage}
