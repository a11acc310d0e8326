"""All tools of one request, in order, each with a unique name at the provider.

A name is derived from the tool alone, so it stays the same from turn to turn whatever other tools
there are; a later tool that would have the same name gets a suffix, a hash of its identity.
Tools in the input belong to the history, which the client sends with every later request: an error
in one of those is a diagnostic, never a rejected request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import msgspec
from msgspec import structs

from antiphon.core.capabilities import Capabilities
from antiphon.core.diagnostic import Code, ignored
from antiphon.core.freeform.grammar import declared_grammar
from antiphon.core.history.client_format import FormatSupport, read_extra
from antiphon.core.history.content import mapping
from antiphon.core.history.steps import Step, ToolCallStep
from antiphon.core.mcp.toolset import MCP, TOOLSET
from antiphon.core.plan.hosted_tools import REFUSE, HostedToolPolicy, refuse_tool
from antiphon.core.plan.parse_tool import (
    Key,
    Origin,
    ToolOffer,
    note_deferred,
    parse_tool,
    read_tool_name,
    tool_ignored,
)
from antiphon.core.plan.plan import Notes
from antiphon.core.tools.identity import ToolIdentity, ToolIdentityMap
from antiphon.core.tools.naming import hashed_name, provider_name
from antiphon.core.web_search.memory import HOSTED
from antiphon.core.web_search.rules import JSONObject
from antiphon.errors import InvalidRequest

_MAX_GRAMMARS = 32


class ToolRegistry:
    """The tools of one request, and their names at the provider."""

    def __init__(
        self, capabilities: Capabilities, notes: Notes, policy: HostedToolPolicy = REFUSE
    ) -> None:
        self.offers: dict[Key, ToolOffer] = {}
        """The tools that can be declared."""
        self.hosted: list[ToolOffer] = []
        """The tools that the provider runs itself, and those that are ignored."""
        self.names: dict[Key, str] = {}
        self.servers: list[tuple[str, JSONObject]] = []
        """MCP servers that the gateway asks: where each is declared, and how."""
        self.groups: dict[str, str] = {}
        """Descriptions of namespaces."""
        self._notes = notes
        self._capabilities = capabilities
        self._policy = policy
        self._taken: set[str] = set()
        self._grammars: set[str] = set()
        self._hosted: set[bytes] = set()

    # Adding tools

    def add_request_tools(self, tools: Sequence[JSONObject]) -> None:
        """Add the request's own `tools`; an error in one rejects the request."""
        for index, tool in enumerate(tools):
            self._add(tool, f"tools[{index}]", "request")

    def add_input_tools(self, items: Sequence[JSONObject]) -> None:
        """Add tools from items of the input; they can be called from then on."""
        for index, item in enumerate(items):
            origin = _TOOL_ITEMS.get(str(item.get("type")))
            tools = item.get("tools")
            if origin is None or not isinstance(tools, list):
                continue
            for position, tool in enumerate(tools):
                self._add(tool, f"input[{index}].tools[{position}]", origin)

    def _add(self, tool: object, param: str, origin: Origin, namespace: str | None = None) -> None:
        kind = tool.get("type") if isinstance(tool, Mapping) else None
        try:
            if kind == "namespace" and namespace is None:
                self._add_namespace(cast("JSONObject", tool), param, origin)
            elif kind != MCP or not self._take_server(
                cast("JSONObject", tool), param, origin, namespace
            ):
                self._add_tool(tool, param, origin, namespace)
        except InvalidRequest as error:
            if origin == "request":
                raise
            message = f"A tool in the input is invalid and ignored: {error.message}"
            self._notes.append(tool_ignored("input", error.param or param, message))

    def _add_namespace(self, tool: JSONObject, param: str, origin: Origin) -> None:
        namespace = read_tool_name(tool, param)
        children = tool.get("tools")
        if not isinstance(children, list):
            raise InvalidRequest("`tools` of a namespace must be a list.", param=f"{param}.tools")
        about = tool.get("description")
        if isinstance(about, str) and about:
            self.groups.setdefault(namespace, about)
        for index, child in enumerate(children):
            self._add(child, f"{param}.tools[{index}]", origin, namespace)

    def _add_tool(self, tool: object, param: str, origin: Origin, namespace: str | None) -> None:
        self._count_grammar(tool, param)
        notes: Notes = []
        offer = parse_tool(
            tool, param, self._capabilities, notes, namespace=namespace, origin=origin
        )
        if origin == "request":
            self._refuse_unavailable(offer, f"{param}.type")
        if offer.handling != "declared":
            encoded = msgspec.json.encode(offer, order="sorted")
            if encoded in self._hosted:
                return
            self._hosted.add(encoded)
            self.hosted.append(offer)
        elif not self.add_offer(offer, param):
            return
        self._notes.extend(notes)

    def add_offer(self, offer: ToolOffer, param: str) -> bool:
        """Add a tool that can be declared; False: it is known already."""
        known = self.offers.get(offer.key)
        if known is None:
            self._take_name(offer, param)
            self.offers[offer.key] = offer
        elif known.same_as(offer):
            return False
        else:
            self._redeclare(known, offer, param)
        return True

    def _take_server(
        self, tool: JSONObject, param: str, origin: Origin, namespace: str | None
    ) -> bool:
        """Keep an MCP server that the gateway asks; False: it is none. One behind a connector of a
        vendor cannot be asked."""
        if origin != "request" or namespace is not None:
            return False
        if self._pass_on(tool):
            return True
        more = mapping(tool.get(TOOLSET))
        if more.get("off"):
            return True
        if tool.get("connector_id") or tool.get("tunnel_id"):
            return False
        if self._policy.mcp_rules(self._capabilities) is None:
            return MCP in self._capabilities.hosted_tools and self._reduce(tool, more, param)
        if more.get("deferred") or tool.get("defer_loading"):
            self._notes.append(note_deferred(tool, param, self._capabilities))
        self.servers.append((param, tool))
        return True

    def _pass_on(self, tool: JSONObject) -> bool:
        """Whether a provider of the client's own format gets the client's own list of servers, and
        what the client has declared of this one among its tools."""
        support = FormatSupport(client_blocks=self._capabilities.client_blocks)
        if read_extra(tool, support) is None:
            return False
        name = tool["server_label"]
        self.hosted.append(ToolOffer(type=MCP, name=name, handling="native", document=tool))
        return True

    def _reduce(self, tool: JSONObject, more: JSONObject, param: str) -> bool:
        """Report what a provider that calls a server itself does not take; True: the server is left
        out, because a restriction is never widened."""
        if more.get("deferred"):
            self._notes.append(note_deferred(tool, param, self._capabilities))
        if not more.get("disabled"):
            return False
        problem = (
            f"{self._capabilities.model_name} calls the MCP server {tool['server_label']!r} itself,"
            " and takes the names of enabled tools, but not of disabled ones. Name the tools to"
            " enable, and disable all others by default."
        )
        if self._policy.refuses(MCP):
            raise InvalidRequest(problem, param=param, code="unsupported_parameter")
        self._notes.append(tool_ignored(MCP, param, f"Tool 'mcp' is ignored: {problem}"))
        return True

    def _refuse_unavailable(self, offer: ToolOffer, param: str) -> None:
        if offer.type == MCP and "extra" in offer.document:
            return  # other gateways ignore servers in this format, and so do its clients
        if offer.unavailable and self._policy.refuses(offer.type):
            raise refuse_tool(offer.type, param, offer.unavailable, self._capabilities)

    def _count_grammar(self, tool: object, param: str) -> None:
        """Limit the grammars of a request: compiling one blocks all other requests."""
        form = tool.get("format") if isinstance(tool, Mapping) else None
        if isinstance(form, Mapping):
            self._grammars.add(str(form.get("definition")))
        if len(self._grammars) > _MAX_GRAMMARS:
            message = (
                f"`tools` may have at most {_MAX_GRAMMARS} different grammars. Send fewer of them."
            )
            raise InvalidRequest(message, param=f"{param}.format")

    def _take_name(self, offer: ToolOffer, param: str) -> None:
        if not self._assign_name(offer.key):
            message = f"Tool {offer.name!r} conflicts with the names of other tools. Rename it."
            raise InvalidRequest(message, param=f"{param}.name")

    def _redeclare(self, known: ToolOffer, offer: ToolOffer, param: str) -> None:
        if offer.origin == "request":
            problem = f"Two different tools have the name {offer.name!r}. Rename one of them."
            raise InvalidRequest(problem, param=f"{param}.name")
        if known.origin != "request":
            self.offers[offer.key] = offer
        message = (
            f"Tool {offer.name!r} has several different declarations; the one in the request's"
            " `tools` is used, else the last one."
        )
        self._notes.append(ignored(Code.TOOL_REDECLARED, param, message, offer.type))

    def _assign_name(self, key: Key) -> bool:
        namespace, name = key
        for candidate in (provider_name(name, namespace), hashed_name(name, namespace)):
            if candidate not in self._taken:
                self._taken.add(candidate)
                self.names[key] = candidate
                return True
        return False

    # Reading them

    def all_offers(self) -> list[ToolOffer]:
        return [*self.offers.values(), *self.hosted]

    def resolve_calls(self, steps: Sequence[Step]) -> tuple[Step, ...]:
        """Resolve the tool of every call in the history, whether it is still offered or not."""
        keys = [
            key
            for key, offer in reversed(self.offers.items())
            if key[0] != HOSTED and offer.type != MCP
        ]
        namespaces = {name: namespace for namespace, name in keys}
        return tuple(
            self._resolve_call(step, namespaces) if isinstance(step, ToolCallStep) else step
            for step in steps
        )

    def _resolve_call(
        self, call: ToolCallStep, namespaces: Mapping[str, str | None]
    ) -> ToolCallStep:
        key = (call.namespace, call.name)
        if key in self.names:
            return call
        if call.namespace is None and call.name in namespaces:
            # Some clients omit the namespace in calls: the first one with this tool is used.
            return structs.replace(call, namespace=namespaces[call.name])
        self._assign_name(key)
        return call

    def identities(self) -> ToolIdentityMap:
        return ToolIdentityMap(self._identity(key, name) for key, name in self.names.items())

    def _identity(self, key: Key, known_as: str) -> ToolIdentity:
        namespace, name = key
        offer = self.offers.get(key)
        if offer is None:
            return ToolIdentity(known_as, name, "function", namespace)
        grammar = declared_grammar(offer.document)
        strict = offer.document.get("strict") is True  # even if the provider does not enforce it
        return ToolIdentity(known_as, name, offer.tool_type, namespace, grammar, strict)


_TOOL_ITEMS: Mapping[str, Origin] = {"additional_tools": "input", "tool_search_output": "search"}
