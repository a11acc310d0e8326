"""MCP servers of Messages requests: the official client, a real server, and any provider."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anthropic
import pytest

from antiphon.config import McpConfig, TraceConfig
from tests.support.gateways import Running
from tests.support.mcp.server_gateway import (
    BOTH,
    DONE,
    GREET,
    PROVIDERS,
    ServerGateway,
    call,
    server_gateway,
)
from tests.support.mcp.tools_server import ToolsServer, serve_tools
from tests.support.rounds import streamed_and_whole
from tests.support.scripted_providers.session import Call, Turn
from tests.support.traces import read_trace

Document = dict[str, Any]
PINNED = "mcp-client-2026-09-15"
CURRENT = "mcp-client-2025-11-20"
OLDER = "mcp-client-2025-04-04"
QUESTION: Document = {"role": "user", "content": "Greet Ada."}
TOOLSET: Document = {"type": "mcp_toolset", "mcp_server_name": "tests"}
OFF: Document = {"enabled": False}
called_by_the_gateway = pytest.mark.parametrize("kind", ["chat", "gemini"])


@pytest.fixture(scope="module")
def server() -> Iterator[ToolsServer]:
    with serve_tools() as state:
        yield state


def server_of(url: str, **members: Any) -> Document:
    return {"type": "url", "name": "tests", "url": url, **members}


class MessagesClient:
    """The official client, with the members that all requests of a test have."""

    def __init__(self, setup: ServerGateway, client: anthropic.AsyncAnthropic, url: str) -> None:
        self.setup = setup
        self._client = client
        self._servers = [server_of(url)]

    async def send(
        self, *messages: Any, kind: str = "chat", stream: bool = False, **members: Any
    ) -> Any:
        """Send a request; the message of a stream is what the SDK puts together."""
        given = {
            "model": f"{kind}/{PROVIDERS[kind][1]}",
            "max_tokens": 1000,
            "messages": [QUESTION, *messages],
            "mcp_servers": self._servers,
            "tools": [TOOLSET],
            "betas": [CURRENT],
            **members,
        }
        if not stream:
            return await self._client.beta.messages.create(**given)
        async with self._client.beta.messages.stream(**given) as events:
            return await events.get_final_message()

    def bodies(self, kind: str = "chat") -> list[Document]:
        """What the provider has received."""
        return [request.body for request in self.setup.upstreams[kind].requests]


@asynccontextmanager
async def messages_gateway(
    tmp_path: Path, url: str, turns: Any, *, payloads: bool = False
) -> AsyncIterator[MessagesClient]:
    """A gateway that allows the server, and a client that declares it."""
    mcp = McpConfig(allow=[url])
    trace = TraceConfig(path=str(tmp_path / "trace.db"), payloads=payloads)
    async with (
        server_gateway(tmp_path, url, turns, mcp, trace) as setup,
        anthropic_client(setup.gateway) as client,
    ):
        yield MessagesClient(setup, client, url)


@asynccontextmanager
async def anthropic_client(gateway: Running) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with anthropic.AsyncAnthropic(
        base_url=gateway.base_url.removesuffix("/v1"),
        api_key="sk-client",
        max_retries=0,
        _strict_response_validation=True,
    ) as client:
        yield client


def types(message: Any) -> list[str]:
    return [block.type for block in message.content if block.type != "thinking"]


def sent_back(message: Any) -> Document:
    """The message of an assistant, as clients send it back."""
    return {"role": "assistant", "content": [block.to_dict() for block in message.content]}


def names_of(body: Document) -> list[str]:
    return [tool["function"]["name"] for tool in body.get("tools", ())]


# --- calls and history ----------------------------------------------------------------------------


@streamed_and_whole
@called_by_the_gateway
async def test_the_tools_of_a_toolset_are_called(
    tmp_path: Path, server: ToolsServer, kind: str, stream: bool
) -> None:
    turns = {kind: [BOTH, DONE, DONE]}
    async with messages_gateway(tmp_path, server.url, turns) as client:
        message = await client.send(kind=kind, stream=stream)
        again = {"role": "user", "content": "And now?"}
        later = await client.send(sent_back(message), again, kind=kind, stream=stream)
        assert client.setup.problems() == []
        _, second, third = client.bodies(kind)
    pairs = ["mcp_tool_use", "mcp_tool_result"]
    assert types(message) == [*pairs, *pairs, "text"]
    use, result, _, weather, text = [each for each in message.content if each.type != "thinking"]
    assert (use.name, use.server_name, use.input) == ("greet", "tests", {"name": "Ada"})
    assert (result.tool_use_id, result.is_error) == (use.id, False)
    assert result.content[0].text == "Hello Ada"
    assert json.loads(weather.content[0].text) == {"degrees": 21}
    assert text.text == "I have greeted her."
    assert types(later) == ["text"]
    key = PROVIDERS[kind][0].history_key
    assert third[key][: len(second[key])] == second[key]


async def test_the_events_of_a_call_are_those_of_the_api(
    tmp_path: Path, server: ToolsServer
) -> None:
    seen: list[str] = []
    async with (
        messages_gateway(tmp_path, server.url, {"chat": [GREET, DONE]}) as client,
        anthropic_client(client.setup.gateway) as sdk,
        sdk.beta.messages.stream(
            model="chat/m",
            max_tokens=100,
            messages=[QUESTION],  # type: ignore[list-item]
            mcp_servers=[server_of(server.url)],  # type: ignore[list-item]
            tools=[TOOLSET],  # type: ignore[list-item]
            betas=[PINNED],
        ) as events,
    ):
        async for event in events:
            if event.type == "content_block_start":
                seen.append(event.content_block.type)
            elif event.type == "content_block_stop":
                seen.append("stop")
            elif event.type == "input_json" and seen[-1] != "input_json":
                seen.append("input_json")
    thinking = ["thinking", "stop"]
    assert seen == [
        *("mcp_tool_listing", "stop"),
        *thinking,
        *("mcp_tool_use", "input_json", "stop"),
        *("mcp_tool_result", "stop"),
        *thinking,
        *("text", "stop"),
    ]


async def test_the_error_of_a_tool_is_the_error_of_its_result(
    tmp_path: Path, server: ToolsServer
) -> None:
    turns = {"chat": [Turn(1, calls=(call("broken"),)), DONE]}
    async with messages_gateway(tmp_path, server.url, turns) as client:
        message = await client.send()
    assert message.content[1].is_error
    assert "There is no such city." in message.content[1].content[0].text


async def test_a_thread_changes_its_provider(tmp_path: Path, server: ToolsServer) -> None:
    turns = {"chat": [BOTH, DONE], "gemini": [GREET, DONE], "anthropic": [DONE]}
    again = {"role": "user", "content": "Greet Ada."}
    async with messages_gateway(tmp_path, server.url, turns) as client:
        first = await client.send()
        thread = [sent_back(first), again]
        second = await client.send(*thread, kind="gemini")
        thread += [sent_back(second), again]
        third = await client.send(*thread, kind="anthropic")
        assert client.setup.upstreams["gemini"].requests[0].raw.decode().count("Hello Ada") == 1
        [native] = client.bodies("anthropic")
    assert types(second) == ["mcp_tool_use", "mcp_tool_result", "text"]
    assert types(third) == ["text"]
    blocks = [block for message in native["messages"] for block in message["content"]]
    sent = [block for message in thread for block in _blocks_of(message) if "mcp" in block["type"]]
    assert [block for block in blocks if "mcp" in block["type"]] == sent


def _blocks_of(message: Document) -> list[Document]:
    content: Any = message["content"]
    return content if isinstance(content, list) else []


# --- which tools ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"default_config": OFF, "configs": {"greet": {"enabled": True}}}, {"greet"}),
        ({"configs": {"broken": OFF, "greet": OFF, "wait": {}}}, {"weather", "wait"}),
        ({}, {"greet", "broken", "weather", "wait"}),
    ],
    ids=["enabled", "disabled", "all"],
)
async def test_only_enabled_tools_are_declared(
    tmp_path: Path, server: ToolsServer, members: Document, expected: set[str]
) -> None:
    async with messages_gateway(tmp_path, server.url, {"chat": [DONE]}) as client:
        await client.send(tools=[{**TOOLSET, **members}])
        [body] = client.bodies()
    watched = {f"tests__{name}" for name in ("greet", "broken", "weather", "wait")}
    assert watched & {*names_of(body)} == {f"tests__{name}" for name in expected}


async def test_a_server_without_an_enabled_tool_is_not_asked(tmp_path: Path) -> None:
    with serve_tools() as idle:
        async with messages_gateway(tmp_path, idle.url, {"chat": [DONE]}) as client:
            message = await client.send(tools=[{**TOOLSET, "default_config": OFF}])
            [body] = client.bodies()
    assert (types(message), idle.methods) == (["text"], [])
    assert names_of(body) == []


async def test_deferred_tools_are_declared_with_a_diagnostic(
    tmp_path: Path, server: ToolsServer
) -> None:
    toolset = {**TOOLSET, "default_config": {"defer_loading": True}}
    async with messages_gateway(tmp_path, server.url, {"chat": [DONE]}) as client:
        message = await client.send(tools=[toolset])
        [body] = client.bodies()
    assert "tests__greet" in names_of(body)
    trace = read_trace(tmp_path / "trace.db", message.id.replace("msg_", "resp_"))
    assert ("tool.degraded", "tools[0].defer_loading") in [
        (each.code, each.param) for each in trace.diagnostics
    ]


# --- lists ----------------------------------------------------------------------------------------


@streamed_and_whole
async def test_the_list_of_a_server_goes_to_the_client_and_back(
    tmp_path: Path, stream: bool
) -> None:
    with serve_tools() as fresh:
        turns = {"chat": [DONE, GREET, DONE]}
        async with messages_gateway(tmp_path, fresh.url, turns) as client:
            options: Document = {"betas": [PINNED], "stream": stream}
            first = await client.send(**options)
            fresh.mcp.add_tool(lambda: "new", name="newer")
            again = {"role": "user", "content": "Greet Ada."}
            second = await client.send(sent_back(first), again, **options)
            bodies = client.bodies()
    assert types(first) == ["mcp_tool_listing", "text"]
    assert first.content[0].mcp_server_name == "tests"
    assert "greet" in [tool.name for tool in first.content[0].tools]
    assert types(second) == ["mcp_tool_use", "mcp_tool_result", "text"]
    assert fresh.count("tools/list") == 1
    assert names_of(bodies[1]) == names_of(bodies[0])


async def test_a_toolset_may_have_the_list_of_its_tools(
    tmp_path: Path, server: ToolsServer
) -> None:
    before = server.count("tools/list")
    greet = {"name": "greet", "description": "Says hello.", "input_schema": {"type": "object"}}
    other = {**greet, "name": "weather"}
    toolset = {**TOOLSET, "tools": [greet, other], "configs": {"weather": OFF}}
    async with messages_gateway(tmp_path, server.url, {"chat": [GREET, DONE]}) as client:
        message = await client.send(tools=[toolset], betas=[PINNED])
        body = client.bodies()[0]
    assert types(message) == ["mcp_tool_use", "mcp_tool_result", "text"]
    [declared] = body["tools"]
    assert declared["function"]["name"] == "tests__greet"
    assert declared["function"]["description"] == "Says hello."
    assert server.count("tools/list") == before


async def test_the_older_form_needs_no_toolset(tmp_path: Path, server: ToolsServer) -> None:
    settings = {"enabled": True, "allowed_tools": ["greet"]}
    servers = [server_of(server.url, tool_configuration=settings)]
    async with messages_gateway(tmp_path, server.url, {"chat": [GREET, DONE]}) as client:
        message = await client.send(mcp_servers=servers, tools=[], betas=[OLDER])
        body = client.bodies()[0]
    assert types(message) == ["mcp_tool_use", "mcp_tool_result", "text"]
    assert names_of(body) == ["tests__greet"]


# --- what is not possible -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("servers", "tools", "path"),
    [
        (["tests"], ["other"], "tools.0.mcp_server_name"),
        (["tests", "other"], ["tests"], "mcp_servers.1.name"),
        (["tests"], ["tests", "tests"], "tools.1.mcp_server_name"),
    ],
    ids=["toolset without server", "server without toolset", "two toolsets"],
)
async def test_what_does_not_belong_together_is_refused(
    tmp_path: Path, server: ToolsServer, servers: list[str], tools: list[str], path: str
) -> None:
    given = [{**server_of(server.url), "name": name} for name in servers]
    toolsets = [{**TOOLSET, "mcp_server_name": name} for name in tools]
    async with messages_gateway(tmp_path, server.url, {"chat": []}) as client:
        with pytest.raises(anthropic.BadRequestError, match=path):
            await client.send(mcp_servers=given, tools=toolsets)


async def test_both_forms_at_once_are_refused(tmp_path: Path, server: ToolsServer) -> None:
    both = [server_of(server.url, tool_configuration={"enabled": True})]
    async with messages_gateway(tmp_path, server.url, {"chat": []}) as client:
        with pytest.raises(anthropic.BadRequestError, match=r"mcp_servers\.0\.tool_configuration"):
            await client.send(mcp_servers=both)


async def test_a_server_that_is_not_allowed_is_refused(tmp_path: Path, server: ToolsServer) -> None:
    other = [server_of("https://elsewhere.example/mcp")]
    async with messages_gateway(tmp_path, server.url, {"chat": []}) as client:
        with pytest.raises(anthropic.BadRequestError, match=r"mcp_servers\.0\.url") as caught:
            await client.send(mcp_servers=other)
    assert "MCP server 'tests' cannot be called" in caught.value.message


# --- a provider of the same format ----------------------------------------------------------------


@streamed_and_whole
async def test_anthropic_gets_the_request_as_it_was_sent(
    tmp_path: Path, server: ToolsServer, stream: bool
) -> None:
    toolset = {
        **TOOLSET,
        "default_config": {"enabled": False, "defer_loading": True},
        "configs": {"greet": {"enabled": True}},
        "cache_control": {"type": "ephemeral"},
    }
    own = {"name": "read", "input_schema": {"type": "object", "properties": {}}}
    servers = [server_of(server.url, authorization_token="secret")]
    before = len(server.requests)
    async with messages_gateway(tmp_path, server.url, {"anthropic": [DONE]}) as client:
        message = await client.send(
            kind="anthropic",
            stream=stream,
            mcp_servers=servers,
            tools=[own, toolset],
            betas=[CURRENT, "other-2026"],
        )
        assert client.setup.problems() == []
        [request] = client.setup.upstreams["anthropic"].requests
    assert types(message) == ["text"]
    assert request.body["mcp_servers"] == servers
    assert request.body["tools"] == [own, toolset]
    assert request.headers["anthropic-beta"] == f"{CURRENT},other-2026"
    assert len(server.requests) == before


async def test_anthropic_gets_a_choice_among_the_tools_of_servers(
    tmp_path: Path, server: ToolsServer
) -> None:
    choice = {"type": "any"}
    async with messages_gateway(tmp_path, server.url, {"anthropic": [DONE]}) as client:
        await client.send(kind="anthropic", tools=[], tool_choice=choice, betas=[OLDER])
        assert client.setup.problems() == []
        [body] = client.bodies("anthropic")
    assert body["tool_choice"] == choice
    assert "tools" not in body
    assert body["mcp_servers"] == [server_of(server.url)]


SECRET = "canary-credential-77ab"


def find_leaks(directory: Path) -> list[str]:
    files = [path for path in directory.rglob("*") if path.is_file()]
    return [path.name for path in files if SECRET.encode() in path.read_bytes()]


@pytest.mark.parametrize("kind", ["chat", "anthropic"])
async def test_the_token_of_a_server_is_not_kept(tmp_path: Path, kind: str) -> None:
    with serve_tools() as guarded:
        guarded.require_token(SECRET)
        turns = {kind: [GREET, DONE] if kind == "chat" else [DONE]}
        async with messages_gateway(tmp_path, guarded.url, turns, payloads=True) as client:
            servers = [server_of(guarded.url, authorization_token=SECRET)]
            message = await client.send(kind=kind, mcp_servers=servers)
            log = str(list(client.setup.gateway.log))
    assert types(message)[-1] == "text"
    assert SECRET not in log
    streams = read_trace(tmp_path / "trace.db", message.id.replace("msg_", "resp_")).streams
    assert not any(SECRET.encode() in each.blob for each in streams)
    assert find_leaks(tmp_path) == []


# --- threads of the tool runner -------------------------------------------------------------------


@anthropic.beta_async_tool
async def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


@pytest.mark.parametrize("kind", ["chat", "anthropic"])
async def test_a_thread_keeps_its_toolsets_and_gets_the_servers_anew(
    tmp_path: Path, kind: str
) -> None:
    """A request that continues a thread has the servers, but no tools: those are stored."""
    toolset = {**TOOLSET, "configs": {"broken": OFF}}
    weather = Turn(1, calls=(Call("get_weather", '{"city":"Ulm"}', ""),))
    turns = {kind: [weather, GREET, DONE] if kind == "chat" else [weather, DONE]}
    with serve_tools() as guarded:
        guarded.require_token(SECRET)
        servers = [server_of(guarded.url, authorization_token=SECRET)]
        async with (
            messages_gateway(tmp_path, guarded.url, turns) as client,
            anthropic_client(client.setup.gateway) as sdk,
        ):
            given: Document = {"messages": [QUESTION], "mcp_servers": servers, "betas": [CURRENT]}
            runner = sdk.beta.messages.tool_runner(
                model=f"{kind}/{PROVIDERS[kind][1]}",
                max_tokens=1000,
                tools=[get_weather, toolset],  # type: ignore[list-item]
                **given,
            )
            message = await runner.until_done()
            first, second, *_ = client.bodies(kind)
    assert types(message)[-1] == "text"
    assert "sunny in Ulm" in json.dumps(second["messages"])
    assert second["tools"] == first["tools"]
    if kind == "chat":
        [result] = [block for block in message.content if block.type == "mcp_tool_result"]
        assert not result.is_error
        assert {"get_weather", "tests__greet"} < {*names_of(second)}
        assert "tests__broken" not in names_of(second)
    else:
        assert second["tools"][-1] == toolset
        assert second["mcp_servers"] == servers
    assert find_leaks(tmp_path) == []
