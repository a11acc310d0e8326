"""What the core knows of MCP servers: the server of a request, its tools, the result of a call.

`antiphon.mcp` talks to servers; this module has the values that both sides use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct


class McpServer(Struct, frozen=True, kw_only=True):
    """An MCP server that a request names."""

    label: str
    """`server_label`: names the server in items and events of this response."""
    url: str = ""
    """`server_url`. Empty: the label is that of a server in the configuration."""
    url_at: str = "server_url"
    """Where the client has written the URL, for messages."""
    headers: Mapping[str, str] = {}
    """Headers of the client for this server, `authorization` among them: never stored, logged or
    traced."""

    def __repr__(self) -> str:
        return f"McpServer(label={self.label!r}, url={self.url!r}, headers={[*self.headers]})"


class McpTool(Struct, frozen=True, kw_only=True):
    """A tool as its server lists it."""

    name: str
    description: str = ""
    input_schema: Mapping[str, Any] = {}
    annotations: Mapping[str, Any] | None = None


class McpImage(Struct, frozen=True, kw_only=True):
    """An image in the result of a call."""

    media_type: str
    data: str
    """Base64."""


class McpProblem(Struct, frozen=True, kw_only=True):
    """Why a server could not be used, as the `error` of an item: no secrets, no addresses."""

    type: str
    """`http_error`, `mcp_protocol_error` or `mcp_tool_execution_error`, as the API has them."""
    message: str
    code: int | None = None
    quotes: bool = False
    """The message has words of the server, which may repeat those of a request: it is not for log
    and trace."""


class McpToolList(Struct, frozen=True, kw_only=True):
    """The tools of a server, or why there are none."""

    tools: tuple[McpTool, ...] = ()
    problem: McpProblem | None = None
    left_out: tuple[str, ...] = ()
    """Names of tools that were left out because of a limit."""


class McpResult(Struct, frozen=True, kw_only=True):
    """The result of one call of a tool."""

    text: str = ""
    """All text of the result, resources and structured content included."""
    images: tuple[McpImage, ...] = ()
    is_error: bool = False
    """The tool itself reports an error: `text` is for the model to read."""
    problem: McpProblem | None = None
    """The server could not be called, or replied with something else than a result."""
    left_out: int = 0
    """Bytes or parts of the result that were left out because of a limit."""


class McpSessions(Protocol):
    """The connections of one response to MCP servers. They are opened on first use."""

    async def list_tools(self, server: McpServer) -> McpToolList:
        """List the tools of a server; never raises for what a server does."""

    async def call(self, server: McpServer, tool: str, arguments: Mapping[str, Any]) -> McpResult:
        """Call a tool; never raises for what a server does."""

    async def close(self) -> None:
        """Close every connection, also while calls are being made."""
