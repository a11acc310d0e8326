"""The MCP servers of `antiphon check`: their names, and with `--live` their tools."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from msgspec import Struct
from rich.console import Console
from rich.text import Text

from antiphon.cli.terminal import make_table
from antiphon.config import Config
from antiphon.core.mcp.values import McpServer, McpSessions
from antiphon.mcp.open_client import open_mcp
from antiphon.stages.printable import printable


class ServerResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The tools of one server, or why there are none."""

    server: str
    ok: bool
    latency_ms: int
    tools: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    """Tools that exceed a limit."""
    message: str = ""


def describe_mcp(config: Config) -> str:
    """Describe the servers that may be called, without their URLs and headers."""
    if not config.mcp.enabled:
        return "no servers"
    names = ", ".join(config.mcp.servers) or "none by name"
    allowed = len(config.mcp.allow)
    urls = f", {allowed} allowed URL{'' if allowed == 1 else 's'} of clients" if allowed else ""
    return f"{names}{urls}"


async def list_servers(config: Config) -> list[ServerResult]:
    """List the tools of all configured servers, at the same time."""
    client = open_mcp(config, time.monotonic)
    if client is None:
        return []
    sessions = client.open_sessions()
    try:
        listing = (_list_tools(sessions, label) for label in config.mcp.servers)
        return await asyncio.gather(*listing)
    finally:
        await sessions.close()


async def _list_tools(sessions: McpSessions, label: str) -> ServerResult:
    began = time.monotonic()
    found = await sessions.list_tools(McpServer(label=label))
    return ServerResult(
        server=label,
        ok=found.problem is None,
        latency_ms=round((time.monotonic() - began) * 1000),
        tools=tuple(tool.name for tool in found.tools),
        left_out=found.left_out,
        message="" if found.problem is None else found.problem.message,
    )


def print_servers(console: Console, results: Sequence[ServerResult]) -> None:
    columns = ("MCP server", "result", "latency", "tools")
    table = make_table(*columns, right=["latency"], optional=["latency"], wrapped=["tools"])
    for result in results:
        shown = Text("ok", style="bold green") if result.ok else Text("failed", style="bold red")
        table.add_row(
            Text(result.server, style="bold"),
            shown,
            f"{result.latency_ms:,} ms",
            Text(printable(_describe_result(result))),
        )
    console.print(table)


def _describe_result(result: ServerResult) -> str:
    if not result.ok:
        return result.message
    names = ", ".join(result.tools) or "none"
    left_out = ", ".join(result.left_out)
    return f"{names} (left out, because they exceed a limit: {left_out})" if left_out else names
