"""Calls of MCP servers: connections are opened once, closed once, and each call is reported."""

from __future__ import annotations

import asyncio

from antiphon.core.filters.gateway_call import GatewayCall
from antiphon.core.mcp.server_calls import ListToolsCall, ToolCallRequest
from antiphon.core.mcp.values import McpImage, McpProblem, McpResult, McpServer, McpToolList
from antiphon.core.web_search.rules import SearchRules
from antiphon.core.web_search.search_call import SearchCall
from antiphon.engine.mcp_calls import ClosingConnections, McpCalls
from antiphon.engine.report import ServerCallReport
from tests.support.mcp.value_servers import DOWN, ValueServers, weather_server

SKY = McpServer(label="sky")
LIST = ListToolsCall(call_id="mcpl_1", server=SKY, number=-1)
CALL = ToolCallRequest(
    call_id="mcp_1", server=SKY, number=-2, tool="weather", arguments="{}", values={"city": "Ulm"}
)


class Calls:
    """Calls of these servers, and their reports. Each reading of the clock is a second later."""

    def __init__(self, servers: ValueServers) -> None:
        self.opened = 0
        self.others: list[GatewayCall] = []
        self.reports: list[ServerCallReport] = []
        self._servers = servers
        self._seconds = 0
        self.made = McpCalls(self._open, self._other, self._clock, self.reports.append)

    def _open(self) -> ValueServers:
        self.opened += 1
        return self._servers

    def _clock(self) -> float:
        self._seconds += 1
        return self._seconds

    async def _other(self, call: GatewayCall) -> object:
        self.others.append(call)
        return "found"


async def test_connections_are_opened_once_and_closed_once() -> None:
    servers = weather_server()
    calls = Calls(servers)
    assert await calls.made.make(LIST) == servers.lists["sky"]
    assert await calls.made.make(CALL) == McpResult(text="Sunny in Ulm.")
    await calls.made.close()
    await calls.made.close()
    assert calls.opened == 1
    assert servers.asked == [("list", "sky"), ("call", "sky", "weather"), ("close",)]


async def test_nothing_is_opened_for_nothing() -> None:
    calls = Calls(weather_server())
    await calls.made.close()
    assert calls.opened == 0


async def test_calls_of_other_kinds_are_passed_on() -> None:
    calls = Calls(weather_server())
    search = SearchCall(call_id="a", arguments="{}", queries=("q",), rules=SearchRules())
    assert await calls.made.make(search) == "found"
    assert calls.others == [search]
    assert calls.opened == 0


async def test_every_call_is_reported() -> None:
    servers = weather_server()
    image = McpImage(media_type="image/png", data="AAAA")
    servers.tools["sky", "weather"] = lambda _: McpResult(text="é", images=(image,))
    calls = Calls(servers)
    await calls.made.make(LIST)
    await calls.made.make(CALL)
    listed, called = calls.reports
    assert listed == ServerCallReport(
        server="sky", item_id="mcpl_1", result_bytes=1, duration_ms=1000.0
    )
    assert called == ServerCallReport(
        server="sky", tool="weather", item_id="mcp_1", result_bytes=6, duration_ms=1000.0
    )


async def test_the_report_of_a_call_that_failed_has_the_type_of_its_error() -> None:
    servers = ValueServers(sky=McpToolList(problem=DOWN))
    calls = Calls(servers)
    await calls.made.make(LIST)
    servers.tools["sky", "weather"] = lambda _: McpResult(text="no", is_error=True)
    await calls.made.make(CALL)
    broken = McpProblem(type="mcp_protocol_error", message="no")
    servers.tools["sky", "weather"] = lambda _: McpResult(problem=broken)
    await calls.made.make(CALL)
    assert [(each.error, each.reason) for each in calls.reports] == [
        ("http_error", DOWN.message),
        ("mcp_tool_execution_error", None),
        ("mcp_protocol_error", "no"),
    ]


async def test_the_report_of_a_call_has_no_words_of_the_server() -> None:
    servers = weather_server()
    said = McpProblem(type="mcp_protocol_error", message="canary", code=-32602, quotes=True)
    servers.tools["sky", "weather"] = lambda _: McpResult(problem=said)
    calls = Calls(servers)
    await calls.made.make(CALL)
    [report] = calls.reports
    assert report.reason == "The server returned the error -32602 of the protocol."


async def test_connections_are_closed_without_their_run_and_awaited_in_the_end() -> None:
    closing = ClosingConnections()
    replied = asyncio.Event()
    closed: list[str] = []

    async def close_slowly() -> None:
        await replied.wait()
        closed.append("slow")

    closing.begin(close_slowly())
    assert len(closing) == 1
    ending = asyncio.ensure_future(closing.close())
    await asyncio.sleep(0)
    assert not ending.done()
    replied.set()
    await ending
    assert (closed, len(closing)) == (["slow"], 0)
