"""Tools of MCP servers that the gateway runs: the servers of a request, and their offers.

A server's tools are declared to the provider as functions; each is called by its name at the
provider, and only the tools that the request allows are offered.

The parser of a client format may add a member `toolset` to the `mcp` tool, for what the API has no
field for: `disabled` (names), `listed` (the tools of the server), `deferred`, `off` for a server
without a tool that may be called, and `url_at`, the path of its URL in the client's request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from msgspec import Struct

from antiphon.core.history.content import mapping, mappings, string, strings
from antiphon.core.mcp.values import McpServer, McpTool

MCP = "mcp"
TOOLSET = "toolset"
"""The member of an `mcp` tool that only some client formats have."""


class McpRules(Protocol):
    """The rules of an operator for the servers that requests name."""

    def find_refusal(self, server: McpServer) -> str:
        """Say why a server may not be called; empty: it may."""

    def requires_approval(self, server: McpServer) -> bool:
        """Whether calls need an approval in a request that does not say."""


class ToolFilter(Struct, frozen=True):
    """`tool_names` and `read_only`: a tool has to match both, or the one that is set."""

    names: frozenset[str] | None = None
    read_only: bool | None = None

    def matches(self, tool: McpTool) -> bool:
        if self.names is not None and tool.name not in self.names:
            return False
        return self.read_only is None or self.read_only == is_read_only(tool)


class Approval(Struct, frozen=True):
    """`require_approval`: of all tools, of none, or by filters. A tool that no filter names needs
    an approval."""

    mode: Literal["always", "never", "filters"] = "always"
    always: ToolFilter | None = None
    never: ToolFilter | None = None

    def is_needed(self, tool: McpTool) -> bool:
        if self.mode != "filters":
            return self.mode == "always"
        if self.always is not None and self.always.matches(tool):
            return True
        return self.never is None or not self.never.matches(tool)


class McpToolset(Struct, frozen=True, kw_only=True):
    """One `mcp` tool of a request: a server, which of its tools may be called, and how."""

    server: McpServer
    description: str = ""
    allowed: ToolFilter | None = None
    disabled: frozenset[str] = frozenset()
    """Tools that may not be called, even if they are allowed."""
    listed: tuple[McpTool, ...] | None = None
    """The tools of the server, if the client sends their list with it: the server is not asked."""
    approval: Approval = Approval()
    document: Mapping[str, Any] = {}
    """The tool as the client declared it."""

    @property
    def label(self) -> str:
        return self.server.label

    def allows(self, tool: McpTool) -> bool:
        if tool.name in self.disabled:
            return False
        return self.allowed is None or self.allowed.matches(tool)


class McpOffer(Struct, frozen=True, kw_only=True):
    """A tool of a server that the model may call."""

    server: McpServer
    tool: str
    needs_approval: bool = True


class ApprovedCall(Struct, frozen=True, kw_only=True):
    """A call that the client has approved, and that was not made yet."""

    request_id: str
    """The id of the `mcp_approval_request`."""
    toolset: McpToolset
    tool: str
    arguments: str


class McpPlan(Struct, frozen=True, kw_only=True):
    """What a plan says of MCP servers."""

    toolsets: tuple[McpToolset, ...] = ()
    listed: Mapping[str, tuple[McpTool, ...]] = {}
    """Tools that the thread lists, by the label of the server."""
    unlisted: tuple[McpToolset, ...] = ()
    """Servers whose tools have to be listed before the model is asked."""
    approved: tuple[ApprovedCall, ...] = ()
    """Calls to make before the model is asked."""
    offers: Mapping[str, McpOffer] = {}
    """By the name at the provider."""
    max_calls: int | None = None
    calls_made: int = 0
    """Calls that were made before the model was asked."""
    takes_images: bool = False

    @property
    def needs_opening(self) -> bool:
        """Whether servers have to be asked before the model is."""
        return bool(self.unlisted or self.approved)


def is_read_only(tool: McpTool) -> bool:
    """Whether the server says that a tool changes nothing; in a list that the gateway made, the
    mark has another name."""
    annotations = tool.annotations or {}
    return True in (annotations.get("readOnlyHint"), annotations.get("read_only"))


def read_toolset(tool: Mapping[str, Any], rules: McpRules) -> McpToolset:
    """Read an `mcp` tool whose fields have been validated."""
    more = mapping(tool.get(TOOLSET))
    server = McpServer(
        label=tool["server_label"],
        url=string(tool.get("server_url")) or "",
        url_at=string(more.get("url_at")) or "server_url",
        headers=_read_headers(tool),
    )
    default = "always" if rules.requires_approval(server) else "never"
    return McpToolset(
        server=server,
        description=string(tool.get("server_description")) or "",
        allowed=_read_filter(tool.get("allowed_tools")),
        disabled=frozenset(strings(more.get("disabled"))),
        listed=read_tools(more["listed"]) if "listed" in more else None,
        approval=_read_approval(tool.get("require_approval") or default),
        document=tool,
    )


def _read_headers(tool: Mapping[str, Any]) -> dict[str, str]:
    headers: dict[str, str] = dict(tool.get("headers") or {})
    token = string(tool.get("authorization"))
    if token:
        headers = {name: headers[name] for name in headers if name.lower() != "authorization"}
        headers["Authorization"] = f"Bearer {token.removeprefix('Bearer ')}"
    return headers


def _read_filter(value: Any) -> ToolFilter | None:
    if isinstance(value, list):
        return ToolFilter(names=frozenset(value))
    if not isinstance(value, Mapping):
        return None
    names = value.get("tool_names")
    return ToolFilter(
        names=None if names is None else frozenset(names), read_only=value.get("read_only")
    )


def _read_approval(value: Any) -> Approval:
    if isinstance(value, Mapping):
        given = mapping(value)
        return Approval(
            "filters", _read_filter(given.get("always")), _read_filter(given.get("never"))
        )
    return Approval("always" if value == "always" else "never")


def read_tools(documents: Any) -> tuple[McpTool, ...]:
    """Read a list of tools that a client sends; one without a name is none."""
    tools = map(_read_tool, mappings(documents))
    return tuple(tool for tool in tools if tool is not None)


def _read_tool(document: Mapping[str, Any]) -> McpTool | None:
    """Read a tool of a list in the history; None: it has no name."""
    name = string(document.get("name"))
    if not name:
        return None
    annotations = document.get("annotations")
    return McpTool(
        name=name,
        description=string(document.get("description")) or "",
        input_schema=mapping(document.get("input_schema")),
        annotations=annotations if isinstance(annotations, Mapping) else None,
    )
