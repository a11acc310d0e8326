"""Every tool on offer, in the order it was offered, each under one name at the provider.

A name is made from the tool alone, so it stays the same from turn to turn whatever else is offered;
only a tool that comes later and would share it carries a mark, and the mark is a hash of who it is.
Tools in the input belong to a history, and a history must always be servable: what is wrong with
one of those is a diagnostic, never an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from msgspec import structs

from antiphon.core.diagnostic import Code, Decision, Diagnostic
from antiphon.core.freeform.grammar import declared_grammar
from antiphon.core.history.steps import Step, ToolCallStep
from antiphon.core.plan.plan import Capabilities
from antiphon.core.planning.parse_tool import (
    JSONObject,
    Key,
    Origin,
    ToolOffer,
    left_out,
    parse_tool,
    tool_name,
)
from antiphon.core.tools.identity import ToolIdentity, ToolIdentityMap
from antiphon.core.tools.naming import marked_name, provider_name
from antiphon.core.web_search.memory import HOSTED
from antiphon.errors import InvalidRequest

_MOST_GRAMMARS = 32


class Toolbox:
    """The tools of one request: what they are, what they are called, what was said about them."""

    def __init__(self, capabilities: Capabilities) -> None:
        self.offers: dict[Key, ToolOffer] = {}
        """The tools that can be declared."""
        self.hosted: list[ToolOffer] = []
        """The tools that the provider runs itself, and those that are left out."""
        self.names: dict[Key, str] = {}
        self.groups: dict[str, str] = {}
        """What was said about a namespace as a whole."""
        self.diagnostics: list[Diagnostic] = []
        self._capabilities = capabilities
        self._taken: set[str] = set()
        self._grammars: set[str] = set()

    # Filling it

    def add_declared(self, tools: Sequence[JSONObject]) -> None:
        """The tools of the request itself: a mistake in one is the client's to mend."""
        for index, tool in enumerate(tools):
            self._add(tool, f"tools[{index}]", "request")

    def add_carried(self, items: Sequence[JSONObject]) -> None:
        """Tools that items of the input bring along; they can be called from then on."""
        for index, item in enumerate(items):
            origin = _CARRIERS.get(str(item.get("type")))
            tools = item.get("tools")
            if origin is None or not isinstance(tools, list):
                continue
            for place, tool in enumerate(tools):
                self._add(tool, f"input[{index}].tools[{place}]", origin)

    def _add(self, tool: object, param: str, origin: Origin, namespace: str | None = None) -> None:
        grouped = isinstance(tool, Mapping) and tool.get("type") == "namespace"
        try:
            if grouped and namespace is None:
                self._add_namespace(cast("JSONObject", tool), param, origin)
            else:
                self._admit(tool, param, origin, namespace)
        except InvalidRequest as error:
            if origin == "request":
                raise
            message = f"A tool in the input was left out: {error.message}"
            self.diagnostics.append(left_out("input", error.param or param, message))

    def _add_namespace(self, tool: JSONObject, param: str, origin: Origin) -> None:
        namespace = tool_name(tool, param)
        children = tool.get("tools")
        if not isinstance(children, list):
            raise InvalidRequest("A namespace is a list of tools.", param=f"{param}.tools")
        about = tool.get("description")
        if isinstance(about, str) and about:
            self.groups.setdefault(namespace, about)
        for index, child in enumerate(children):
            self._add(child, f"{param}.tools[{index}]", origin, namespace)

    def _admit(self, tool: object, param: str, origin: Origin, namespace: str | None) -> None:
        self._count_grammar(tool, param)
        offer, diagnostics = parse_tool(
            tool, param, self._capabilities, namespace=namespace, origin=origin
        )
        if offer in self.hosted:
            return
        if offer.fate != "declared":
            self.hosted.append(offer)
        elif (known := self.offers.get(offer.key)) is None:
            self._take_name(offer, param)
            self.offers[offer.key] = offer
        elif known.same_as(offer):
            return
        else:
            self._redeclare(known, offer, param)
        self.diagnostics += diagnostics

    def _count_grammar(self, tool: object, param: str) -> None:
        """To read a grammar takes time that other requests wait for."""
        form = tool.get("format") if isinstance(tool, Mapping) else None
        if isinstance(form, Mapping):
            self._grammars.add(str(form.get("definition")))
        if len(self._grammars) > _MOST_GRAMMARS:
            message = f"A request may have {_MOST_GRAMMARS} different grammars at most."
            raise InvalidRequest(message, param=f"{param}.format")

    def _take_name(self, offer: ToolOffer, param: str) -> None:
        if not self._name(offer.key):
            message = f"No name is free for the tool {offer.name!r}."
            raise InvalidRequest(message, param=f"{param}.name")

    def _redeclare(self, known: ToolOffer, offer: ToolOffer, param: str) -> None:
        if offer.origin == "request":
            raise InvalidRequest(
                f"Two different tools are named {offer.name!r}.", param=f"{param}.name"
            )
        if known.origin != "request":
            self.offers[offer.key] = offer
        self.diagnostics.append(
            Diagnostic(
                code=Code.TOOL_REDECLARED,
                decision=Decision.IGNORED,
                param=param,
                message=f"The tool {offer.name!r} is declared in several ways: the request's own"
                " declaration counts, else the last one.",
                subject=offer.type,
            )
        )

    def _name(self, key: Key) -> bool:
        namespace, name = key
        for candidate in (provider_name(name, namespace), marked_name(name, namespace)):
            if candidate not in self._taken:
                self._taken.add(candidate)
                self.names[key] = candidate
                return True
        return False

    # Reading it

    def everything(self) -> list[ToolOffer]:
        return [*self.offers.values(), *self.hosted]

    def place(self, steps: Sequence[Step]) -> tuple[Step, ...]:
        """The steps with every call under a tool that has a name, whether still on offer or not."""
        offered = [key for key in reversed(self.offers) if key[0] != HOSTED]
        homes = {name: namespace for namespace, name in offered}
        return tuple(
            self._placed(step, homes) if isinstance(step, ToolCallStep) else step for step in steps
        )

    def _placed(self, call: ToolCallStep, homes: Mapping[str, str | None]) -> ToolCallStep:
        key = (call.namespace, call.name)
        if key in self.names:
            return call
        if call.namespace is None and call.name in homes:
            # A client may leave out a namespace that it takes for granted: the first one counts.
            return structs.replace(call, namespace=homes[call.name])
        self._name(key)
        return call

    def identities(self) -> ToolIdentityMap:
        return ToolIdentityMap(self._identity(key, name) for key, name in self.names.items())

    def _identity(self, key: Key, known_as: str) -> ToolIdentity:
        namespace, name = key
        offer = self.offers.get(key)
        if offer is None:
            return ToolIdentity(known_as, name, "function", namespace)
        grammar = declared_grammar(offer.document)
        return ToolIdentity(known_as, name, offer.tool_type, namespace, grammar)


_CARRIERS: Mapping[str, Origin] = {"additional_tools": "input", "tool_search_output": "search"}
