"""How responses with MCP servers end: what the trace says, and when connections are closed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from antiphon.core.mcp.values import McpTool
from tests.support.mcp.event_servers import Said, event, event_server
from tests.support.mcp.raw_servers import Request, raw_server, result, session_of
from tests.support.mcp.sessions import configure
from tests.support.mcp.tools_server import ToolsServer, serve_tools
from tests.support.mcp.value_servers import use_servers, weather_server
from tests.support.rounds import (
    call_delta,
    round_script,
    rounds_gateway,
    streamed_and_whole,
    text_delta,
)
from tests.support.stream_reader import open_stream
from tests.support.traces import read_trace
from tests.support.waiting import LIMIT_S, until

Document = dict[str, Any]
SKY: Document = {
    "type": "mcp",
    "server_label": "sky",
    "server_url": "https://sky.example/mcp",
    "require_approval": "never",
}


# --- a request that cannot be served with the tools -----------------------------------------------

MANY = tuple(McpTool(name=f"tool_{number}") for number in range(200))


@streamed_and_whole
async def test_a_request_that_its_tools_make_invalid_has_failed_in_the_trace(
    tmp_path: Path, stream: bool
) -> None:
    async with rounds_gateway(tmp_path) as setup:
        use_servers(setup.gateway.engine, weather_server(*MANY))
        answer = await setup.post_request(stream=stream, tools=[SKY])
        ended = setup.log_of("response.failed")
        rejected = setup.log_of("request.rejected")
    assert "At most 128 tools" in answer.error["message"]
    found = read_trace(setup.trace, answer.headers["x-request-id"])
    assert found.finish is not None
    assert found.finish.status == "failed"
    [failure] = found.errors
    assert "At most 128 tools" in failure.message
    assert ["At most 128 tools" in each["reason"] for each in ended] == [True]
    assert rejected == []


# --- connections ----------------------------------------------------------------------------------

TESTS: Document = {"type": "mcp", "server_label": "tests", "require_approval": "never"}
ANSWER = round_script(text_delta("Done."))


def never_ends(request: Request) -> Iterable[bytes] | None:
    """A server that does not reply when its session is to be ended."""
    if request.method == "DELETE":
        return None
    if request.message.get("method") == "initialize":
        content = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": SERVER_INFO}
        return result(request, content, mcp_session_id="s-1")
    return session_of(lambda found: result(found, {"tools": []}))(request)


SERVER_INFO = {"name": "raw", "version": "1"}


@streamed_and_whole
async def test_no_client_waits_until_a_session_is_closed(tmp_path: Path, stream: bool) -> None:
    async with raw_server(never_ends) as server:
        async with rounds_gateway(tmp_path, ANSWER, mcp=configure(server.url)) as setup:
            closing = setup.gateway.engine.services.closing
            answer = await setup.post_request(stream=stream, tools=[TESTS])
            assert len(closing) == 1
            await until(lambda: is_ending(server.requests), "the session is being ended")
            assert len(closing) == 1
        assert len(closing) == 0
    assert answer.response["status"] == "completed"


def is_ending(requests: Iterable[Request]) -> bool:
    return any(request.method == "DELETE" for request in requests)


@pytest.mark.parametrize("is_legacy", [True, False], ids=["session", "stateless"])
async def test_a_gateway_that_stops_cancels_the_call_and_ends_the_session(
    tmp_path: Path, is_legacy: bool
) -> None:
    state = ToolsServer(is_legacy=is_legacy)
    waiting = round_script(call_delta(("call_1", "tests__wait", "{}")))
    with serve_tools(state=state) as server:
        async with rounds_gateway(tmp_path, waiting, mcp=configure(server.url)) as setup:
            body = {"model": "m", "input": "Hi", "stream": True, "tools": [TESTS]}
            async with open_stream(setup.gateway.gateway.port) as reader:
                await reader.post(body)
                assert await asyncio.to_thread(state.waiting.wait, LIMIT_S)
                setup.gateway.engine.stop_all()
                answer = await reader.rest()
        assert state.cancelled.is_set()
        assert ("DELETE" in [method for method, _ in state.requests]) is is_legacy
    assert answer.events[-1]["type"] == "response.failed"
    called = answer.response["output"][1]
    assert called["status"] != "completed"


async def test_a_session_whose_stream_broke_is_opened_again_for_the_next_call(
    tmp_path: Path,
) -> None:
    """In the older transport. The call that may have been made is not repeated."""
    calls: list[str] = []

    def respond(message: Document) -> Said:
        if message["method"] == "tools/list":
            return event(message, {"tools": [{"name": "go", "inputSchema": {"type": "object"}}]})
        calls.append(message["method"])
        if len(calls) == 1:
            return [b""]
        return event(message, {"content": [{"type": "text", "text": "went"}]})

    go = round_script(call_delta(("call_1", "tests__go", "{}")))
    async with event_server(respond) as server:
        async with rounds_gateway(tmp_path, go, go, ANSWER, mcp=configure(server.url)) as setup:
            answer = await setup.post_request(stream=True, tools=[TESTS])
        assert server.methods.count("initialize") == 2
    first, second = [each for each in answer.response["output"] if each["type"] == "mcp_call"]
    assert "ended the connection without a result" in first["error"]["message"]
    assert second["output"] == "went"
    assert calls == ["tools/call"] * 2
