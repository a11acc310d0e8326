"""Anthropic Messages encoder: a plan becomes the bytes of a request.

The output is byte-stable and append-only: `messages` come last, and the body of a turn, up to its
closing brackets, is a prefix of the next turn's. Only markers of the prompt cache may move, where
they have to stand inside messages; the provider does not compare them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from antiphon.core.items import Document
from antiphon.core.plan.hosted_tools import family
from antiphon.core.plan.plan import Outbound, Plan
from antiphon.core.tools.declaration import ToolChoice, ToolDeclaration
from antiphon.dialects.anthropic.media import text_block
from antiphon.dialects.anthropic.messages import (
    limit_breakpoints,
    remove_reasoning,
    resumes_without_reasoning,
    system_blocks,
    with_client_members,
    write_messages,
)
from antiphon.dialects.anthropic.parse_mcp import is_declared_apart
from antiphon.dialects.anthropic.quirks import PLAIN, AnthropicQuirks
from antiphon.dialects.anthropic.schema import input_schema, output_schema
from antiphon.dialects.json_output import encode_in_steps
from antiphon.dialects.message_writer import leading_system_messages
from antiphon.dialects.reasoning import MIN_BUDGET, thinking_budget

VERSION = "2023-06-01"
_CACHE_CONTROL: Mapping[str, Any] = {"type": "ephemeral"}
_MAX_BREAKPOINTS = 4
_MIN_TOP_P_WITH_THINKING = 0.95
_DISABLED: Mapping[str, Any] = {"type": "disabled"}
_CLEAR_THINKING = "clear_thinking_"
_EMAIL = re.compile(r"[^\s@]@[^\s@]+\.[^\s@]")
_SERVICE_TIERS = {"auto": "auto", "default": "standard_only", "priority": "auto"}


def encode(plan: Plan, *, stream: bool, quirks: AnthropicQuirks = PLAIN) -> Outbound:
    quirks = quirks.of(plan.model)
    max_tokens = plan.parameters.get("max_output_tokens") or quirks.max_tokens
    messages = write_messages(plan, unsigned_thinking=quirks.unsigned_thinking)
    thinking = _thinking(plan, quirks, max_tokens, messages)
    if _refuses_reasoning(thinking, quirks):
        messages = remove_reasoning(messages)
    body: Document = {
        "model": plan.model,
        "max_tokens": max_tokens,
        **_tools(plan, quirks, messages),
        **thinking,
        **_output_config(plan, quirks),
        **_sampling(plan, quirks, thinking),
        **_parameters(plan),
        **_context_management(plan, thinking),
        **({"stream": True} if stream else {}),
        **_caching(plan, quirks),
        **_system(plan, quirks),
        "messages": messages,
    }
    if _client_caches(plan):
        limit_breakpoints(messages, _MAX_BREAKPOINTS - _count_breakpoints(body))
    elif quirks.caching == "breakpoints":
        body["messages"] = _add_breakpoints(messages)
    if quirks.patch is not None:
        body = quirks.patch(body, plan)
    body["messages"] = body.pop("messages")  # last, whatever a patch has added
    path = quirks.stream_path if stream and quirks.stream_path else quirks.path
    return Outbound(
        path=path.replace("{model}", _UNSAFE.sub(_percent_encode, plan.model)),
        headers={
            "content-type": "application/json",
            "accept": "text/event-stream" if stream else "application/json",
            "anthropic-version": VERSION,
            **_betas(plan),
        },
        body=encode_in_steps(body) if plan.is_large else msgspec.json.encode(body),
    )


_UNSAFE = re.compile(r"[^\w.@:-]", re.ASCII)


def _percent_encode(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "replace"))


def _betas(plan: Plan) -> Mapping[str, str]:
    betas = plan.parameters.get("betas")
    return {"anthropic-beta": ",".join(betas)} if betas else {}


# --- tools ----------------------------------------------------------------------------------------


def _tools(plan: Plan, quirks: AnthropicQuirks, messages: list[Document]) -> Document:
    tools = [_tool(declaration) for declaration in plan.declarations]
    among_tools = [tool for tool in plan.native_tools if not is_declared_apart(tool)]
    native = [_native_tool(tool, plan, quirks) for tool in among_tools]
    if _client_caches(plan):
        # The prompt begins with the tools: their order is the client's. Servers that are declared
        # apart come after all tools.
        for place, tool in zip(plan.native_places, native, strict=False):
            tools.insert(place, tool)
    else:
        tools += native
    if not tools:
        tools = _tools_of_history(messages)
        if not plan.native_tools:  # neither are there servers whose tools may be called
            return {"tools": tools, "tool_choice": {"type": "none"}} if tools else {}
    choice = _tool_choice(plan.tool_choice)
    if plan.parameters.get("parallel_tool_calls") is False and choice["type"] != "none":
        choice["disable_parallel_tool_use"] = True
    body: Document = {"tools": tools} if tools else {}
    return body if choice == {"type": "auto"} else {**body, "tool_choice": choice}


def _tool(declaration: ToolDeclaration) -> Document:
    tool: Document = {"name": declaration.name}
    if declaration.description:
        tool["description"] = declaration.description
    schema = input_schema(declaration.parameters)
    tool["input_schema"] = output_schema(schema) if declaration.strict else schema
    if declaration.strict:
        tool["strict"] = True
    if declaration.deferred:
        tool["defer_loading"] = True
    return with_client_members(tool, declaration.cache, declaration.extra)


def _native_tool(tool: Mapping[str, Any], plan: Plan, quirks: AnthropicQuirks) -> Document:
    """A tool that the provider runs, as a client of this format has declared it."""
    match tool.get("extra"):
        case {"format": "messages", "members": {} as declared}:
            return dict(declared)
    return (
        _search_tool(tool, plan, quirks)
        if family(str(tool.get("type"))) == "web_search"
        else dict(tool)
    )


def _search_tool(tool: Mapping[str, Any], plan: Plan, quirks: AnthropicQuirks) -> Document:
    """The provider's own search, with the limit, domains and location that the client has set."""
    search: Document = {"type": quirks.web_search, "name": "web_search"}
    if (limit := plan.parameters.get("max_tool_calls")) is not None:
        search["max_uses"] = limit
    match tool.get("filters"):
        case {"allowed_domains": [*domains]} if domains:
            search["allowed_domains"] = domains
        case {"blocked_domains": [*domains]} if domains:
            search["blocked_domains"] = domains
    match tool.get("user_location"):
        case {} as location if location:
            known = {name: value for name, value in location.items() if value is not None}
            search["user_location"] = {"type": "approximate", **known}
    return search


def _tools_of_history(messages: list[Document]) -> list[Document]:
    """Tools called earlier but not declared now: the API refuses calls of undeclared tools."""
    blocks = (block for message in messages for block in message["content"])
    names = dict.fromkeys(block["name"] for block in blocks if block["type"] == "tool_use")
    return [{"name": name, "input_schema": input_schema(None)} for name in names]


def _tool_choice(choice: ToolChoice) -> Document:
    if choice.mode == "function":
        return {"type": "tool", "name": choice.name}
    return {"type": "any" if choice.mode == "required" else choice.mode}


# --- thinking, output format and sampling ---------------------------------------------------------


def _thinking(
    plan: Plan, quirks: AnthropicQuirks, max_tokens: int, messages: list[Document]
) -> Document:
    """The `thinking` field; empty where the model's default applies."""
    if quirks.thinking == "none":
        return {}
    # The plan disables thinking where its request rules it out. Later rounds may force a call or
    # resume a turn without reasoning, which rule it out as well.
    if plan.effort == "none" or plan.tool_choice.mode in ("required", "function"):
        return {"thinking": _DISABLED}
    if (asked := _client_thinking(plan, quirks, max_tokens)) is not None:
        return asked
    if plan.effort is None:
        return {}
    display: Document = {} if quirks.display is None else {"display": quirks.display}
    if quirks.thinking == "adaptive":
        return {"thinking": {"type": "adaptive", **display}}
    budget = thinking_budget(plan.effort, max_tokens)
    if budget is None or resumes_without_reasoning(messages):
        return {"thinking": _DISABLED}
    return {"thinking": {"type": "enabled", "budget_tokens": budget, **display}}


def _client_thinking(plan: Plan, quirks: AnthropicQuirks, max_tokens: int) -> Document | None:
    """The `thinking` field as a client asked for it, where the model has it in that form. The API
    refuses a budget below its minimum, which other formats do not have."""
    asked = plan.parameters.get("thinking")
    if asked is None:
        return None
    if asked.mode == "default":
        return {}
    display: Document = {} if asked.display is None else {"display": asked.display}
    if asked.mode == "adaptive" and quirks.thinking == "adaptive":
        return {"thinking": {"type": "adaptive", **display}}
    if asked.mode == "enabled" and quirks.thinking == "budget" and asked.budget_tokens:
        budget = max(MIN_BUDGET, min(asked.budget_tokens, max_tokens - 1))
        return {"thinking": {"type": "enabled", "budget_tokens": budget, **display}}
    return None


def _refuses_reasoning(thinking: Document, quirks: AnthropicQuirks) -> bool:
    """Whether reasoning of earlier turns is left out: only a model that thinks accepts it."""
    if not thinking:
        return quirks.thinking == "budget" and not quirks.unsigned_thinking
    return thinking["thinking"] is _DISABLED


def _output_config(plan: Plan, quirks: AnthropicQuirks) -> Document:
    config: Document = {}
    if quirks.thinking == "adaptive" and (effort := _effort(plan)) is not None:
        config["effort"] = effort
    if _uses_native_format(plan, quirks):
        config["format"] = {
            "type": "json_schema",
            "schema": output_schema(plan.contract.schema or {}),
        }
    return {"output_config": config} if config else {}


def _effort(plan: Plan) -> str | None:
    """The effort of the plan; of a client of this format also one beside disabled thinking."""
    if plan.effort == "none":
        asked = plan.parameters.get("thinking")
        return None if asked is None else asked.effort
    return plan.effort


def _uses_native_format(plan: Plan, quirks: AnthropicQuirks) -> bool:
    return quirks.native_format and plan.contract.asked == "json_schema"


def _sampling(plan: Plan, quirks: AnthropicQuirks, thinking: Document) -> Document:
    """Temperature, top_p and top_k; with thinking, only a top_p of at least 0.95 is accepted."""
    if quirks.sampling == "none":
        return {}
    given = plan.parameters
    temperature, top_p, top_k = (given.get(name) for name in ("temperature", "top_p", "top_k"))
    if thinking and thinking["thinking"] is not _DISABLED:
        temperature = top_k = None
        top_p = None if top_p is None or top_p < _MIN_TOP_P_WITH_THINKING else top_p
    if temperature is not None and quirks.sampling == "one":
        top_p = None
    temperature = None if temperature is None else min(temperature, 1)
    values = {"temperature": temperature, "top_p": top_p, "top_k": top_k}
    return {name: value for name, value in values.items() if value is not None}


def _parameters(plan: Plan) -> Document:
    """The other parameters that the API supports, under its names."""
    given = plan.parameters
    body: Document = {}
    if stop := given.get("stop"):
        body["stop_sequences"] = list(stop)
    if user := given.get("safety_identifier") or given.get("user"):
        body["metadata"] = {"user_id": _opaque_user(str(user))}
    if tier := _SERVICE_TIERS.get(str(given.get("service_tier"))):
        body["service_tier"] = tier
    if extra := given.get("extra"):
        body |= extra["members"]
    return body


def _context_management(plan: Plan, thinking: Document) -> Document:
    """What the provider removes of the context. It refuses to clear thinking where it is not asked
    to think, and there is none then."""
    edits = list(plan.parameters.get("context_edits") or ())
    if not thinking or thinking["thinking"] is _DISABLED:
        edits = [each for each in edits if not str(each.get("type")).startswith(_CLEAR_THINKING)]
    return {"context_management": {"edits": edits}} if edits else {}


def _opaque_user(user: str) -> str:
    """The name of a user; the API refuses an email address, and asks for a hash instead of one."""
    if _EMAIL.search(user) is None:
        return user
    return hashlib.sha256(user.encode("utf-8", "surrogatepass")).hexdigest()


# --- the system prompt and the prompt cache -------------------------------------------------------


def _system(plan: Plan, quirks: AnthropicQuirks) -> Document:
    """The system prompt, the same in every turn."""
    contract = plan.contract
    if not _uses_native_format(plan, quirks):
        contract = msgspec.structs.replace(contract, asked="text")
    blocks = _text_blocks(plan.instructions)
    for step in leading_system_messages(plan.history):
        blocks += system_blocks(step)
    blocks += _text_blocks(contract.instruction())
    if not blocks:
        return {}
    if quirks.caching != "off" and not _client_caches(plan):
        blocks[-1]["cache_control"] = _CACHE_CONTROL
    return {"system": blocks}


def _text_blocks(text: str | None) -> list[Document]:
    return [text_block(text)] if text and text.strip() else []


def _client_caches(plan: Plan) -> bool:
    """Whether the client places the breakpoints of the prompt cache, or wants none."""
    return plan.parameters.get("prompt_caching") == "client"


def _caching(plan: Plan, quirks: AnthropicQuirks) -> Document:
    """The breakpoint that the provider moves by itself."""
    if control := plan.parameters.get("cache_control"):
        return {"cache_control": control}
    automatic = quirks.caching == "automatic" and not _client_caches(plan)
    return {"cache_control": _CACHE_CONTROL} if automatic else {}


def _count_breakpoints(body: Document) -> int:
    """The breakpoints before the messages, and the one that the provider places."""
    blocks = [body, *body.get("tools", ()), *body.get("system", ())]
    return sum("cache_control" in block for block in blocks)


def _add_breakpoints(messages: list[Document]) -> list[Document]:
    """Messages with a cache breakpoint in each of the last two user messages.

    The next turn finds its prefix at the last one. This turn finds its own at the one before, even
    if more blocks were added since than the provider looks back.
    """
    marked = [*messages]
    for index in range(len(messages) - 1, -1, -2)[:2]:
        *blocks, last = messages[index]["content"]
        last = last | {"cache_control": _CACHE_CONTROL}
        marked[index] = messages[index] | {"content": [*blocks, last]}
    return marked
