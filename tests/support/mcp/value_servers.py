"""MCP servers as values: what each lists, and what its tools return. No network, no protocol."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from antiphon.core.mcp.values import (
    McpProblem,
    McpResult,
    McpServer,
    McpTool,
    McpToolList,
)
from antiphon.engine.engine import Engine
from antiphon.engine.prepare import Preparer

Respond: TypeAlias = Callable[[Mapping[str, Any]], McpResult]

CITY: Mapping[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}
WEATHER = McpTool(name="weather", description="The weather of a city.", input_schema=CITY)
READ_ONLY = McpTool(name="read", annotations={"readOnlyHint": True})
DOWN = McpProblem(type="http_error", message="The server replied with HTTP 401.", code=401)


def sunny(arguments: Mapping[str, Any]) -> McpResult:
    return McpResult(text=f"Sunny in {arguments.get('city')}.")


class ValueRules:
    """Rules that allow every server but `refused`."""

    def __init__(self, *, approval: bool = True) -> None:
        """`approval`: whether calls need one in requests that do not say."""
        self._approval = approval

    def find_refusal(self, server: McpServer) -> str:
        return "MCP server 'refused' cannot be called." if server.label == "refused" else ""

    def requires_approval(self, server: McpServer) -> bool:
        return self._approval


class ValueServers(ValueRules):
    """Servers by label, and all that they were asked: the client of a gateway, and its sessions."""

    def __init__(self, **lists: McpToolList) -> None:
        super().__init__()
        self.lists = lists
        self.tools: dict[tuple[str, str], Respond] = {}
        self.asked: list[tuple[str, ...]] = []
        """`("list", label)`, `("call", label, tool)`, `("close",)`"""
        self.servers: list[McpServer] = []
        self.blocked: set[str] = set()
        """Tools that never return."""
        self.begun = asyncio.Event()
        """Set when a tool that never returns was called."""
        self.interrupted: list[str] = []
        """Tools that never returned, and whose calls were cancelled."""
        self.listing = asyncio.Event()
        """Cleared: lists wait until it is set."""
        self.listing.set()

    def open_sessions(self) -> ValueServers:
        return self

    async def list_tools(self, server: McpServer) -> McpToolList:
        self.asked.append(("list", server.label))
        self.servers.append(server)
        await self.listing.wait()
        return self.lists[server.label]

    async def call(self, server: McpServer, tool: str, arguments: Mapping[str, Any]) -> McpResult:
        self.asked.append(("call", server.label, tool))
        if tool in self.blocked:
            self.begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.interrupted.append(tool)
        return self.tools.get((server.label, tool), sunny)(arguments)

    async def close(self) -> None:
        self.asked.append(("close",))


def weather_server(*others: McpTool) -> ValueServers:
    """One server, `sky`, with a tool `weather` and these."""
    return ValueServers(sky=McpToolList(tools=(WEATHER, *others)))


def use_servers(engine: Engine, servers: ValueServers) -> None:
    """Let the requests of an engine use these servers."""
    engine.services = dataclasses.replace(engine.services, mcp=servers)
    engine.preparer = Preparer(engine.router, engine.services)
