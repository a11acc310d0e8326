"""Real MCP servers behind the real gateway, in every dialect."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon.cli.main import main
from antiphon.config import McpConfig, McpServerConfig, TraceConfig
from tests.support.mcp.server_gateway import (
    ASKING,
    BOTH,
    DONE,
    GREET,
    TOOL,
    Document,
    call,
    every_dialect,
    server_gateway,
)
from tests.support.mcp.tools_server import PIXEL, ToolsServer, serve_tools
from tests.support.openai_sdk_check import check_with_sdk
from tests.support.rounds import item_types, output_text
from tests.support.scripted_providers.session import Call, Turn
from tests.support.waiting import until


@pytest.fixture(scope="module")
def server() -> Iterator[ToolsServer]:
    with serve_tools() as state:
        yield state


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
