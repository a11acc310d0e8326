"""One session with an MCP server, by the official client package.

The package opens and closes cancel scopes around a session, so one task of its own holds it from
its beginning to its end. Requests are made by other tasks. Streamable HTTP is tried first; a server
that refuses it in the way of the specification gets the older transport (SSE).

Nothing is raised for what a server does: a request returns a `Failure`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Literal, TypeAlias

import mcp_types as protocol
from mcp.client.client import Client
from mcp.client.session import ClientSession, IncomingMessage
from mcp.shared.exceptions import MCPError
from msgspec import Struct
from pydantic import TypeAdapter

from antiphon.config import McpConfig
from antiphon.core.mcp.values import McpProblem, McpResult
from antiphon.mcp.addresses import Network
from antiphon.mcp.connector import Connector
from antiphon.mcp.content import ReadTools, read_result, read_tools
from antiphon.mcp.exchange import (
    Deadline,
    Exchange,
    current_exchange,
    silence_sessions,
)
from antiphon.mcp.policy import Endpoint
from antiphon.mcp.problems import CLOSED, http_problem, protocol_problem, unreadable_problem
from antiphon.mcp.urls import Location

_CLOSE_S = 2.0
_MAX_PAGES = 100
_REFUSES_STREAMABLE = frozenset({400, 404, 405, 406, 415, 422, 501})
_DEAD = "Connection closed"  # how the package says that a session has ended
_CLIENT = protocol.Implementation(name="antiphon", version="1")
_CALL_RESULT: TypeAdapter[protocol.CallToolResult | protocol.InputRequiredResult]
_CALL_RESULT = TypeAdapter(protocol.CallToolResult | protocol.InputRequiredResult)

_Connect: TypeAlias = Callable[[], AbstractAsyncContextManager[Any]]
_Send: TypeAlias = Callable[[ClientSession, Deadline], Awaitable[Any]]


class Failure(Struct, frozen=True):
    """Why a request has no result."""

    problem: McpProblem
    is_session_lost: bool = False
    """The server does not know the session, and has therefore not done what was requested."""


class ServerSession:
    """A session with one server: opened at once, closed by `begin_close`."""

    def __init__(
        self,
        endpoint: Endpoint,
        config: McpConfig,
        admits: Callable[[Location], bool],
        network: Network,
        on_list_changed: Callable[[], None],
    ) -> None:
        silence_sessions()
        self._endpoint = endpoint
        self._config = config
        self._connector = Connector(endpoint, config, admits, network)
        self._on_list_changed = on_list_changed
        self._opened: asyncio.Future[ClientSession | McpProblem] = asyncio.Future()
        self._closing = asyncio.Event()
        self._is_sse = False
        self._stream = Exchange()
        """The connection that holds the session: in the older transport, it has all replies."""
        self._is_retired = False
        self._requests = 0
        """Requests that wait for a result."""
        self._task = asyncio.create_task(self._hold(), name="mcp session")
        self._task.add_done_callback(self._settle)

    @property
    def is_usable(self) -> bool:
        """Whether it can take another request, or is still being opened."""
        return not (self._task.done() or self._closing.is_set() or self._is_retired)

    def retire(self) -> None:
        """Take no more requests, and end with the last result: the server does not know the session
        any more, or nothing can be sent to it, but it may still carry out what it was asked before.
        """
        self._is_retired = True
        if not self._requests:
            self.begin_close()

    def begin_close(self) -> None:
        """Have the session end, within a bounded time."""
        self._closing.set()
        if not self._opened.done():
            self._task.cancel()

    async def wait_closed(self) -> None:
        await asyncio.wait({self._task})

    # Requests

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> McpResult | Failure:
        """Call a tool; cancelled, it has the server cancel the call, too."""
        params = protocol.CallToolRequestParams(name=tool, arguments=dict(arguments))
        message = protocol.CallToolRequest(params=params)
        send: _Send = lambda session, deadline: session.send_request(  # noqa: E731
            message, _CALL_RESULT, progress_callback=deadline.extend
        )
        result = await self._request(send)
        if isinstance(result, Failure) and result.problem.code == protocol.HEADER_MISMATCH:
            await self.list_tools()  # the package reads from it which headers a call needs
            result = await self._request(send)
        if isinstance(result, Failure):
            return result
        if not isinstance(result, protocol.CallToolResult):
            return self._fail("asks for input during a call, which is not supported")
        document = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        return read_result(document, self._config)

    async def list_tools(self) -> ReadTools | Failure:
        """List the tools of all pages, up to the limit."""
        try:
            async with asyncio.timeout(self._config.call_timeout_s):
                return await self._list_pages()
        except TimeoutError:
            return Failure(self._describe("did not send its list of tools in time"))

    async def _list_pages(self) -> ReadTools | Failure:
        config = self._config
        tools = ReadTools()
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await self._request(partial(_send_list_request, cursor))
            if isinstance(page, Failure):
                return page
            document = page.model_dump(by_alias=True, mode="json", exclude_none=True)
            tools = read_tools(document["tools"], tools)
            if len(tools.tools) + len(tools.left_out) > config.max_tools:
                limit = f"`max_tools` = {config.max_tools} in [mcp]"
                return self._fail(f"lists more tools than {limit} of the gateway allows")
            if tools.size > config.max_list_bytes:
                limit = f"`max_list_bytes` = {config.max_list_bytes} in [mcp]"
                return self._fail(f"lists more bytes than {limit} of the gateway allows")
            cursor = page.next_cursor
            if cursor is None:
                return tools
        return self._fail("does not end its list of tools")

    async def _request(self, send: _Send) -> Any:
        """Return the result of a request, or a `Failure`. Each has a task of its own, and so a
        context of its own."""
        session = await asyncio.shield(self._opened)
        if isinstance(session, McpProblem):
            return Failure(session)
        config = self._config
        deadline = Deadline(config.idle_timeout_s, config.call_timeout_s)
        exchange = Exchange(deadline.expire if self._is_sse else None)
        token = current_exchange.set(exchange)
        self._requests += 1
        try:
            async with deadline:
                return await send(session, deadline)
        except TimeoutError:
            return Failure(exchange.problem or self._describe("did not send a result in time"))
        except MCPError as error:
            return Failure(self._explain(error, exchange), self._is_lost(error, exchange))
        except Exception as error:  # the package raises errors of pydantic, and others
            return Failure(self._explain(error, exchange))
        finally:
            current_exchange.reset(token)
            self._requests -= 1
            if self._is_retired:
                self.retire()

    def _is_lost(self, error: MCPError, exchange: Exchange) -> bool:
        """Whether the server cannot have done what was requested, because it does not know the
        session (some servers say so with status 400), or because nothing was sent."""
        if error.message == _DEAD:  # the older transport may still receive what it waits for
            self.retire()
        unknown = exchange.status == 400 and "session" in error.message.lower()
        return exchange.is_session_lost or unknown or not exchange.is_sent

    # The task that holds the session

    def _settle(self, task: asyncio.Task[McpProblem]) -> None:
        """Tell those who wait for the session that there will be none; the task may have been
        cancelled before it began."""
        if not self._opened.done():
            self._opened.set_result(CLOSED if task.cancelled() else task.result())

    async def _hold(self) -> McpProblem:
        """Hold the session until it is closed; return why it ended, or was not opened."""
        problem, status = await self._hold_open(self._connector.open_streamable, "auto")
        if self._opened.done() or status not in _REFUSES_STREAMABLE:
            return problem
        self._is_sse = True
        found, status = await self._hold_open(self._connector.open_sse, "legacy")
        return problem if status in _REFUSES_STREAMABLE else found

    async def _hold_open(
        self, connect: _Connect, mode: Literal["auto", "legacy"]
    ) -> tuple[McpProblem, int | None]:
        """Open the session and hold it until it is closed; return why it ended, and the status of
        the last reply before it was open."""
        loop = asyncio.get_running_loop()
        limit = asyncio.timeout(self._config.connect_timeout_s)
        exchange = Exchange(partial(self._end_opening, limit) if self._is_sse else None)
        current_exchange.set(exchange)
        self._stream = exchange
        try:
            async with limit, self._make_client(connect, mode) as client:
                limit.reschedule(None)
                self._opened.set_result(client.session)
                await self._closing.wait()
                limit.reschedule(loop.time() + _CLOSE_S)
        except TimeoutError:
            problem = exchange.problem or self._describe("did not open a session in time")
            return problem, exchange.status
        except Exception as error:  # groups of errors of anyio, httpx2, pydantic, the package
            return self._explain(_find_cause(error), exchange), exchange.status
        return CLOSED, exchange.status

    def _end_opening(self, limit: asyncio.Timeout) -> None:
        """Wait no longer: the older transport leaves a request that failed without a result."""
        if not self._opened.done():
            limit.reschedule(asyncio.get_running_loop().time())

    def _make_client(self, connect: _Connect, mode: str) -> Client:
        return Client(
            connect(),
            mode=mode,
            client_info=_CLIENT,
            cache=None,
            message_handler=self._handle_message,
        )

    async def _handle_message(self, message: IncomingMessage) -> None:
        if isinstance(message, protocol.ToolListChangedNotification):
            self._on_list_changed()

    # Descriptions

    def _explain(self, error: Exception, exchange: Exchange) -> McpProblem:
        """Describe an error: by what the server said in the protocol, else by what HTTP did."""
        label = self._endpoint.label
        known = exchange.problem
        if known is not None and exchange.status not in (400, 404):
            return known
        if isinstance(error, MCPError):
            said = protocol_problem(label, error.code, error.message, self._endpoint.headers)
            if said is not None:
                return said
            if error.code == protocol.CONNECTION_CLOSED:
                lost = self._describe("ended the connection without a result")
                return known or self._stream.problem or lost
        elif not exchange.is_sent:  # such as certificates of this machine that cannot be loaded
            return self._describe(f"could not be called ({type(error).__name__})")
        return known or unreadable_problem(label, "sent a reply that is not one of the protocol")

    def _describe(self, what: str) -> McpProblem:
        return http_problem(f"MCP server '{self._endpoint.label}' {what}.")

    def _fail(self, what: str) -> Failure:
        return Failure(unreadable_problem(self._endpoint.label, what))


def _send_list_request(
    cursor: str | None, session: ClientSession, deadline: Deadline
) -> Awaitable[protocol.ListToolsResult]:
    params = None if cursor is None else protocol.PaginatedRequestParams(cursor=cursor)
    return session.list_tools(params=params)


def _find_cause(error: Exception) -> Exception:
    """Find the first error inside groups of errors."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
