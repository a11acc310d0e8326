"""Calls of MCP servers for one response: its connections, and a report of each call.

Connections are opened with the first call. The run hands them over when it is left, and they are
closed without it (`ClosingConnections`). A request that names no server has none of this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeAlias

from antiphon.core.filters.gateway_call import GatewayCall
from antiphon.core.mcp.server_calls import ListToolsCall, ToolCallRequest
from antiphon.core.mcp.values import McpProblem, McpResult, McpSessions, McpToolList
from antiphon.engine.report import ServerCallReport

OpenSessions: TypeAlias = Callable[[], McpSessions]
"""Makes the connections of one response to MCP servers; they are opened on first use."""
_NAME_CHARS = 200  # of what clients and servers call something
MakeOtherCall: TypeAlias = Callable[[GatewayCall], Awaitable[object]]


class McpCalls:
    """Makes the calls of one response to MCP servers, and passes on those of any other kind."""

    def __init__(
        self,
        open_sessions: OpenSessions,
        make_other: MakeOtherCall,
        clock: Callable[[], float],
        record: Callable[[ServerCallReport], None],
    ) -> None:
        """`clock` returns seconds; `record` gets the report of each call."""
        self._open = open_sessions
        self._make_other = make_other
        self._clock = clock
        self._record = record
        self._sessions: McpSessions | None = None

    async def make(self, call: GatewayCall) -> object:
        """Make a call; return its outcome."""
        if isinstance(call, ListToolsCall):
            return await self._list_tools(call)
        if isinstance(call, ToolCallRequest):
            return await self._call_tool(call)
        return await self._make_other(call)

    async def close(self) -> None:
        """Close the connections, if there are any."""
        sessions, self._sessions = self._sessions, None
        if sessions is not None:
            await sessions.close()

    def _connect(self) -> McpSessions:
        if self._sessions is None:
            self._sessions = self._open()
        return self._sessions

    async def _list_tools(self, call: ListToolsCall) -> McpToolList:
        began = self._clock()
        found = await self._connect().list_tools(call.server)
        self._record(
            ServerCallReport(
                server=call.server.label[:_NAME_CHARS],
                item_id=call.call_id,
                error=None if found.problem is None else found.problem.type,
                reason=_find_reason(found.problem),
                result_bytes=len(found.tools),
                duration_ms=(self._clock() - began) * 1000,
            )
        )
        return found

    async def _call_tool(self, call: ToolCallRequest) -> McpResult:
        began = self._clock()
        result = await self._connect().call(call.server, call.tool, call.values or {})
        self._record(
            ServerCallReport(
                server=call.server.label[:_NAME_CHARS],
                tool=call.tool[:_NAME_CHARS],
                item_id=call.call_id,
                error=_error_type(result),
                reason=_find_reason(result.problem),
                result_bytes=_size(result),
                duration_ms=(self._clock() - began) * 1000,
            )
        )
        return result


class ClosingConnections:
    """Connections of responses that have ended. A server may take a while to end a session, and no
    client waits for that; the process does, when it ends."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(self, closing: Coroutine[Any, Any, None]) -> None:
        """Close connections from now on; `closing` takes a bounded time, and does not raise."""
        task = asyncio.create_task(closing)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Wait until all are closed."""
        while self._tasks:
            await asyncio.wait(self._tasks)


def _error_type(result: McpResult) -> str | None:
    if result.problem is not None:
        return result.problem.type
    return "mcp_tool_execution_error" if result.is_error else None


def _find_reason(problem: McpProblem | None) -> str | None:
    """Why a server could not be used, without its own words."""
    if problem is None:
        return None
    if problem.quotes:
        return f"The server returned the error {problem.code} of the protocol."
    return problem.message


def _size(result: McpResult) -> int:
    """The size of a result, as the gateway keeps it."""
    return len(result.text.encode(errors="surrogatepass")) + sum(
        len(each.data) for each in result.images
    )
