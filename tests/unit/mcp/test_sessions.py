"""Sessions with a real server, over both transports and both generations of the protocol."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator

import pytest

from antiphon.core.mcp.values import McpImage, McpResult, McpServer
from tests.support.mcp.event_servers import Document, Said, event, event_server
from tests.support.mcp.sessions import SERVER, configure, open_sessions
from tests.support.mcp.tools_server import PIXEL, ToolsServer, Transport, serve_tools
from tests.support.waiting import LIMIT_S, let_others_read, until

KINDS = ["modern", "legacy", "json", "sse"]


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[ToolsServer]:
    kind = request.param
    state = ToolsServer(is_legacy=kind in ("legacy", "json"))
    transport: Transport = "sse" if kind == "sse" else "streamable"
    with serve_tools(transport, state=state, json_response=kind == "json") as served:
        yield served


@pytest.fixture
def legacy() -> Iterator[ToolsServer]:
    """A server with sessions."""
    with serve_tools(state=ToolsServer(is_legacy=True)) as served:
        yield served


async def test_tools_are_listed_and_called(server: ToolsServer) -> None:
    async with open_sessions(configure(server.url)) as sessions:
        listed = await sessions.list_tools(SERVER)
        assert listed.problem is None
        greet = next(tool for tool in listed.tools if tool.name == "greet")
        assert greet.description == "Greets."
        assert greet.input_schema["required"] == ["name"]
        assert await sessions.call(SERVER, "greet", {"name": "Ann"}) == McpResult(text="Hello Ann")


async def test_every_kind_of_result_is_read(server: ToolsServer) -> None:
    async with open_sessions(configure(server.url)) as sessions:
        pixel = McpImage(media_type="image/png", data=base64.b64encode(PIXEL).decode())
        assert await sessions.call(SERVER, "picture", {}) == McpResult(images=(pixel,))
        document = await sessions.call(SERVER, "document", {})
        assert document.text == (
            "Two files:\n[resource file:///a.txt]\ninside\n[resource file:///b.txt: b.txt]"
        )
        weather = await sessions.call(SERVER, "weather", {})
        assert weather.text == '{\n  "degrees": 21\n}'


async def test_an_error_of_a_tool_is_a_result_for_the_model(server: ToolsServer) -> None:
    async with open_sessions(configure(server.url)) as sessions:
        result = await sessions.call(SERVER, "broken", {})
        assert result.is_error
        assert "There is no such city." in result.text
        assert result.problem is None


async def test_a_call_with_arguments_in_headers_needs_no_list_before(server: ToolsServer) -> None:
    async with open_sessions(configure(server.url)) as sessions:
        result = await sessions.call(SERVER, "regional", {"region": "north"})
        assert result.text == "in north"


async def test_parallel_calls_share_one_session(legacy: ToolsServer) -> None:
    async with open_sessions(configure(legacy.url)) as sessions:
        names = [f"n{number}" for number in range(8)]
        calls = [sessions.call(SERVER, "greet", {"name": name}) for name in names]
        results = await asyncio.gather(*calls)
    assert [each.text for each in results] == [f"Hello {name}" for name in names]
    assert legacy.count("initialize") == 1


async def test_a_call_without_progress_times_out_and_is_cancelled(server: ToolsServer) -> None:
    async with open_sessions(configure(server.url, idle_timeout_s=1.5)) as sessions:
        result = await sessions.call(SERVER, "wait", {})
        assert result.problem is not None
        assert result.problem.message == "MCP server 'tests' did not send a result in time."
        assert await asyncio.to_thread(server.cancelled.wait, 5)
        assert (await sessions.call(SERVER, "greet", {"name": "B"})).text == "Hello B"


@pytest.mark.parametrize("server", ["modern", "legacy", "sse"], indirect=True)
async def test_progress_extends_the_time(server: ToolsServer) -> None:
    async with open_sessions(configure(server.url, idle_timeout_s=1.6)) as sessions:
        result = await sessions.call(SERVER, "work", {"steps": 3, "pause_s": 0.8})
        assert result.text == "3 steps"


async def test_a_cancelled_call_is_cancelled_at_the_server(server: ToolsServer) -> None:
    async with open_sessions(configure(server.url)) as sessions:
        call = asyncio.create_task(sessions.call(SERVER, "wait", {}))
        assert await asyncio.to_thread(server.waiting.wait, 5)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await asyncio.to_thread(server.cancelled.wait, 5)


async def test_closing_ends_calls_with_a_problem_and_cancels_them(server: ToolsServer) -> None:
    async with open_sessions(configure(server.url)) as sessions:
        call = asyncio.create_task(sessions.call(SERVER, "wait", {}))
        assert await asyncio.to_thread(server.waiting.wait, 5)
        await sessions.close()
        result = await call
        assert result.problem is not None
        assert result.problem.message == "The call was cancelled: the response has ended."
        assert await asyncio.to_thread(server.cancelled.wait, 5)
        late = await sessions.call(SERVER, "greet", {"name": "C"})
        assert late.problem == result.problem
        assert (await sessions.list_tools(SERVER)).problem == result.problem


async def test_closing_ends_the_session_at_the_server(legacy: ToolsServer) -> None:
    async with open_sessions(configure(legacy.url)) as sessions:
        await sessions.call(SERVER, "greet", {"name": "A"})
    assert [method for method, _ in legacy.requests][-1] == "DELETE"
    assert {task.get_name() for task in asyncio.all_tasks()}.isdisjoint({"mcp session"})


@pytest.mark.parametrize("is_lenient", [False, True])
async def test_a_lost_session_is_opened_once_more(is_lenient: bool) -> None:
    state = ToolsServer(is_legacy=True, is_lenient=is_lenient)
    with serve_tools(state=state):
        async with open_sessions(configure(state.url)) as sessions:
            await sessions.call(SERVER, "greet", {"name": "A"})
            state.lose_sessions()
            result = await sessions.call(SERVER, "greet", {"name": "B"})
            assert result.text == "Hello B"
            assert state.count("initialize") == 2
            state.lose_sessions()
            assert (await sessions.list_tools(SERVER)).problem is None


async def test_a_lost_session_still_receives_the_results_of_its_other_calls(
    legacy: ToolsServer,
) -> None:
    async with open_sessions(configure(legacy.url)) as sessions:
        slow = asyncio.create_task(sessions.call(SERVER, "work", {"steps": 2, "pause_s": 0.4}))
        await until(lambda: legacy.count("tools/call") == 1, "the first call")
        legacy.lose_sessions()
        assert (await sessions.call(SERVER, "greet", {"name": "B"})).text == "Hello B"
        assert await slow == McpResult(text="2 steps")
    assert {task.get_name() for task in asyncio.all_tasks()}.isdisjoint({"mcp session"})


async def test_a_session_that_can_send_no_more_still_receives_results_of_its_other_calls() -> None:
    """In the older transport, the package sends nothing more after a message that was refused."""
    slow: list[Document] = []

    def respond(message: Document) -> Said:
        match message["params"]["name"]:
            case "slow":
                slow.append(message)
                return None
            case "refused":
                return 401
        host.say(event(slow[0], {"content": [{"type": "text", "text": "late"}]}), session=0)
        return event(message, {"content": [{"type": "text", "text": "made"}]})

    async with (
        event_server(respond) as host,
        open_sessions(configure(host.url)) as sessions,
    ):
        calls = [sessions.call(SERVER, tool, {}) for tool in ("slow", "refused", "waiting")]
        late, refused, made = await asyncio.gather(*calls)
        assert late == McpResult(text="late")
        assert refused.problem is not None
        assert refused.problem.code == 401
        assert made == McpResult(text="made")
        assert host.methods.count("tools/call") == 3
    assert {task.get_name() for task in asyncio.all_tasks()}.isdisjoint({"mcp session"})


async def test_a_session_that_is_lost_again_at_once_is_a_problem(legacy: ToolsServer) -> None:
    legacy.loses_all = True
    async with open_sessions(configure(legacy.url)) as sessions:
        result = await sessions.call(SERVER, "greet", {"name": "A"})
    assert result.problem is not None
    assert result.problem.code == 404
    assert legacy.count("initialize") == 2


async def test_a_credential_is_sent_and_a_wrong_one_is_a_problem(server: ToolsServer) -> None:
    server.require_token("canary")
    async with open_sessions(configure(server.url)) as sessions:
        client = McpServer(label="tests", headers={"Authorization": "Bearer canary"})
        result = await sessions.call(client, "authorization", {})
        assert result.text == "Bearer canary"
        wrong = McpServer(label="tests", headers={"Authorization": "Bearer wrong"})
        for problem in (
            (await sessions.call(wrong, "greet", {"name": "A"})).problem,
            (await sessions.list_tools(wrong)).problem,
        ):
            assert problem is not None
            assert problem.type == "http_error"
            assert problem.code == 401


async def test_a_list_is_remembered_for_each_credential(server: ToolsServer) -> None:
    async with open_sessions(configure(server.url)) as sessions:
        first = await sessions.list_tools(SERVER)
        assert await sessions.list_tools(SERVER) == first
        assert server.count("tools/list") == 1
        await sessions.list_tools(McpServer(label="tests", headers={"x-user": "other"}))
        assert server.count("tools/list") == 2


async def test_a_list_that_the_server_says_has_changed_is_asked_for_again(
    legacy: ToolsServer,
) -> None:
    async with open_sessions(configure(legacy.url)) as sessions:
        before = await sessions.list_tools(SERVER)
        await sessions.call(SERVER, "grow", {})
        async with asyncio.timeout(LIMIT_S):
            while (after := await sessions.list_tools(SERVER)) == before:
                await let_others_read()
    assert len(after.tools) == len(before.tools) + 1


async def test_a_large_result_is_cut_and_a_larger_one_is_a_problem(server: ToolsServer) -> None:
    config = configure(server.url, max_result_bytes=10_000, max_list_bytes=10_000)
    async with open_sessions(config) as sessions:
        cut = await sessions.call(SERVER, "large", {"size": 15_000})
        assert cut.problem is None
        assert len(cut.text) == 10_000
        assert cut.left_out == 5_000
        refused = await sessions.call(SERVER, "large", {"size": 3_000_000})
        assert refused.problem is not None
        assert (await sessions.call(SERVER, "greet", {"name": "A"})).text == "Hello A"


async def test_a_list_beyond_the_limits_is_a_problem(server: ToolsServer) -> None:
    async with open_sessions(configure(server.url, max_tools=3)) as sessions:
        problem = (await sessions.list_tools(SERVER)).problem
        assert problem is not None
        assert problem.message == (
            "MCP server 'tests' lists more tools than `max_tools` = 3 in [mcp] of the gateway"
            " allows."
        )
    async with open_sessions(configure(server.url, max_list_bytes=300)) as sessions:
        problem = (await sessions.list_tools(SERVER)).problem
        assert problem is not None
        assert "`max_list_bytes` = 300" in problem.message


async def test_a_server_that_is_not_allowed_is_not_called(server: ToolsServer) -> None:
    async with open_sessions(configure(server.url)) as sessions:
        other = McpServer(label="tests", url=server.url)
        assert (await sessions.list_tools(other)).problem is not None
        assert (await sessions.call(other, "greet", {})).problem is not None
    assert server.requests == []
