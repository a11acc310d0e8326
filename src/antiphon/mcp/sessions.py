"""The sessions of one response with MCP servers: opened on first use, closed with the response."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from antiphon.config import McpConfig
from antiphon.core.mcp.values import McpProblem, McpResult, McpServer, McpToolList
from antiphon.mcp.addresses import Network
from antiphon.mcp.list_cache import ListCache
from antiphon.mcp.policy import Endpoint, Policy
from antiphon.mcp.problems import CLOSED

if TYPE_CHECKING:  # it loads the client package: only where a server is configured (`open_mcp`)
    from antiphon.mcp.session import Failure, ServerSession

T = TypeVar("T", McpToolList, McpResult)
V = TypeVar("V")
_CANCEL_S = 2.0


class Sessions:
    """Implements `McpSessions`."""

    def __init__(
        self, config: McpConfig, policy: Policy, cache: ListCache, network: Network
    ) -> None:
        self._config = config
        self._policy = policy
        self._cache = cache
        self._network = network
        self._sessions: dict[bytes, ServerSession] = {}
        self._ended: list[ServerSession] = []
        """Sessions that were lost or failed; their tasks may still be ending."""
        self._requests: set[asyncio.Task[Any]] = set()
        self._changes = 0
        """How often a server said that its list of tools has changed."""
        self._is_closed = False

    async def list_tools(self, server: McpServer) -> McpToolList:
        endpoint = self._policy.find_endpoint(server)
        if isinstance(endpoint, McpProblem):
            return McpToolList(problem=endpoint)
        known = self._cache.get(self._cache.make_key(endpoint))
        if known is not None:
            return known
        return await self._run(self._list(endpoint), McpToolList(problem=CLOSED))

    async def call(self, server: McpServer, tool: str, arguments: Mapping[str, Any]) -> McpResult:
        endpoint = self._policy.find_endpoint(server)
        if isinstance(endpoint, McpProblem):
            return McpResult(problem=endpoint)
        return await self._run(self._call(endpoint, tool, arguments), McpResult(problem=CLOSED))

    async def close(self) -> None:
        self._is_closed = True
        if self._requests:
            for task in self._requests:
                task.cancel()
            await asyncio.wait(self._requests, timeout=_CANCEL_S)
        sessions = [*self._ended, *self._sessions.values()]
        for session in sessions:
            session.begin_close()
        for session in sessions:
            await session.wait_closed()

    async def _run(self, request: Coroutine[Any, Any, T], closed: T) -> T:
        """Run a request in a task of its own, which `close` can cancel."""
        if self._is_closed:
            request.close()
            return closed
        task = asyncio.create_task(request)
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)
        try:
            return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if self._is_closed and current is not None and not current.cancelling():
                return closed
            raise

    async def _list(self, endpoint: Endpoint) -> McpToolList:
        from antiphon.mcp.session import Failure

        changes = self._changes
        found = await self._request(endpoint, lambda session: session.list_tools())
        if isinstance(found, Failure):
            return McpToolList(problem=found.problem)
        listed = McpToolList(tools=found.tools, left_out=found.left_out)
        if self._changes == changes:
            self._cache.add(self._cache.make_key(endpoint), listed, found.size)
        return listed

    async def _call(self, endpoint: Endpoint, tool: str, arguments: Mapping[str, Any]) -> McpResult:
        from antiphon.mcp.session import Failure

        result = await self._request(endpoint, lambda session: session.call(tool, arguments))
        return McpResult(problem=result.problem) if isinstance(result, Failure) else result

    async def _request(
        self, endpoint: Endpoint, send: Callable[[ServerSession], Awaitable[V | Failure]]
    ) -> V | Failure:
        """Send a request; if the server does not know the session any more, once more in a new
        one. A request that may have been carried out is not repeated."""
        from antiphon.mcp.session import Failure

        session = self._find_session(endpoint)
        result = await send(session)
        if isinstance(result, Failure) and result.is_session_lost:
            session.retire()
            result = await send(self._find_session(endpoint))
        return result

    def _find_session(self, endpoint: Endpoint) -> ServerSession:
        from antiphon.mcp.session import ServerSession

        key = self._cache.make_key(endpoint)
        session = self._sessions.get(key)
        if session is not None and session.is_usable:
            return session
        if session is not None:
            self._ended.append(session)
        self._sessions[key] = ServerSession(
            endpoint,
            self._config,
            self._policy.admits,
            self._network,
            lambda: self._forget_list(key),
        )
        return self._sessions[key]

    def _forget_list(self, key: bytes) -> None:
        self._changes += 1
        self._cache.forget(key)
