"""The tools of a request, declared: what the provider is given, and who each of them is.

The identities hold every tool, also those that may not be called now: calls of earlier turns are
rendered under the same names whatever the choice of this turn is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from antiphon.core.diagnostic import Code, Decision, Diagnostic
from antiphon.core.history.steps import Step
from antiphon.core.plan.plan import Capabilities, ToolChoice, ToolDeclaration
from antiphon.core.planning.parse_tool import JSONObject, ToolOffer, left_out
from antiphon.core.planning.tool_choice import Selection, select
from antiphon.core.planning.toolbox import Toolbox
from antiphon.core.tools.identity import NO_TOOLS, ToolIdentityMap
from antiphon.core.web_search.memory import HOSTED, SEARCH
from antiphon.core.web_search.rules import SearchRules, read_rules
from antiphon.errors import InvalidRequest


class Declared(Struct, frozen=True, kw_only=True):
    """Everything a plan says about tools."""

    declarations: tuple[ToolDeclaration, ...] = ()
    native_tools: tuple[Mapping[str, Any], ...] = ()
    identities: ToolIdentityMap = NO_TOOLS
    tool_choice: ToolChoice = ToolChoice()
    search: SearchRules | None = None
    steps: tuple[Step, ...] = ()
    """The history, with every call under a tool that the identities know."""
    diagnostics: tuple[Diagnostic, ...] = ()


def declare(
    tools: Sequence[JSONObject],
    choice: str | JSONObject,
    items: Sequence[JSONObject],
    steps: Sequence[Step],
    capabilities: Capabilities,
) -> Declared:
    """Declare the request's own tools and those that its items carry."""
    toolbox = Toolbox(capabilities)
    toolbox.add_declared(tools)
    toolbox.add_carried(items)
    selection, apart = _apart(select(choice, toolbox, capabilities), capabilities)
    offers, dropped = _within_limit(selection, toolbox, capabilities.max_tools)
    placed = toolbox.place(steps)
    return Declared(
        declarations=_declarations(offers, toolbox),
        native_tools=tuple(offer.document for offer in offers if offer.fate == "native"),
        identities=toolbox.identities(),
        tool_choice=selection.choice,
        search=_search(selection, toolbox),
        steps=placed,
        diagnostics=(
            *toolbox.diagnostics,
            *_no_tools(toolbox, capabilities),
            *selection.diagnostics,
            *apart,
            *dropped,
            *_loosened(offers, capabilities),
        ),
    )


def _search(selection: Selection, toolbox: Toolbox) -> SearchRules | None:
    """The rules of a search that the gateway makes; one that is not allowed now is never made,
    even if the model asks for it."""
    offer = toolbox.offers.get((HOSTED, SEARCH))
    if offer is None:
        return None
    rules = read_rules(offer.document)
    usable = selection.choice.mode != "none" and offer in selection.offers
    return rules if usable else structs.replace(rules, max_calls=0)


def _no_tools(toolbox: Toolbox, capabilities: Capabilities) -> list[Diagnostic]:
    if capabilities.tools or not toolbox.everything():
        return []
    return [left_out("all", "tools", "The model takes no tools: all were left out.")]


def _apart(selection: Selection, capabilities: Capabilities) -> tuple[Selection, list[Diagnostic]]:
    """A search of the provider's own, or functions: some providers refuse both at once."""
    functions = [offer for offer in selection.offers if offer.fate == "declared"]
    others = len(selection.offers) - len(functions)
    if capabilities.search_beside_tools or not functions or not others:
        return selection, []
    message = "The provider does not search beside functions: its search was left out."
    return structs.replace(selection, offers=functions), [left_out("web_search", "tools", message)]


def _loosened(offers: Sequence[ToolOffer], capabilities: Capabilities) -> list[Diagnostic]:
    declared = [offer for offer in offers if offer.fate == "declared"]
    asked = [offer for offer in declared if offer.strict]
    strict = [offer for offer in asked if offer.parameters and offer.parameters.get("required")]
    if not capabilities.strict_together or not asked or len(strict) == len(declared):
        return []
    message = (
        "The provider enforces the schemas of all tools or of none,"
        " and not all are strict and require something."
    )
    return [
        Diagnostic(
            code=Code.TOOL_DEGRADED,
            decision=Decision.DEGRADED,
            param="tools",
            message=message,
            subject="strict",
        )
    ]


def _within_limit(
    selection: Selection, toolbox: Toolbox, limit: int
) -> tuple[Sequence[ToolOffer], list[Diagnostic]]:
    """At most so many tools. A thread finds ever more of them: the oldest finds make room."""
    offers, excess = selection.offers, len(selection.offers) - limit
    if excess <= 0:
        return offers, []
    old = [
        offer
        for offer in offers
        if offer.origin == "search" and toolbox.names[offer.key] != selection.choice.name
    ][:excess]
    if len(old) < excess:
        raise InvalidRequest(
            f"There are {len(offers)} tools, and the model takes {limit} at most.", param="tools"
        )
    gone = set(map(id, old))
    message = f"The model takes {limit} tools at most: {excess} found earlier were left out."
    kept = [offer for offer in offers if id(offer) not in gone]
    return kept, [left_out("limit", "tools", message)]


def _declarations(offers: Sequence[ToolOffer], toolbox: Toolbox) -> tuple[ToolDeclaration, ...]:
    groups = dict(toolbox.groups)
    return tuple(
        ToolDeclaration(
            name=toolbox.names[offer.key],
            description=_description(offer, groups),
            parameters=offer.parameters,
            strict=offer.strict,
        )
        for offer in offers
        if offer.fate == "declared"
    )


def _description(offer: ToolOffer, groups: dict[str, str]) -> str | None:
    """What a namespace says about all of its tools is told once, with the first of them."""
    about = groups.pop(offer.namespace, None) if offer.namespace else None
    if about is None:
        return offer.description
    group = f"About all {offer.namespace} tools: {about}"
    return f"{offer.description}\n\n{group}" if offer.description else group
