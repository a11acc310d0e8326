"""Amazon Bedrock Converse encoder: a plan becomes the bytes of a request.

The output is byte-stable and append-only: `messages` come last, and the body of a turn, up to its
closing brackets, is a prefix of the next turn's. Only cache points may move; the service does not
compare them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from antiphon.core.items import Document
from antiphon.core.plan.plan import Outbound, Plan
from antiphon.core.tools.declaration import ToolChoice, ToolDeclaration
from antiphon.dialects.anthropic.schema import input_schema, output_schema
from antiphon.dialects.bedrock.media import text_block
from antiphon.dialects.bedrock.messages import (
    CACHE_POINT,
    add_cache_points,
    list_called_tools,
    resumes_without_reasoning,
    write_messages,
)
from antiphon.dialects.bedrock.quirks import PLAIN, BedrockQuirks
from antiphon.dialects.bedrock.sigv4 import percent_encode
from antiphon.dialects.json_output import encode_in_steps
from antiphon.dialects.message_writer import leading_instructions
from antiphon.dialects.reasoning import thinking_budget

_SERVICE_TIERS = frozenset({"default", "flex", "priority"})
_PLAIN_KEYWORDS = frozenset({"type", "properties", "required", "$defs", "definitions"})
"""What a model needs that accepts no more, and what references in it need."""
_NO_CALLS = "Answer without calling any tool."


def encode(plan: Plan, *, stream: bool, quirks: BedrockQuirks = PLAIN) -> Outbound:
    quirks = quirks.of(plan.model)
    messages = write_messages(plan, separate_tool_messages=quirks.separate_tool_messages)
    thinking = _thinking(plan, quirks, messages)
    called = list_called_tools(messages)
    offered = _offered_tools(plan, quirks)
    # A history with calls requires tools; where none may be called, the system prompt says so.
    forbid_calls = bool(called) and (plan.tool_choice.mode == "none" or not offered)
    body: Document = {
        **_additional_fields(plan, quirks, thinking),
        **_inference_config(plan, quirks, thinking),
        **_output_config(plan, quirks),
        **_service_tier(plan),
        **_tool_config(plan, offered, called),
        **_system(plan, quirks, forbid_calls=forbid_calls),
        "messages": add_cache_points(messages) if quirks.caching else messages,
    }
    if quirks.patch is not None:
        body = quirks.patch(body, plan)
    body["messages"] = body.pop("messages")  # last, whatever a patch has added
    # The colon stays unescaped: some HTTP clients would unescape it and break the signature.
    path = f"/model/{percent_encode(plan.model, safe=':')}/converse"
    return Outbound(
        path=f"{path}-stream" if stream else path,
        headers={
            "content-type": "application/json",
            "accept": "application/vnd.amazon.eventstream" if stream else "application/json",
        },
        body=encode_in_steps(body) if plan.is_large else msgspec.json.encode(body),
    )


# --- thinking -------------------------------------------------------------------------------------


def _thinking(plan: Plan, quirks: BedrockQuirks, messages: Sequence[Document]) -> Document:
    """The fields that enable or disable thinking, under the model's own names."""
    if plan.effort is None or quirks.thinking == "none":
        return {}
    if quirks.thinking == "effort":
        return {"reasoning_effort": plan.effort}
    if quirks.thinking == "config":
        if plan.effort == "none":
            return {"reasoningConfig": {"type": "disabled"}}
        return {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": plan.effort}}
    # The plan disables thinking where its request rules it out. Later rounds may force a call or
    # resume a turn without reasoning, which rule it out as well.
    if plan.effort == "none" or plan.tool_choice.mode in ("required", "function"):
        return {"thinking": {"type": "disabled"}}
    if quirks.thinking == "adaptive":
        display: Document = {} if quirks.display is None else {"display": quirks.display}
        return {
            "thinking": {"type": "adaptive", **display},
            "output_config": {"effort": plan.effort},
        }
    budget = thinking_budget(plan.effort, plan.parameters.get("max_output_tokens"))
    if budget is None or resumes_without_reasoning(messages):
        return {"thinking": {"type": "disabled"}}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _is_thinking(thinking: Document) -> bool:
    config = thinking.get("thinking") or thinking.get("reasoningConfig")
    return config is not None and config["type"] != "disabled"


def _additional_fields(plan: Plan, quirks: BedrockQuirks, thinking: Document) -> Document:
    fields = dict(thinking)
    top_k = plan.parameters.get("top_k")
    if top_k is not None and quirks.sampling != "none" and not _is_thinking(thinking):
        fields["top_k"] = top_k
    single = plan.parameters.get("parallel_tool_calls") is False and plan.tool_choice.mode == "auto"
    if single and quirks.parallel_switch and plan.declarations:
        fields["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}
    return {"additionalModelRequestFields": fields} if fields else {}


# --- sampling and output format -------------------------------------------------------------------


def _inference_config(plan: Plan, quirks: BedrockQuirks, thinking: Document) -> Document:
    given = plan.parameters
    max_tokens = given.get("max_output_tokens") or _default_max_tokens(quirks, thinking)
    values: Document = {"maxTokens": max_tokens, "stopSequences": given.get("stop") or None}
    if quirks.sampling != "none" and not _is_thinking(thinking):
        temperature = given.get("temperature")
        top_p = given.get("top_p")
        values["temperature"] = None if temperature is None else min(temperature, 1)
        both = quirks.sampling == "both" or temperature is None
        values["topP"] = top_p if both else None
    match thinking:
        case {"reasoningConfig": {"maxReasoningEffort": "high"}}:
            del values["maxTokens"]  # refused with this effort: the model sets its own limit
    known = {name: value for name, value in values.items() if value is not None}
    return {"inferenceConfig": known} if known else {}


def _default_max_tokens(quirks: BedrockQuirks, thinking: Document) -> int | None:
    match thinking:
        case {"thinking": {"budget_tokens": int(budget)}}:
            return budget + quirks.output_tokens
    return None


def _uses_native_format(plan: Plan, quirks: BedrockQuirks) -> bool:
    return quirks.native_format and plan.contract.asked == "json_schema"


def _output_config(plan: Plan, quirks: BedrockQuirks) -> Document:
    if not _uses_native_format(plan, quirks):
        return {}
    contract = plan.contract
    schema = msgspec.json.encode(output_schema(contract.schema or {})).decode()
    json_schema: Document = {"schema": schema, "name": contract.name or "answer"}
    if contract.description:
        json_schema["description"] = contract.description
    text_format = {"type": "json_schema", "structure": {"jsonSchema": json_schema}}
    return {"outputConfig": {"textFormat": text_format}}


def _service_tier(plan: Plan) -> Document:
    tier = plan.parameters.get("service_tier")
    return {"serviceTier": {"type": tier}} if tier in _SERVICE_TIERS else {}


# --- tools ----------------------------------------------------------------------------------------


def _offered_tools(plan: Plan, quirks: BedrockQuirks) -> list[Document]:
    tools = [_tool(declaration, quirks) for declaration in plan.declarations]
    if plan.native_tools and quirks.web_search is not None:
        tools.append({"systemTool": {"name": quirks.web_search}})
    return tools


def _tool_config(plan: Plan, offered: list[Document], called: Sequence[str]) -> Document:
    """Converse has no choice `none`: the tools are left out, unless the history has calls."""
    if plan.tool_choice.mode == "none" and not called:
        return {}
    tools = offered or [_tool(ToolDeclaration(name=name)) for name in called]
    return {"toolConfig": {"tools": tools, **_tool_choice(plan.tool_choice)}} if tools else {}


def _tool(declaration: ToolDeclaration, quirks: BedrockQuirks = PLAIN) -> Document:
    spec: Document = {"name": declaration.name}
    if declaration.description and declaration.description.strip():
        spec["description"] = declaration.description
    schema = input_schema(declaration.parameters)
    if quirks.plain_schemas:
        schema = {name: value for name, value in schema.items() if name in _PLAIN_KEYWORDS}
    spec["inputSchema"] = {"json": output_schema(schema) if declaration.strict else schema}
    return {"toolSpec": {**spec, "strict": True} if declaration.strict else spec}


def _tool_choice(choice: ToolChoice) -> Mapping[str, Any]:
    """`auto` is the default and is left out: not every model accepts it explicitly."""
    if choice.mode == "function":
        return {"toolChoice": {"tool": {"name": choice.name}}}
    return {"toolChoice": {"any": {}}} if choice.mode == "required" else {}


# --- the system prompt ----------------------------------------------------------------------------


def _system(plan: Plan, quirks: BedrockQuirks, *, forbid_calls: bool) -> Document:
    """The system prompt, the same in every turn."""
    contract = plan.contract
    if not _uses_native_format(plan, quirks):
        contract = msgspec.structs.replace(contract, asked="text")
    texts = [plan.instructions, *leading_instructions(plan.history), contract.instruction()]
    if forbid_calls:
        texts.append(_NO_CALLS)
    blocks: list[Mapping[str, Any]] = [text_block(text) for text in texts if text and text.strip()]
    if not blocks:
        return {}
    return {"system": [*blocks, CACHE_POINT] if quirks.caching else blocks}
