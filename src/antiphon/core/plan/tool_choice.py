"""`tool_choice` in all its forms: the tools that may be called, and the provider's choice.

A choice is a constraint: where the provider does not support it, fewer tools are declared. Only the
obligation to call a tool may be lost: the model is instructed to call one instead, and a diagnostic
reports that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from antiphon.core.capabilities import Capabilities
from antiphon.core.diagnostic import Code, Diagnostic, degraded
from antiphon.core.mcp.toolset import MCP
from antiphon.core.plan.hosted_tools import family
from antiphon.core.plan.parse_tool import ToolOffer
from antiphon.core.plan.plan import Notes
from antiphon.core.plan.tool_registry import ToolRegistry
from antiphon.core.tools.declaration import ToolChoice
from antiphon.core.web_search.rules import JSONObject
from antiphon.errors import InvalidRequest


class Selection(Struct, frozen=True, kw_only=True):
    """The tools that may be called in this turn, and the tool choice for the provider."""

    offers: Sequence[ToolOffer] = ()
    choice: ToolChoice = ToolChoice()
    instruction: str | None = None
    """For the model, where the provider cannot force a call."""


def select_tools(
    choice: str | JSONObject, registry: ToolRegistry, capabilities: Capabilities, notes: Notes
) -> Selection:
    """Apply the choice to the tools; raise `InvalidRequest` if it names one that is not there."""
    usable = [offer for offer in registry.all_offers() if _is_usable(offer, capabilities)]
    if isinstance(choice, str):
        return _select_by_mode(choice, usable, capabilities, notes)
    if choice.get("type") == "allowed_tools":
        allowed = _read_allowed(choice, registry)
        usable = [offer for offer in usable if id(offer) in allowed]
        return _select_by_mode(str(choice.get("mode")), usable, capabilities, notes)
    return _select_one(choice, usable, registry, capabilities, notes)


def _is_usable(offer: ToolOffer, capabilities: Capabilities) -> bool:
    return capabilities.tools and offer.handling != "ignored"


def _select_by_mode(
    mode: str, offers: Sequence[ToolOffer], capabilities: Capabilities, notes: Notes
) -> Selection:
    if mode == "none":
        # Declared tools keep the prompt's prefix the same from turn to turn (prompt caches).
        stays = bool(offers) and "none" in capabilities.tool_choice
        return Selection(offers=offers, choice=ToolChoice("none")) if stays else Selection()
    if mode != "required":
        return Selection(offers=offers)
    if not offers:
        raise _invalid("`tool_choice` requires a call, but there is no tool to call. Send `tools`.")
    if "required" in capabilities.tool_choice:
        return Selection(offers=offers, choice=ToolChoice("required"))
    message = (
        f"`tool_choice` 'required' is not supported by {capabilities.model_name};"
        " the model may respond without a call."
    )
    notes.append(_degraded(message))
    instruction = "Call at least one of the tools before you answer."
    return Selection(offers=offers, instruction=instruction)


def _select_one(
    choice: JSONObject,
    usable: Sequence[ToolOffer],
    registry: ToolRegistry,
    capabilities: Capabilities,
    notes: Notes,
) -> Selection:
    """Force a call of one tool, as far as the provider supports it."""
    matches = {id(offer) for offer in _OfferIndex(registry.all_offers()).find(choice)}
    targets = [offer for offer in usable if id(offer) in matches]
    if not targets:
        raise _invalid(f"`tool_choice` names a tool that `tools` does not have: {_label(choice)}.")
    if len(targets) > 1 or targets[0].handling == "unlisted":  # any tool of an MCP server
        return _select_by_mode("required", targets, capabilities, notes)
    name = registry.names.get(targets[0].key) if targets[0].handling == "declared" else None
    if name is not None and "function" in capabilities.tool_choice:
        return Selection(offers=usable, choice=ToolChoice("function", name))
    if "required" in capabilities.tool_choice:
        message = (
            f"`tool_choice` of a named tool is not supported by {capabilities.model_name};"
            " a call is required and no other tool is declared."
        )
        notes.append(_degraded(message))
        return Selection(offers=targets, choice=ToolChoice("required"))
    message = (
        f"A forced tool call is not supported by {capabilities.model_name}; no other tool is"
        " declared, and the model may respond without a call."
    )
    notes.append(_degraded(message))
    instruction = f"Call the tool {name!r} before you answer." if name is not None else None
    return Selection(offers=targets, instruction=instruction)


def _read_allowed(choice: JSONObject, registry: ToolRegistry) -> set[int]:
    entries = choice.get("tools")
    index = _OfferIndex(registry.all_offers())
    allowed: set[int] = set()
    matched = 0
    for entry in entries if isinstance(entries, list) else ():
        matches = index.find(entry) if isinstance(entry, Mapping) else []
        if not matches:
            raise _invalid(
                f"`tool_choice` allows a tool that `tools` does not have: {_label(entry)}."
            )
        matched += len(matches)
        if matched > _MAX_MATCHES:
            raise _invalid("`tool_choice` allows too many tools. Name each tool once.")
        allowed.update(map(id, matches))
    return allowed


_MAX_MATCHES = 1_000_000
_NO_NAME = "\0"
_OfferKey: TypeAlias = tuple[str | None, ...]


class _OfferIndex:
    """The tools of a request by what a choice can say of them: a request may have thousands of
    tools, and a choice may name each."""

    def __init__(self, offers: Iterable[ToolOffer]) -> None:
        self._offers: defaultdict[_OfferKey, list[ToolOffer]] = defaultdict(list)
        for offer in offers:
            for key in _list_keys(offer):
                self._offers[key].append(offer)

    def find(self, choice: JSONObject) -> list[ToolOffer]:
        """Find the tools that a choice names, including those that are left out."""
        kind = family(str(choice.get("type")))
        name = _read_name(choice, "name")
        if kind in _BY_NAME:
            return self._find_by_name(kind, name, _read_name(choice, "namespace"))
        if kind == MCP:
            label = _read_name(choice, "server_label")
            return self._get(MCP, label) + self._get(MCP, label, name)
        return self._get(kind, name)

    def _find_by_name(self, kind: str, name: str | None, namespace: str | None) -> list[ToolOffer]:
        """Find the one tool of that name; the namespace may be omitted if only one has it."""
        exact = self._get(kind, name, namespace)
        if exact or namespace is not None:
            return exact
        namesakes = self._get(kind, name)
        if len(namesakes) > 1:
            raise _invalid(
                f"Several namespaces have a tool {name!r}; `tool_choice` must have a `namespace`."
            )
        return namesakes

    def _get(self, *key: str | None) -> list[ToolOffer]:
        return self._offers.get(key, [])


_BY_NAME = ("function", "custom")


def _read_name(choice: JSONObject, field: str) -> str | None:
    name = choice.get(field)
    return name if name is None or isinstance(name, str) else _NO_NAME


def _list_keys(offer: ToolOffer) -> Iterator[_OfferKey]:
    """What choices say of a tool: its kind and name, its namespace, or its server. Where the
    gateway does not know the tools of a server, the server stands for all of them."""
    kind = family(offer.type)
    if offer.namespace is not None:
        yield "namespace", offer.namespace
    if kind in _BY_NAME:
        yield from ((kind, offer.name), (kind, offer.name, offer.namespace))
    elif kind != MCP:
        yield from ((kind, None), (kind, offer.name))
    elif offer.handling != "declared":
        yield from ((MCP, None), (MCP, offer.name))
    else:
        for label in (None, offer.namespace):
            yield from ((MCP, label, None), (MCP, label, offer.name))


def _label(choice: object) -> str:
    if not isinstance(choice, Mapping):
        return repr(choice)
    name = choice.get("name", choice.get("server_label"))
    return repr(choice.get("type")) if name is None else f"{choice.get('type')} {name!r}"


def _invalid(message: str) -> InvalidRequest:
    return InvalidRequest(message, param="tool_choice")


def _degraded(message: str) -> Diagnostic:
    return degraded(Code.TOOL_CHOICE_DEGRADED, "tool_choice", message)
