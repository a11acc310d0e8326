"""Tool declarations: the functions that the provider is given, and the tool identity map.

The identity map holds every tool, also those that may not be called now: calls of earlier turns are
encoded under the same names whatever the `tool_choice` of this turn is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from antiphon.core.capabilities import Capabilities
from antiphon.core.history.client_format import FormatSupport, read_cache, read_extra
from antiphon.core.history.steps import Step
from antiphon.core.mcp.toolset import TOOLSET, McpPlan
from antiphon.core.plan.declare_mcp import add_servers, select_offers
from antiphon.core.plan.hosted_tools import REFUSE, HostedToolPolicy, refuse_search
from antiphon.core.plan.parse_tool import ToolOffer, tool_ignored
from antiphon.core.plan.plan import Notes
from antiphon.core.plan.strict_tools import limit_strict_tools, report_not_strict
from antiphon.core.plan.tool_choice import Selection, select_tools
from antiphon.core.plan.tool_registry import ToolRegistry
from antiphon.core.tools.declaration import ToolChoice, ToolDeclaration
from antiphon.core.tools.identity import NO_TOOLS, ToolIdentityMap
from antiphon.core.web_search.memory import HOSTED, SEARCH
from antiphon.core.web_search.rules import JSONObject, SearchRules, read_rules
from antiphon.errors import InvalidRequest

_OF_A_FORMAT = frozenset({"cache_control", "extra", TOOLSET})


class DeclaredTools(Struct, frozen=True, kw_only=True):
    """Everything that a plan contains about tools."""

    declarations: tuple[ToolDeclaration, ...] = ()
    native_tools: tuple[Mapping[str, Any], ...] = ()
    native_places: tuple[int, ...] = ()
    identities: ToolIdentityMap = NO_TOOLS
    tool_choice: ToolChoice = ToolChoice()
    instruction: str | None = None
    """Instruction to call a tool, where the provider cannot force a call."""
    search: SearchRules | None = None
    mcp: McpPlan | None = None
    unused: tuple[Mapping[str, Any], ...] = ()
    """Tools of the client that cannot be called, as it declared them."""
    steps: tuple[Step, ...] = ()
    """The history; the identity map knows the tool of every call in it."""


def declare_tools(
    tools: Sequence[JSONObject],
    choice: str | JSONObject,
    items: Sequence[JSONObject],
    steps: Sequence[Step],
    capabilities: Capabilities,
    notes: Notes,
    policy: HostedToolPolicy = REFUSE,
) -> DeclaredTools:
    """Declare the tools of the request and those that items of the input add."""
    registry = ToolRegistry(capabilities, notes, policy)
    registry.add_request_tools(tools)
    registry.add_input_tools(items)
    servers = None
    if registry.servers:
        servers = add_servers(registry, items, capabilities, policy, notes)
    _report_no_tools(registry, capabilities, notes)
    selected = select_tools(choice, registry, capabilities, notes)
    selection = _drop_native_search(selected, capabilities, policy, notes)
    offers = _limit_tools(selection, registry, capabilities, notes)
    offers = limit_strict_tools(offers, capabilities, notes)
    report_not_strict(offers, capabilities, notes)
    if not capabilities.deferred_tools:
        # Tools that were found since the last turn come last: the prompt keeps its prefix.
        offers = sorted(offers, key=lambda offer: offer.found or 0)
    resolved = registry.resolve_calls(steps)
    native = [offer for offer in offers if offer.handling == "native"]
    return DeclaredTools(
        declarations=_build_declarations(offers, registry, capabilities),
        native_tools=tuple(_native_document(offer.document, capabilities) for offer in native),
        native_places=_find_places(native, offers, tools),
        identities=registry.identities(),
        tool_choice=selection.choice,
        instruction=selection.instruction,
        search=_search_rules(selection, registry),
        mcp=None if servers is None else _mcp_plan(servers, selection, registry),
        unused=_unused_tools(registry, capabilities, search_dropped=selection is not selected),
        steps=resolved,
    )


def _find_places(
    native: Sequence[ToolOffer], offers: Sequence[ToolOffer], tools: Sequence[JSONObject]
) -> tuple[int, ...]:
    """The place of each tool of the provider among all that it gets, in the order of `tools`; one
    that the input has added comes last."""
    numbers = {id(tool): at for at, tool in enumerate(tools)}

    def number(offer: ToolOffer) -> int:
        return numbers.get(id(offer.document), len(tools))

    ordered = sorted(map(number, offers))
    return tuple(bisect_left(ordered, number(offer)) for offer in native)


def _search_rules(selection: Selection, registry: ToolRegistry) -> SearchRules | None:
    """The rules of the gateway's own search. One that `tool_choice` does not allow is never run,
    even if the model calls it."""
    offer = registry.offers.get((HOSTED, SEARCH))
    if offer is None:
        return None
    rules = read_rules(offer.document)
    usable = selection.choice.mode != "none" and offer in selection.offers
    return rules if usable else structs.replace(rules, max_calls=0)


def _mcp_plan(plan: McpPlan, selection: Selection, registry: ToolRegistry) -> McpPlan:
    return structs.replace(plan, offers=select_offers(plan, selection, registry))


def _unused_tools(
    registry: ToolRegistry, capabilities: Capabilities, *, search_dropped: bool
) -> tuple[JSONObject, ...]:
    left_out = {"ignored", "native"} if search_dropped else {"ignored"}
    return tuple(
        offer.document
        for offer in registry.all_offers()
        if offer.handling in left_out or not capabilities.tools
    )


def _report_no_tools(registry: ToolRegistry, capabilities: Capabilities, notes: Notes) -> None:
    if not capabilities.tools and registry.all_offers():
        message = f"Tools are not supported by {capabilities.model_name}; all of them are ignored."
        notes.append(tool_ignored("all", "tools", message))


def _drop_native_search(
    selection: Selection, capabilities: Capabilities, policy: HostedToolPolicy, notes: Notes
) -> Selection:
    """Drop the provider's own search if the provider rejects it beside functions."""
    functions = [offer for offer in selection.offers if offer.handling == "declared"]
    others = any(offer.handling == "native" for offer in selection.offers)
    if capabilities.search_beside_tools or not functions or not others:
        return selection
    problem = f"web search is not supported by {capabilities.model_name} together with functions"
    if policy.refuses(SEARCH):
        raise refuse_search(SEARCH, "tools", problem, capabilities)
    notes.append(tool_ignored(SEARCH, "tools", f"Tool 'web_search' is ignored: {problem}."))
    return structs.replace(selection, offers=functions)


def _limit_tools(
    selection: Selection, registry: ToolRegistry, capabilities: Capabilities, notes: Notes
) -> Sequence[ToolOffer]:
    """Keep to the provider's maximum number of tools.

    In a long thread `tool_search` finds ever more of them: the ones found first are dropped.
    """
    offers = selection.offers
    limit = capabilities.max_tools
    excess = len(offers) - limit
    if excess <= 0:
        return offers
    droppable = [
        offer
        for offer in offers
        if offer.origin == "search" and registry.names[offer.key] != selection.choice.name
    ][:excess]
    most = f"At most {limit} tools are supported by {capabilities.model_name}"
    if len(droppable) < excess:
        problem = f"{most}, but the request has {len(offers)}. Send fewer `tools`."
        raise InvalidRequest(problem, param="tools")
    dropped = set(map(id, droppable))
    message = f"{most}; the {excess} that `tool_search` found first are ignored."
    notes.append(tool_ignored("limit", "tools", message))
    return [offer for offer in offers if id(offer) not in dropped]


def _build_declarations(
    offers: Sequence[ToolOffer], registry: ToolRegistry, capabilities: Capabilities
) -> tuple[ToolDeclaration, ...]:
    groups = dict(registry.groups)
    support = FormatSupport(client_blocks=capabilities.client_blocks)
    return tuple(
        ToolDeclaration(
            name=registry.names[offer.key],
            description=_description(offer, groups),
            parameters=offer.parameters,
            strict=offer.strict,
            deferred=capabilities.deferred_tools and offer.found is not None,
            cache=read_cache(offer.document),
            extra=read_extra(offer.document, support),
        )
        for offer in offers
        if offer.handling == "declared"
    )


def _native_document(tool: JSONObject, capabilities: Capabilities) -> JSONObject:
    """A tool that the provider runs, without what only another client format has."""
    support = FormatSupport(client_blocks=capabilities.client_blocks)
    if "extra" not in tool or read_extra(tool, support) is not None:
        return tool
    return {name: value for name, value in tool.items() if name not in _OF_A_FORMAT}


def _description(offer: ToolOffer, groups: dict[str, str]) -> str | None:
    """The tool's description; the first tool of a namespace has the namespace's, too."""
    about = groups.pop(offer.namespace, None) if offer.namespace else None
    if about is None:
        return offer.description
    group = f"About all {offer.namespace} tools: {about}"
    return f"{offer.description}\n\n{group}" if offer.description else group
