"""`tool_choice` in all its forms, and what of it a provider can be told.

A choice is a constraint: what the provider cannot be told is kept by declaring less. Only the duty
to call something may be lost on the way, and then a diagnostic says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from antiphon.core.diagnostic import Code, Decision, Diagnostic
from antiphon.core.plan.plan import Capabilities, ToolChoice
from antiphon.core.planning.parse_tool import JSONObject, ToolOffer, family
from antiphon.core.planning.toolbox import Toolbox
from antiphon.errors import InvalidRequest


class Selection(Struct, frozen=True, kw_only=True):
    """The tools that the model may use now, and what the provider is told about using them."""

    offers: Sequence[ToolOffer] = ()
    choice: ToolChoice = ToolChoice()
    diagnostics: Sequence[Diagnostic] = ()


def select(choice: str | JSONObject, toolbox: Toolbox, capabilities: Capabilities) -> Selection:
    """What is left when the choice is kept; a choice of something that is not there is an error."""
    usable = [offer for offer in toolbox.everything() if _is_usable(offer, capabilities)]
    if isinstance(choice, str):
        return _in_mode(choice, usable, capabilities)
    if choice.get("type") == "allowed_tools":
        allowed = _allowed(choice, toolbox)
        usable = [offer for offer in usable if id(offer) in allowed]
        return _in_mode(str(choice.get("mode")), usable, capabilities)
    return _forced(choice, usable, toolbox, capabilities)


def _is_usable(offer: ToolOffer, capabilities: Capabilities) -> bool:
    return capabilities.tools and offer.fate != "left_out"


def _in_mode(mode: str, offers: Sequence[ToolOffer], capabilities: Capabilities) -> Selection:
    if mode == "none":
        # Declarations that stay keep the prompt's prefix the same from turn to turn.
        stays = bool(offers) and "none" in capabilities.tool_choice
        return Selection(offers=offers, choice=ToolChoice("none")) if stays else Selection()
    if mode != "required":
        return Selection(offers=offers)
    if not offers:
        raise _nothing("A tool is required, but there is none to call.")
    if "required" in capabilities.tool_choice:
        return Selection(offers=offers, choice=ToolChoice("required"))
    weaker = _weaker("The provider cannot be told that a tool is required: the model may answer.")
    return Selection(offers=offers, diagnostics=[weaker])


def _forced(
    choice: JSONObject, usable: Sequence[ToolOffer], toolbox: Toolbox, capabilities: Capabilities
) -> Selection:
    """One tool has to be called."""
    matches = {id(offer) for offer in _matches(choice, toolbox)}
    targets = [offer for offer in usable if id(offer) in matches]
    if not targets:
        raise _nothing(f"The choice {_label(choice)} names no tool that can be called.")
    name = toolbox.names.get(targets[0].key) if targets[0].fate == "declared" else None
    if name is not None and "function" in capabilities.tool_choice:
        return Selection(offers=usable, choice=ToolChoice("function", name))
    if "required" in capabilities.tool_choice:
        weaker = _weaker("The provider cannot be told which tool to call: no other is declared.")
        return Selection(offers=targets, choice=ToolChoice("required"), diagnostics=[weaker])
    weaker = _weaker("The provider cannot be told to call a tool: it is the only one declared.")
    return Selection(offers=targets, diagnostics=[weaker])


def _allowed(choice: JSONObject, toolbox: Toolbox) -> set[int]:
    entries = choice.get("tools")
    allowed: set[int] = set()
    for entry in entries if isinstance(entries, list) else ():
        matches = _matches(entry, toolbox) if isinstance(entry, Mapping) else []
        if not matches:
            raise _nothing(f"The allowed tool {_label(entry)} is not among the tools.")
        allowed.update(map(id, matches))
    return allowed


def _matches(choice: JSONObject, toolbox: Toolbox) -> list[ToolOffer]:
    """The tools that a choice names, left out or not."""
    kind = family(str(choice.get("type")))
    name = choice.get("server_label" if kind == "mcp" else "name")
    if kind == "namespace":
        return [offer for offer in toolbox.everything() if offer.namespace == name is not None]
    same = [offer for offer in toolbox.everything() if family(offer.type) == kind]
    if kind in {"function", "custom"}:
        return _named(name, choice.get("namespace"), same)
    return [offer for offer in same if name in (None, offer.name)]


def _named(name: object, namespace: object, offers: Sequence[ToolOffer]) -> list[ToolOffer]:
    """The one tool of that name. A namespace may be left out where it could only be one."""
    namesakes = [offer for offer in offers if offer.name == name]
    exact = [offer for offer in namesakes if offer.namespace == namespace]
    if exact or namespace is not None:
        return exact
    if len(namesakes) > 1:
        raise _nothing(f"Several namespaces have a tool {name!r}: the choice has to name one.")
    return namesakes


def _label(choice: object) -> str:
    if not isinstance(choice, Mapping):
        return repr(choice)
    name = choice.get("name", choice.get("server_label"))
    return repr(choice.get("type")) if name is None else f"{choice.get('type')} {name!r}"


def _nothing(message: str) -> InvalidRequest:
    return InvalidRequest(message, param="tool_choice")


def _weaker(message: str) -> Diagnostic:
    return Diagnostic(
        code=Code.TOOL_CHOICE_DEGRADED,
        decision=Decision.DEGRADED,
        param="tool_choice",
        message=message,
    )
