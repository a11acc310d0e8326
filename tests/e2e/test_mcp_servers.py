"""Real MCP servers behind the real gateway: every dialect, the official clients, background."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    HostedMCPTool,
    MCPToolApprovalFunctionResult,
    MCPToolApprovalRequest,
    ModelSettings,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
)

from antiphon.cli.main import main
from antiphon.config import Config, McpConfig, McpServerConfig, ProviderConfig, TraceConfig
from tests.support.client_answers import Answer, post_request
from tests.support.demand_scripts import native_turns
from tests.support.gateways import Running, replaced, running, settings
from tests.support.mcp.tools_server import PIXEL, ToolsServer, serve_tools
from tests.support.openai_client import openai_client
from tests.support.openai_sdk_check import check_with_sdk
from tests.support.rounds import item_types, output_text
from tests.support.scripted_providers.anthropic import ScriptedAnthropic
from tests.support.scripted_providers.chat import ScriptedChat
from tests.support.scripted_providers.gemini import ScriptedGemini
from tests.support.scripted_providers.scripted_provider import ScriptedProvider
from tests.support.scripted_providers.session import Call, Turn
from tests.support.upstream import Upstream, upstream
from tests.support.waiting import until

Document = dict[str, Any]
PROVIDERS: dict[str, tuple[ScriptedProvider, str]] = {
    "chat": (ScriptedChat(), "m"),
    "anthropic": (ScriptedAnthropic(), "claude-opus-4-6"),
    "gemini": (ScriptedGemini(), "gemini-3-pro"),
}
every_dialect = pytest.mark.parametrize("kind", PROVIDERS)
TOOL: Document = {"type": "mcp", "server_label": "tests", "require_approval": "never"}
ASKING: Document = {**TOOL, "require_approval": "always"}


def call(tool: str, **arguments: Any) -> Call:
    return Call(f"tests__{tool}", json.dumps(arguments, separators=(",", ":")), "")


GREET = Turn(1, thought="Greet her.", calls=(call("greet", name="Ada"),))
BOTH = Turn(1, thought="Two.", calls=(call("greet", name="Ada"), call("weather")))
DONE = Turn(2, thought="Done.", text="I have greeted her.")


@pytest.fixture(scope="module")
def server() -> Iterator[ToolsServer]:
    with serve_tools() as state:
        yield state


@dataclass
class ServerGateway:
    gateway: Running
    upstreams: dict[str, Upstream]

    async def post(self, kind: str = "chat", **body: Any) -> Answer:
        """Post a streamed request to the model of a dialect; each request to it must be valid."""
        _, model = PROVIDERS[kind]
        fields = {"model": f"{kind}/{model}", "input": "Greet Ada.", "stream": True, **body}
        return await post_request(self.gateway, {"tools": [TOOL], **fields})

    def problems(self) -> list[str]:
        return [
            problem
            for kind, received in self.upstreams.items()
            for request in received.requests
            for problem in PROVIDERS[kind][0].problems(request.raw)
        ]


@asynccontextmanager
async def server_gateway(
    tmp_path: Path,
    url: str,
    turns: Mapping[str, Sequence[Turn]],
    mcp: McpConfig | None = None,
    trace: TraceConfig | None = None,
) -> AsyncIterator[ServerGateway]:
    """A gateway with the server `tests`, and a provider for each dialect that has turns."""
    async with AsyncExitStack() as stack:
        upstreams = {
            kind: await stack.enter_async_context(upstream(native_turns(PROVIDERS[kind][0], given)))
            for kind, given in turns.items()
        }
        config: Config = replaced(
            settings(tmp_path),
            providers={
                kind: ProviderConfig(kind=kind, base_url=each.url, api_keys=["sk-up"])
                for kind, each in upstreams.items()
            },
            default_provider=next(iter(upstreams), "echo"),
            mcp=mcp or McpConfig(servers={"tests": McpServerConfig(url=url)}),
            trace=trace or TraceConfig(path=str(tmp_path / "trace.db")),
        )
        gateway = await stack.enter_async_context(running(config))
        yield ServerGateway(gateway, upstreams)


# --- every dialect --------------------------------------------------------------------------------


@every_dialect
async def test_a_model_uses_a_real_server(tmp_path: Path, server: ToolsServer, kind: str) -> None:
    async with server_gateway(tmp_path, server.url, {kind: [BOTH, DONE]}) as setup:
        answer = await setup.post(kind)
        assert setup.problems() == []
    assert item_types(answer.response) == ["mcp_list_tools", "mcp_call", "mcp_call", "message"]
    outputs = [item.get("output") for item in answer.response["output"] if "output" in item]
    assert outputs[0] == "Hello Ada"
    assert json.loads(outputs[1]) == {"degrees": 21}
    assert output_text(answer.response) == "I have greeted her."
    check_with_sdk(answer.events)


@every_dialect
async def test_an_approved_call_of_a_real_server(
    tmp_path: Path, server: ToolsServer, kind: str
) -> None:
    async with server_gateway(tmp_path, server.url, {kind: [GREET, DONE]}) as setup:
        first = await setup.post(kind, tools=[ASKING])
        request = first.response["output"][-1]
        approval = {
            "type": "mcp_approval_response",
            "approval_request_id": request["id"],
            "approve": True,
        }
        later = await setup.post(
            kind, input=[approval], previous_response_id=first.response["id"], tools=[ASKING]
        )
        assert setup.problems() == []
    assert item_types(later.response) == ["mcp_call", "message"]
    assert later.response["output"][0]["output"] == "Hello Ada"


@every_dialect
async def test_a_traced_response_is_made_again(
    tmp_path: Path, server: ToolsServer, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = TraceConfig(path=str(tmp_path / "trace.db"), payloads=True)
    turns = {kind: [BOTH, GREET, DONE]}
    async with server_gateway(tmp_path, server.url, turns, trace=trace) as setup:
        answer = await setup.post(kind)
    config = tmp_path / "antiphon.toml"
    config.write_text(f'[trace]\npath = "{trace.path}"\n')
    assert main(["trace", "replay", answer.response["id"], "--config", str(config)]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    made = [json.loads(line) for line in printed.out.splitlines()]
    assert [event["type"] for event in made] == [event["type"] for event in answer.events]
    assert made[-1]["response"]["id"] != answer.response["id"]


async def test_another_provider_goes_on_with_the_calls(tmp_path: Path, server: ToolsServer) -> None:
    turns = {"anthropic": [GREET, DONE], "gemini": [BOTH, DONE], "chat": [DONE]}
    async with server_gateway(tmp_path, server.url, turns) as setup:
        first = await setup.post("anthropic")
        second = await setup.post("gemini", previous_response_id=first.response["id"])
        third = await setup.post("chat", previous_response_id=second.response["id"])
        assert setup.problems() == []
        [last] = setup.upstreams["chat"].requests
    assert item_types(second.response) == ["mcp_call", "mcp_call", "message"]
    assert output_text(third.response) == "I have greeted her."
    assert last.raw.decode().count("Hello Ada") == 2


# --- results and failures -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "shown"),
    [
        (call("document"), "inside"),
        (call("picture"), "[image: image/png]"),
        (call("broken"), "There is no such city."),
        (call("nowhere"), "function_call"),
    ],
    ids=["resource", "image", "error", "unknown"],
)
async def test_results_of_every_kind(
    tmp_path: Path, server: ToolsServer, tool: Call, shown: str
) -> None:
    async with server_gateway(
        tmp_path, server.url, {"chat": [Turn(1, calls=(tool,)), DONE]}
    ) as setup:
        answer = await setup.post()
    assert answer.response["status"] == "completed"
    assert shown in json.dumps(answer.response["output"])
    check_with_sdk(answer.events)


async def test_an_image_reaches_a_model_that_takes_images(
    tmp_path: Path, server: ToolsServer
) -> None:
    turns = [Turn(1, calls=(call("picture"),)), DONE]
    async with server_gateway(tmp_path, server.url, {"chat": turns}) as setup:
        await setup.post()
        second = setup.upstreams["chat"].requests[1]
    assert "data:image/png;base64," in second.raw.decode()


@every_dialect
@pytest.mark.parametrize("tool", ["picture", "document"])
async def test_an_approved_call_shows_the_model_what_a_direct_one_does(
    tmp_path: Path, server: ToolsServer, kind: str, tool: str
) -> None:
    """The last message of the request after the call: an image, or a text with the resource."""
    asked = Turn(1, calls=(call(tool),))
    turns = {kind: [asked, DONE, asked, DONE]}
    async with server_gateway(tmp_path, server.url, turns) as setup:
        await setup.post(kind)
        first = await setup.post(kind, tools=[ASKING])
        approval = {
            "type": "mcp_approval_response",
            "approval_request_id": first.response["output"][-1]["id"],
            "approve": True,
        }
        later = await setup.post(
            kind, input=[approval], previous_response_id=first.response["id"], tools=[ASKING]
        )
        assert setup.problems() == []
        requests = setup.upstreams[kind].requests
    assert later.response["status"] == "completed"
    direct, approved = (last_message(requests[number].body) for number in (1, 3))
    assert (PIXEL_TEXT if tool == "picture" else "inside") in json.dumps(direct)
    assert approved == direct


PIXEL_TEXT = base64.b64encode(PIXEL).decode()


def last_message(body: Document) -> Document:
    """The last message of a native request, without the id of a call, which differs."""
    [message] = (body.get("messages") or body["contents"])[-1:]
    text = re.sub(r'"(tool_call_id|tool_use_id|id)": "[^"]*"', "", json.dumps(message))
    return {"message": text}


async def test_a_server_that_needs_a_token_gets_that_of_the_client(tmp_path: Path) -> None:
    with serve_tools() as guarded:
        guarded.require_token("secret")
        async with server_gateway(tmp_path, guarded.url, {"chat": [GREET, DONE]}) as setup:
            refused = await setup.post()
            allowed = await setup.post(tools=[{**TOOL, "authorization": "secret"}])
    assert refused.events[-1]["type"] == "response.failed"
    assert "401" in refused.response["output"][0]["error"]
    assert item_types(allowed.response) == ["mcp_list_tools", "mcp_call", "message"]


async def test_a_server_that_is_not_allowed_is_refused(tmp_path: Path, server: ToolsServer) -> None:
    other = {**TOOL, "server_url": "https://elsewhere.example/mcp"}
    async with server_gateway(tmp_path, server.url, {"chat": [DONE]}) as setup:
        answer = await setup.post(tools=[other])
    assert answer.status == 400
    assert "does not allow its `server_url`" in answer.error["message"]


async def test_a_gateway_without_servers_refuses_the_tool(tmp_path: Path) -> None:
    async with server_gateway(tmp_path, "", {"chat": [DONE]}, McpConfig()) as setup:
        answer = await setup.post()
    assert answer.status == 400
    assert "[mcp]" in answer.error["message"]


async def test_the_operator_may_do_without_approval(tmp_path: Path, server: ToolsServer) -> None:
    own = McpServerConfig(url=server.url, require_approval="never")
    mcp = McpConfig(servers={"tests": own})
    async with server_gateway(tmp_path, "", {"chat": [GREET, DONE]}, mcp) as setup:
        answer = await setup.post(tools=[{"type": "mcp", "server_label": "tests"}])
    assert item_types(answer.response) == ["mcp_list_tools", "mcp_call", "message"]


async def test_a_response_that_is_cancelled_cancels_the_call(tmp_path: Path) -> None:
    waiting = Turn(1, calls=(call("wait"),))
    with serve_tools() as slow:
        async with server_gateway(tmp_path, slow.url, {"chat": [waiting]}) as setup:
            body = {"model": "chat/m", "input": "Wait.", "tools": [TOOL], "background": True}
            _, _, queued = await setup.gateway.post(body)
            await until(slow.waiting.is_set, "a call that waits")
            url = f"{setup.gateway.base_url}/responses/{queued['id']}/cancel"
            async with setup.gateway.client.post(url) as response:
                cancelled = await response.json()
            await until(slow.cancelled.is_set, "a call that is cancelled")
    assert cancelled["status"] == "cancelled"


# --- clients --------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@every_dialect
async def test_the_openai_client(
    tmp_path: Path, server: ToolsServer, kind: str, stream: bool
) -> None:
    _, model = PROVIDERS[kind]
    async with (
        server_gateway(tmp_path, server.url, {kind: [GREET, DONE]}) as setup,
        openai_client(setup.gateway) as client,
    ):
        tools: Any = [TOOL]
        if stream:
            async with client.responses.stream(
                model=f"{kind}/{model}", input="Greet Ada.", tools=tools
            ) as events:
                seen = [event.type async for event in events]
                response: Any = await events.get_final_response()
            assert seen.count("response.mcp_call.completed") == 1
        else:
            response = await client.responses.create(
                model=f"{kind}/{model}", input="Greet Ada.", tools=tools
            )
    assert [item.type for item in response.output if item.type != "reasoning"] == [
        "mcp_list_tools",
        "mcp_call",
        "message",
    ]
    assert response.output_text == "I have greeted her."


async def test_a_background_response_is_read_again(tmp_path: Path, server: ToolsServer) -> None:
    async with (
        server_gateway(tmp_path, server.url, {"anthropic": [GREET, DONE]}) as setup,
        openai_client(setup.gateway) as client,
    ):
        tools: Any = [TOOL]
        stream: Any = await client.responses.create(
            model="anthropic/claude-opus-4-6",
            input="Greet Ada.",
            tools=tools,
            background=True,
            stream=True,
        )
        first: list[Any] = []
        async for event in stream:
            first.append(event)
            if event.type == "response.mcp_list_tools.in_progress":
                break
        await stream.close()
        last = first[-1].sequence_number
        again: Any = await client.responses.retrieve(
            first[0].response.id, stream=True, starting_after=last
        )
        rest = [event async for event in again]
    numbers = [event.sequence_number for event in (*first, *rest)]
    assert numbers == list(range(len(numbers)))
    assert rest[-1].type == "response.completed"
    assert [item.type for item in rest[-1].response.output if item.type != "reasoning"] == [
        "mcp_list_tools",
        "mcp_call",
        "message",
    ]


@pytest.mark.parametrize("approve", [True, False], ids=["approved", "refused"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@every_dialect
async def test_the_agents_sdk_asks_for_approval(
    tmp_path: Path, server: ToolsServer, kind: str, stream: bool, approve: bool
) -> None:
    asked: list[str] = []

    def decide(request: MCPToolApprovalRequest) -> MCPToolApprovalFunctionResult:
        asked.append(request.data.name)
        return {"approve": True} if approve else {"approve": False, "reason": "Not now."}

    _, model = PROVIDERS[kind]
    async with (
        server_gateway(tmp_path, server.url, {kind: [GREET, DONE]}) as setup,
        openai_client(setup.gateway) as client,
    ):
        config: Any = ASKING
        agent = Agent(
            name="Greeter",
            model=OpenAIResponsesModel(f"{kind}/{model}", openai_client=client),
            model_settings=ModelSettings(),
            tools=[HostedMCPTool(tool_config=config, on_approval_request=decide)],
        )
        quiet = RunConfig(tracing_disabled=True)
        if stream:
            result: Any = Runner.run_streamed(agent, "Greet Ada.", run_config=quiet)
            async for _ in result.stream_events():
                pass
        else:
            result = await Runner.run(agent, "Greet Ada.", run_config=quiet)
        assert setup.problems() == []
        last = setup.upstreams[kind].requests[-1]
    assert asked == ["greet"]
    assert result.final_output == "I have greeted her."
    assert ("Hello Ada" if approve else "Not now.") in last.raw.decode()
