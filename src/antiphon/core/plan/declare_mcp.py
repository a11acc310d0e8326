"""Declaration of the tools of MCP servers: functions whose calls the gateway makes.

The tools of a server are known once the thread lists them (`mcp_list_tools`). Until then its place
is kept, so that `tool_choice` may name it, and nothing is declared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from antiphon.core.capabilities import Capabilities
from antiphon.core.mcp.thread import count_opening_calls, find_approved, find_lists
from antiphon.core.mcp.toolset import MCP, McpOffer, McpPlan, McpToolset, read_toolset
from antiphon.core.mcp.values import McpTool
from antiphon.core.plan.hosted_tools import HostedToolPolicy
from antiphon.core.plan.parse_tool import NO_ARGUMENTS, ToolOffer, open_objects, tool_ignored
from antiphon.core.plan.plan import Notes
from antiphon.core.plan.tool_choice import Selection
from antiphon.core.plan.tool_registry import ToolRegistry
from antiphon.errors import InvalidRequest


def add_servers(
    registry: ToolRegistry,
    items: Sequence[Mapping[str, Any]],
    capabilities: Capabilities,
    policy: HostedToolPolicy,
    notes: Notes,
) -> McpPlan | None:
    """Add the tools of the servers to the others, whose names stay what they are; None: the
    request names no server."""
    rules = policy.mcp_rules(capabilities)
    if not registry.servers or rules is None:
        return None
    listed = find_lists(items)
    toolsets: dict[str, McpToolset] = {}
    for param, document in registry.servers:
        toolset = read_toolset(document, rules)
        if toolset.label in toolsets:
            problem = f"Two MCP servers have the label {toolset.label!r}. Rename one of them."
            raise InvalidRequest(problem, param=f"{param}.server_label")
        if refusal := rules.find_refusal(toolset.server):
            _refuse(registry, toolset, refusal, param, policy, notes)
            continue
        toolsets[toolset.label] = toolset
        if toolset.listed is not None:
            listed[toolset.label] = toolset.listed
        _add_server(registry, toolset, listed.get(toolset.label), param, capabilities)
    found = toolsets.values()
    return McpPlan(
        toolsets=tuple(found),
        listed={label: tools for label, tools in listed.items() if label in toolsets},
        unlisted=tuple(each for each in found if each.label not in listed),
        approved=find_approved(items, found),
        calls_made=count_opening_calls(items),
        takes_images="image" in capabilities.inputs,
    )


def _refuse(
    registry: ToolRegistry,
    toolset: McpToolset,
    refusal: str,
    param: str,
    policy: HostedToolPolicy,
    notes: Notes,
) -> None:
    """Refuse a server that the operator does not allow, or leave it out."""
    if policy.refuses(MCP):
        field = toolset.server.url_at if toolset.server.url else "server_label"
        at = field if "." in field else f"{param}.{field}"
        raise InvalidRequest(refusal, param=at, code="unsupported_parameter")
    notes.append(tool_ignored(MCP, param, f"Tool 'mcp' is ignored: {refusal}"))
    registry.hosted.append(
        ToolOffer(type=MCP, name=toolset.label, handling="ignored", document=toolset.document)
    )


def _add_server(
    registry: ToolRegistry,
    toolset: McpToolset,
    tools: tuple[McpTool, ...] | None,
    param: str,
    capabilities: Capabilities,
) -> None:
    if tools is None:
        document = toolset.document
        registry.hosted.append(
            ToolOffer(type=MCP, name=toolset.label, handling="unlisted", document=document)
        )
        return
    if toolset.description:
        registry.groups.setdefault(toolset.label, toolset.description)
    offered = [tool for tool in tools if toolset.allows(tool)]
    last = offered[-1] if offered else None
    for tool in offered:
        # A breakpoint of the prompt cache is behind the last tool of the server.
        document = toolset.document if tool is last else _without_breakpoint(toolset.document)
        registry.add_offer(_make_offer(toolset, tool, document, capabilities), param)


def _without_breakpoint(document: Mapping[str, Any]) -> Mapping[str, Any]:
    if "cache_control" not in document:
        return document
    return {name: value for name, value in document.items() if name != "cache_control"}


def _make_offer(
    toolset: McpToolset, tool: McpTool, document: Mapping[str, Any], capabilities: Capabilities
) -> ToolOffer:
    schema: Mapping[str, Any] = {**NO_ARGUMENTS, **tool.input_schema}
    return ToolOffer(
        type=MCP,
        name=tool.name,
        namespace=toolset.label,
        description=tool.description or None,
        parameters=schema if capabilities.closed_objects else open_objects(schema),
        document=document,
        needs_approval=toolset.approval.is_needed(tool),
    )


def select_offers(
    plan: McpPlan, selection: Selection, registry: ToolRegistry
) -> Mapping[str, McpOffer]:
    """The tools that may be called, by their names at the provider. One that `tool_choice` does not
    allow is never called, even if the model calls it."""
    if selection.choice.mode == "none":
        return {}
    servers = {each.label: each.server for each in plan.toolsets}
    return {
        registry.names[offer.key]: McpOffer(
            server=servers[offer.namespace], tool=offer.name, needs_approval=offer.needs_approval
        )
        for offer in selection.offers
        if offer.type == MCP and offer.handling == "declared" and offer.namespace is not None
    }
