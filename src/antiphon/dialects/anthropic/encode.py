"""Anthropic Messages, the writing half: a plan becomes the bytes of a request.

Rendering is byte-stable and append-only: `messages` stand last, and the body of a turn, up to its
closing brackets, is a prefix of the next turn's. Only markers of the prompt cache may move, where
they have to stand inside of messages; they are no part of what the provider compares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from antiphon.core.plan.plan import Outbound, Plan, ToolChoice, ToolDeclaration
from antiphon.dialects.anthropic.media import text_block
from antiphon.dialects.anthropic.messages import (
    conversation,
    resumes_without_thought,
    without_thoughts,
)
from antiphon.dialects.anthropic.schema import input_schema, output_schema
from antiphon.dialects.message_writer import leading

Body: TypeAlias = dict[str, Any]

PATH = "/v1/messages"
VERSION = "2023-06-01"
_MARK: Mapping[str, Any] = {"type": "ephemeral"}
_LEAST_BUDGET = 1024
_LEAST_TOP_P = 0.95  # while the model thinks
_OFF: Mapping[str, Any] = {"type": "disabled"}
_TIERS = {"auto": "auto", "default": "standard_only", "priority": "auto"}


class AnthropicQuirks(Struct, frozen=True, kw_only=True):
    """How one provider's requests differ from the common form: data, and a function at most."""

    path: str = PATH
    """Where requests go; `{model}` stands for the name of the model."""
    stream_path: str | None = None
    """Where requests for a stream go, if that is another place."""
    max_tokens: int = 32_000
    """How much may be written where the client does not say; the API insists on a number."""
    thinking: Literal["adaptive", "budget", "none"] = "budget"
    """What an effort is: a word to a model that decides alone, or a number of tokens."""
    display: Literal["summarized", "omitted"] | None = None
    """Whether thought is shown; None leaves it to the model."""
    unsigned_thinking: bool = False
    """Thought goes back although it was never signed. The original API refuses that."""
    sampling: Literal["both", "one", "none"] = "one"
    """Which of temperature and top_p may be set: one of them means the temperature."""
    native_format: bool = False
    """The shape of an answer is asked for by `output_config`; otherwise the model is told."""
    caching: Literal["automatic", "breakpoints", "off"] = "automatic"
    """Automatic: the provider follows the thread itself. Breakpoints: markers in the messages, for
    providers that know only those."""
    web_search: str = "web_search_20250305"
    models: Mapping[str, AnthropicQuirks] = {}
    """Quirks of single models in place of all of these, by what stands in the model's name; the
    longest wins, and a dot is as good as a dash."""
    patch: Callable[[Body, Plan], Body] | None = None
    """The last word: a body in, a body out."""

    def of(self, model: str) -> AnthropicQuirks:
        name = model.casefold().replace(".", "-")
        known = [each for each in self.models if each.replace(".", "-") in name]
        return self.models[max(known, key=len)] if known else self


PLAIN = AnthropicQuirks()


def encode(plan: Plan, *, stream: bool, quirks: AnthropicQuirks = PLAIN) -> Outbound:
    """The request that asks a provider for what was planned."""
    quirks = quirks.of(plan.model)
    limit = plan.parameters.get("max_output_tokens") or quirks.max_tokens
    messages = conversation(plan, unsigned_thinking=quirks.unsigned_thinking)
    thinking = _thinking(plan, quirks, limit, messages)
    if _is_off(thinking, quirks):
        messages = without_thoughts(messages)
    body: Body = {
        "model": plan.model,
        "max_tokens": limit,
        **_tools(plan, quirks, messages),
        **thinking,
        **_output_config(plan, quirks),
        **_sampling(plan, quirks, thinking),
        **_parameters(plan),
        **({"stream": True} if stream else {}),
        **({"cache_control": _MARK} if quirks.caching == "automatic" else {}),
        **_system(plan, quirks),
        "messages": _marked(messages) if quirks.caching == "breakpoints" else messages,
    }
    if quirks.patch is not None:
        body = quirks.patch(body, plan)
    body["messages"] = body.pop("messages")  # last, whatever a patch has added
    path = quirks.stream_path if stream and quirks.stream_path else quirks.path
    return Outbound(
        path=path.replace("{model}", plan.model),
        headers={
            "content-type": "application/json",
            "accept": "text/event-stream" if stream else "application/json",
            "anthropic-version": VERSION,
        },
        body=msgspec.json.encode(body),
    )


# --- tools ----------------------------------------------------------------------------------------


def _tools(plan: Plan, quirks: AnthropicQuirks, messages: list[Body]) -> Body:
    tools = [_tool(declaration) for declaration in plan.declarations]
    tools += [_search(tool, quirks) for tool in plan.native_tools]
    if not tools:
        return _remembered(messages)
    choice = _tool_choice(plan.tool_choice)
    if plan.parameters.get("parallel_tool_calls") is False and choice["type"] != "none":
        choice["disable_parallel_tool_use"] = True
    return (
        {"tools": tools} if choice == {"type": "auto"} else {"tools": tools, "tool_choice": choice}
    )


def _tool(declaration: ToolDeclaration) -> Body:
    tool: Body = {"name": declaration.name}
    if declaration.description:
        tool["description"] = declaration.description
    tool["input_schema"] = input_schema(declaration.parameters)
    return tool | {"strict": True} if declaration.strict else tool


def _search(tool: Mapping[str, Any], quirks: AnthropicQuirks) -> Body:
    """The provider's own search, limited as the client has limited its."""
    search: Body = {"type": quirks.web_search, "name": "web_search"}
    match tool.get("filters"):
        case {"allowed_domains": [*domains]} if domains:
            search["allowed_domains"] = domains
    match tool.get("user_location"):
        case {} as location if location:
            known = {name: value for name, value in location.items() if value is not None}
            search["user_location"] = {"type": "approximate", **known}
    return search


def _remembered(messages: list[Body]) -> Body:
    """Tools that are only part of the past: calls of tools that are not declared are refused."""
    blocks = (block for message in messages for block in message["content"])
    names = dict.fromkeys(block["name"] for block in blocks if block["type"] == "tool_use")
    tools = [{"name": name, "input_schema": input_schema(None)} for name in names]
    return {"tools": tools, "tool_choice": {"type": "none"}} if tools else {}


def _tool_choice(choice: ToolChoice) -> Body:
    if choice.mode == "function":
        return {"type": "tool", "name": choice.name}
    return {"type": "any" if choice.mode == "required" else choice.mode}


# --- how to think, and how to answer --------------------------------------------------------------


def _thinking(plan: Plan, quirks: AnthropicQuirks, limit: int, messages: list[Body]) -> Body:
    """The switch of thinking; empty where the model does what it always does."""
    if quirks.thinking == "none":
        return {}
    # A plan knows what its request leaves no thinking to. A later round of it may bring that, too:
    # a forced call, a turn without a thought.
    if plan.effort == "none" or plan.tool_choice.mode in ("required", "function"):
        return {"thinking": _OFF}
    if plan.effort is None:
        return {}
    shown: Body = {} if quirks.display is None else {"display": quirks.display}
    if quirks.thinking == "adaptive":
        return {"thinking": {"type": "adaptive", **shown}}
    asked = int(plan.effort) if plan.effort.isdecimal() else _LEAST_BUDGET
    budget = min(asked, limit - _LEAST_BUDGET)  # there has to be room for the answer
    if budget < _LEAST_BUDGET or resumes_without_thought(messages):
        return {"thinking": _OFF}
    return {"thinking": {"type": "enabled", "budget_tokens": budget, **shown}}


def _is_off(thinking: Body, quirks: AnthropicQuirks) -> bool:
    """Whether thoughts of earlier turns are out of place: they are only sent to one who thinks."""
    if not thinking:
        return quirks.thinking == "budget" and not quirks.unsigned_thinking
    return thinking["thinking"] is _OFF


def _output_config(plan: Plan, quirks: AnthropicQuirks) -> Body:
    config: Body = {}
    if quirks.thinking == "adaptive" and plan.effort not in (None, "none"):
        config["effort"] = plan.effort
    if _is_asked(plan, quirks):
        config["format"] = {
            "type": "json_schema",
            "schema": output_schema(plan.contract.schema or {}),
        }
    return {"output_config": config} if config else {}


def _is_asked(plan: Plan, quirks: AnthropicQuirks) -> bool:
    return quirks.native_format and plan.contract.asked == "json_schema"


def _sampling(plan: Plan, quirks: AnthropicQuirks, thinking: Body) -> Body:
    """Temperature and top_p, as far as they may be set: hardly at all by one who thinks."""
    temperature, top_p = plan.parameters.get("temperature"), plan.parameters.get("top_p")
    if quirks.sampling == "none":
        temperature = top_p = None
    elif thinking and thinking["thinking"] is not _OFF:
        temperature = None
        top_p = None if top_p is None or top_p < _LEAST_TOP_P else top_p
    if temperature is not None and quirks.sampling == "one":
        top_p = None
    body: Body = {} if temperature is None else {"temperature": min(temperature, 1)}
    return body if top_p is None else {**body, "top_p": top_p}


def _parameters(plan: Plan) -> Body:
    """The other parameters that the API knows, under its names."""
    given = plan.parameters
    body: Body = {}
    if user := given.get("safety_identifier") or given.get("user"):
        body["metadata"] = {"user_id": str(user)}
    if tier := _TIERS.get(str(given.get("service_tier"))):
        body["service_tier"] = tier
    return body


# --- the system prompt, and the cache -------------------------------------------------------------


def _system(plan: Plan, quirks: AnthropicQuirks) -> Body:
    """What is said once, before everything: it stays the same from turn to turn."""
    contract = plan.contract
    if not _is_asked(plan, quirks):
        contract = msgspec.structs.replace(contract, asked="text")
    told = (plan.instructions, *leading(plan.history), contract.instruction())
    blocks = [text_block(text) for text in told if text and text.strip()]
    if not blocks:
        return {}
    if quirks.caching != "off":
        blocks[-1]["cache_control"] = _MARK
    return {"system": blocks}


def _marked(messages: list[Body]) -> list[Body]:
    """Messages with a breakpoint in the last two turns of the user.

    The last is where the next turn finds this one, the one before is where this turn finds the last
    one, even if more has happened since than the provider looks back.
    """
    marked = [*messages]
    for place in range(len(messages) - 1, -1, -2)[:2]:
        *blocks, last = messages[place]["content"]
        marked[place] = messages[place] | {"content": [*blocks, last | {"cache_control": _MARK}]}
    return marked
