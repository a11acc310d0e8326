"""Amazon Bedrock's Converse, the writing half: a plan becomes the bytes of a request.

Rendering is byte-stable and append-only: `messages` stand last, and the body of a turn, up to its
closing brackets, is a prefix of the next turn's. Only markers of the prompt cache may move; they
are no part of what the service compares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from antiphon.core.plan.plan import Outbound, Plan, ToolChoice, ToolDeclaration
from antiphon.dialects.anthropic.schema import input_schema, output_schema
from antiphon.dialects.bedrock.media import text_block
from antiphon.dialects.bedrock.messages import (
    MARK,
    conversation,
    marked,
    resumes_without_thought,
    used_tools,
)
from antiphon.dialects.bedrock.quirks import PLAIN, BedrockQuirks
from antiphon.dialects.message_writer import leading
from antiphon.wire.sigv4 import percent_encode

Body: TypeAlias = dict[str, Any]

_LEAST_BUDGET = 1024
_TIERS = frozenset({"default", "flex", "priority"})
_NO_CALLS = "Answer without calling any tool."


def encode(plan: Plan, *, stream: bool, quirks: BedrockQuirks = PLAIN) -> Outbound:
    """The request that asks the service for what was planned."""
    quirks = quirks.of(plan.model)
    messages = conversation(plan, tools_apart=quirks.tools_apart)
    thinking = _thinking(plan, quirks, messages)
    used, offered = used_tools(messages), _offered(plan, quirks)
    # Tools that are there only because of the past must stay there.
    silent = bool(used) and (plan.tool_choice.mode == "none" or not offered)
    body: Body = {
        **_additional(plan, quirks, thinking),
        **_inference(plan, quirks, thinking),
        **_output(plan, quirks),
        **_tier(plan),
        **_tools(plan, offered, used),
        **_system(plan, quirks, silent=silent),
        "messages": marked(messages) if quirks.caching else messages,
    }
    if quirks.patch is not None:
        body = quirks.patch(body, plan)
    body["messages"] = body.pop("messages")  # last, whatever a patch has added
    # A colon may stay as it is: some clients would put it back, and break the signature.
    path = f"/model/{percent_encode(plan.model, safe=':')}/converse"
    return Outbound(
        path=f"{path}-stream" if stream else path,
        headers={
            "content-type": "application/json",
            "accept": "application/vnd.amazon.eventstream" if stream else "application/json",
        },
        body=msgspec.json.encode(body),
    )


# --- how to think ---------------------------------------------------------------------------------


def _thinking(plan: Plan, quirks: BedrockQuirks, messages: Sequence[Body]) -> Body:
    """The fields that switch thinking on or off, as the model itself calls them."""
    if plan.effort is None or quirks.thinking == "none":
        return {}
    if quirks.thinking == "effort":
        return {"reasoning_effort": plan.effort}
    if quirks.thinking == "config":
        if plan.effort == "none":
            return {"reasoningConfig": {"type": "disabled"}}
        return {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": plan.effort}}
    # A plan knows what its request leaves no thinking to. A later round of it may bring that, too:
    # a forced call, a turn without a thought.
    if plan.effort == "none" or plan.tool_choice.mode in ("required", "function"):
        return {"thinking": {"type": "disabled"}}
    if quirks.thinking == "adaptive":
        shown: Body = {} if quirks.display is None else {"display": quirks.display}
        return {
            "thinking": {"type": "adaptive", **shown},
            "output_config": {"effort": plan.effort},
        }
    budget = _budget(plan, plan.effort)
    if budget < _LEAST_BUDGET or resumes_without_thought(messages):
        return {"thinking": {"type": "disabled"}}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _budget(plan: Plan, effort: str) -> int:
    """How much may be thought, so that there is room left for the answer."""
    budget = int(effort) if effort.isdecimal() else _LEAST_BUDGET
    limit = plan.parameters.get("max_output_tokens")
    return budget if limit is None else min(budget, limit - _LEAST_BUDGET)


def _thinks(thinking: Body) -> bool:
    switch = thinking.get("thinking") or thinking.get("reasoningConfig")
    return switch is not None and switch["type"] != "disabled"


def _additional(plan: Plan, quirks: BedrockQuirks, thinking: Body) -> Body:
    fields = dict(thinking)
    alone = plan.parameters.get("parallel_tool_calls") is False and plan.tool_choice.mode == "auto"
    if alone and quirks.parallel_switch and plan.declarations:
        fields["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}
    return {"additionalModelRequestFields": fields} if fields else {}


# --- how to answer --------------------------------------------------------------------------------


def _inference(plan: Plan, quirks: BedrockQuirks, thinking: Body) -> Body:
    given = plan.parameters
    values: Body = {"maxTokens": given.get("max_output_tokens") or _default_limit(quirks, thinking)}
    if quirks.sampling != "none" and not _thinks(thinking):
        temperature, top_p = given.get("temperature"), given.get("top_p")
        values["temperature"] = None if temperature is None else min(temperature, 1)
        both = quirks.sampling == "both" or temperature is None
        values["topP"] = top_p if both else None
    match thinking:
        case {"reasoningConfig": {"maxReasoningEffort": "high"}}:
            del values["maxTokens"]  # refused: then the model itself decides how much it writes
    known = {name: value for name, value in values.items() if value is not None}
    return {"inferenceConfig": known} if known else {}


def _default_limit(quirks: BedrockQuirks, thinking: Body) -> int | None:
    match thinking:
        case {"thinking": {"budget_tokens": int(budget)}}:
            return budget + quirks.answer_tokens
    return None


def _is_asked(plan: Plan, quirks: BedrockQuirks) -> bool:
    return quirks.native_format and plan.contract.asked == "json_schema"


def _output(plan: Plan, quirks: BedrockQuirks) -> Body:
    if not _is_asked(plan, quirks):
        return {}
    contract = plan.contract
    schema = msgspec.json.encode(output_schema(contract.schema or {})).decode()
    asked: Body = {"schema": schema, "name": contract.name or "answer"}
    if contract.description:
        asked["description"] = contract.description
    return {
        "outputConfig": {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": asked}}}
    }


def _tier(plan: Plan) -> Body:
    tier = plan.parameters.get("service_tier")
    return {"serviceTier": {"type": tier}} if tier in _TIERS else {}


# --- tools ----------------------------------------------------------------------------------------


def _offered(plan: Plan, quirks: BedrockQuirks) -> list[Body]:
    tools = [_tool(declaration) for declaration in plan.declarations]
    if plan.native_tools and quirks.web_search is not None:
        tools.append({"systemTool": {"name": quirks.web_search}})
    return tools


def _tools(plan: Plan, offered: list[Body], used: Sequence[str]) -> Body:
    """No tools at all is how to say that none may be called; but a past with calls needs some."""
    if plan.tool_choice.mode == "none" and not used:
        return {}
    tools = offered or [_tool(ToolDeclaration(name=name)) for name in used]
    return {"toolConfig": {"tools": tools, **_tool_choice(plan.tool_choice)}} if tools else {}


def _tool(declaration: ToolDeclaration) -> Body:
    spec: Body = {"name": declaration.name}
    if declaration.description and declaration.description.strip():
        spec["description"] = declaration.description
    spec["inputSchema"] = {"json": input_schema(declaration.parameters)}
    return {"toolSpec": {**spec, "strict": True} if declaration.strict else spec}


def _tool_choice(choice: ToolChoice) -> Mapping[str, Any]:
    """`auto` goes without saying: not every model takes a word about it."""
    if choice.mode == "function":
        return {"toolChoice": {"tool": {"name": choice.name}}}
    return {"toolChoice": {"any": {}}} if choice.mode == "required" else {}


# --- the system prompt ----------------------------------------------------------------------------


def _system(plan: Plan, quirks: BedrockQuirks, *, silent: bool) -> Body:
    """What is said once, before everything: it stays the same from turn to turn."""
    contract = plan.contract
    if not _is_asked(plan, quirks):
        contract = msgspec.structs.replace(contract, asked="text")
    told = [plan.instructions, *leading(plan.history), contract.instruction()]
    if silent:
        told.append(_NO_CALLS)
    blocks: list[Mapping[str, Any]] = [text_block(each) for each in told if each and each.strip()]
    if not blocks:
        return {}
    return {"system": [*blocks, MARK] if quirks.caching else blocks}
