"""Managed MCP: any model uses the tools of servers, with the items and events of the API."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import AttemptConfig, ModelConfig
from antiphon.core.mcp.values import McpProblem, McpResult, McpToolList
from tests.support.failing_providers import error
from tests.support.gateways import events_of
from tests.support.mcp.value_servers import (
    DOWN,
    READ_ONLY,
    WEATHER,
    ValueServers,
    use_servers,
    weather_server,
)
from tests.support.openai_sdk_check import check_with_sdk
from tests.support.rounds import (
    READ,
    RoundsGateway,
    call_delta,
    item_types,
    output_text,
    read_call,
    reasoning_delta,
    round_script,
    rounds_gateway,
    streamed_and_whole,
    text_delta,
)
from tests.support.stream_reader import open_stream
from tests.support.traces import read_trace
from tests.support.upstream import Script
from tests.support.waiting import until, until_async

Document = dict[str, Any]
SKY: Document = {
    "type": "mcp",
    "server_label": "sky",
    "server_url": "https://sky.example/mcp",
    "require_approval": "never",
}
ASKING: Document = {**SKY, "require_approval": "always"}
ULM = '{"city": "Ulm"}'


def weather_call(call_id: str = "call_1", name: str = "sky__weather") -> tuple[str, str, str]:
    return call_id, name, ULM


ASKED = round_script(call_delta(weather_call()))
ANSWER = round_script(text_delta("Sunny."))


def event_order(events: Iterable[Document]) -> list[str]:
    """The types of events, with those of their items; pieces of one text count once."""
    order: list[str] = []
    for event in events:
        kind = event["type"].removeprefix("response.")
        item = event.get("item", {}).get("type", "")
        label = f"{kind} {item}".strip()
        if not (kind.endswith(".delta") and order and order[-1] == label):
            order.append(label)
    return order


def gateway(tmp_path: Path, *rounds: Script, **options: Any) -> Any:
    return rounds_gateway(tmp_path, *rounds, **options)


def use(setup: RoundsGateway, servers: ValueServers) -> ValueServers:
    use_servers(setup.gateway.engine, servers)
    return servers


# --- list and call --------------------------------------------------------------------------------


@streamed_and_whole
async def test_a_model_uses_a_server(tmp_path: Path, stream: bool) -> None:
    async with gateway(tmp_path, ASKED, ANSWER) as setup:
        servers = use(setup, weather_server())
        answer = await setup.post_request(stream=stream, tools=[SKY])
        first, second = setup.request_bodies
    assert answer.response["status"] == "completed"
    listed, called, message = answer.response["output"]
    assert [tool["name"] for tool in listed["tools"]] == ["weather"]
    assert (called["name"], called["output"]) == ("weather", "Sunny in Ulm.")
    assert message["type"] == "message"
    assert output_text(answer.response) == "Sunny."
    assert [tool["function"]["name"] for tool in first["tools"]] == ["sky__weather"]
    assert second["tools"] == first["tools"]
    assert second["messages"][:1] == first["messages"]
    assert second["messages"][2]["content"] == "Sunny in Ulm."
    assert servers.asked == [("list", "sky"), ("call", "sky", "weather"), ("close",)]


THOUGHT_AND_CALLED = round_script(reasoning_delta("Hm."), call_delta(weather_call()))
CALL_ORDER = [
    "output_item.added mcp_list_tools",
    "mcp_list_tools.in_progress",
    "mcp_list_tools.completed",
    "output_item.done mcp_list_tools",
    "output_item.added mcp_call",
    "mcp_call.in_progress",
    "mcp_call_arguments.delta",
    "mcp_call_arguments.done",
    "mcp_call.completed",
    "output_item.done mcp_call",
]
APPROVAL_ORDER = [
    *CALL_ORDER[:4],
    "output_item.added mcp_approval_request",
    "output_item.done mcp_approval_request",
]


def mcp_order(events: Iterable[Document]) -> list[str]:
    return [each for each in event_order(events) if "mcp" in each]


async def test_the_events_of_a_call_have_the_order_of_the_api(tmp_path: Path) -> None:
    async with gateway(tmp_path, THOUGHT_AND_CALLED, ANSWER) as setup:
        use(setup, weather_server())
        answer = await setup.post_request(stream=True, tools=[SKY])
    assert mcp_order(answer.events) == CALL_ORDER
    check_with_sdk(answer.events)


async def test_the_events_of_a_request_for_approval_have_the_order_of_the_api(
    tmp_path: Path,
) -> None:
    async with gateway(tmp_path, THOUGHT_AND_CALLED) as setup:
        use(setup, weather_server())
        answer = await setup.post_request(stream=True, tools=[ASKING])
    assert mcp_order(answer.events) == APPROVAL_ORDER
    assert answer.response["status"] == "completed"
    check_with_sdk(answer.events)


async def test_the_list_is_streamed_before_the_provider_is_called(tmp_path: Path) -> None:
    async with gateway(tmp_path, ANSWER) as setup:
        servers = use(setup, weather_server())
        servers.listing.clear()
        body = {"model": "m", "input": "Hi", "stream": True, "tools": [SKY]}
        async with open_stream(setup.gateway.gateway.port) as stream:
            await stream.post(body)
            seen = [await stream.event() for _ in range(4)]
            assert mcp_order(filter(None, seen)) == CALL_ORDER[:2]
            assert setup.request_bodies == []
            servers.listing.set()
            answer = await stream.rest()
    assert answer.response["status"] == "completed"


@streamed_and_whole
async def test_parallel_calls_of_two_servers(tmp_path: Path, stream: bool) -> None:
    calls = call_delta(weather_call("call_1"), weather_call("call_2", "sea__weather"))
    async with gateway(tmp_path, round_script(calls), ANSWER) as setup:
        lists = McpToolList(tools=(WEATHER,))
        servers = use(setup, ValueServers(sky=lists, sea=lists))
        servers.tools["sea", "weather"] = lambda _: McpResult(text="Stormy.")
        tools = [SKY, {**SKY, "server_label": "sea"}]
        answer = await setup.post_request(stream=stream, tools=tools)
        second = setup.request_bodies[1]
    called = [item for item in answer.response["output"] if item["type"] == "mcp_call"]
    assert [item["server_label"] for item in called] == ["sky", "sea"]
    assert [item["output"] for item in called] == ["Sunny in Ulm.", "Stormy."]
    assert [each["role"] for each in second["messages"]] == ["user", "assistant", "tool", "tool"]


@streamed_and_whole
async def test_beside_a_call_of_the_client_the_response_ends(tmp_path: Path, stream: bool) -> None:
    calls = call_delta(weather_call(), read_call("call_r"))
    async with gateway(tmp_path, round_script(calls), ANSWER) as setup:
        use(setup, weather_server())
        answer = await setup.post_request(stream=stream, tools=[SKY, READ])
        assert item_types(answer.response) == ["mcp_list_tools", "mcp_call", "function_call"]
        later = await setup.post_request(
            input=[{"type": "function_call_output", "call_id": "call_r", "output": "text"}],
            previous_response_id=answer.response["id"],
            tools=[SKY, READ],
        )
        second = setup.request_bodies[1]
    roles = [each["role"] for each in second["messages"]]
    assert roles == ["user", "assistant", "tool", "tool"]
    assert output_text(later.response) == "Sunny."


@streamed_and_whole
async def test_the_limit_of_calls_is_kept(tmp_path: Path, stream: bool) -> None:
    calls = call_delta(weather_call("call_1"), weather_call("call_2"))
    async with gateway(tmp_path, round_script(calls), ANSWER) as setup:
        servers = use(setup, weather_server())
        answer = await setup.post_request(stream=stream, tools=[SKY], max_tool_calls=1)
        second = setup.request_bodies[1]
    assert item_types(answer.response) == ["mcp_list_tools", "mcp_call", "message"]
    assert servers.asked.count(("call", "sky", "weather")) == 1
    assert "limit of tool calls" in second["messages"][-1]["content"]
    assert answer.response["max_tool_calls"] == 1


async def test_only_allowed_tools_are_declared(tmp_path: Path) -> None:
    async with gateway(tmp_path, ANSWER) as setup:
        use(setup, weather_server(READ_ONLY))
        await setup.post_request(tools=[{**SKY, "allowed_tools": {"read_only": True}}])
        [body] = setup.request_bodies
    assert [tool["function"]["name"] for tool in body["tools"]] == ["sky__read"]


# --- failures -------------------------------------------------------------------------------------


async def test_a_list_that_fails_fails_the_stream(tmp_path: Path) -> None:
    async with gateway(tmp_path) as setup:
        servers = use(setup, ValueServers(sky=McpToolList(problem=DOWN)))
        answer = await setup.post_request(stream=True, tools=[SKY])
        assert setup.request_bodies == []
    assert mcp_order(answer.events) == [
        *CALL_ORDER[:2],
        "mcp_list_tools.failed",
        "output_item.done mcp_list_tools",
    ]
    assert answer.events[-1]["type"] == "response.failed"
    assert "The MCP server 'sky' did not list its tools" in answer.error["message"]
    assert answer.response["output"][0]["error"] == DOWN.message
    assert servers.asked[-1] == ("close",)
    check_with_sdk(answer.events)


async def test_a_list_that_fails_is_an_error_of_a_whole_response(tmp_path: Path) -> None:
    async with gateway(tmp_path) as setup:
        servers = use(setup, ValueServers(sky=McpToolList(problem=DOWN)))
        answer = await setup.post_request(tools=[SKY])
    assert answer.status == 424
    assert "The MCP server 'sky' did not list its tools" in answer.error["message"]
    named = [answer.error[name] for name in ("type", "code", "param")]
    assert named == ["external_connector_error", "http_error", "tools"]
    assert servers.asked[-1] == ("close",)


@streamed_and_whole
@pytest.mark.parametrize(
    ("result", "kind"),
    [
        (McpResult(text="No such city.", is_error=True), "mcp_tool_execution_error"),
        (
            McpResult(problem=McpProblem(type="mcp_protocol_error", message="No such city.")),
            "mcp_protocol_error",
        ),
    ],
    ids=["tool", "server"],
)
async def test_the_model_reads_the_error_of_a_call(
    tmp_path: Path, stream: bool, result: McpResult, kind: str
) -> None:
    async with gateway(tmp_path, ASKED, ANSWER) as setup:
        servers = use(setup, weather_server())
        servers.tools["sky", "weather"] = lambda _: result
        answer = await setup.post_request(stream=stream, tools=[SKY])
        second = setup.request_bodies[1]
    called = answer.response["output"][1]
    assert (called["status"], called["error"]["type"]) == ("failed", kind)
    assert second["messages"][-1]["content"] == "error: No such city."
    assert answer.response["status"] == "completed"
    if stream:
        assert "response.mcp_call.failed" in [event["type"] for event in answer.events]
        check_with_sdk(answer.events)


async def test_a_provider_that_fails_after_the_list_fails_the_stream(tmp_path: Path) -> None:
    once = AttemptConfig(max_attempts=1)
    async with gateway(tmp_path, error(503), attempts=once) as setup:
        use(setup, weather_server())
        answer = await setup.post_request(stream=True, tools=[SKY])
    assert answer.events[-1]["type"] == "response.failed"
    assert item_types(answer.response) == ["mcp_list_tools"]


async def test_a_provider_that_fails_after_the_list_is_an_error_of_a_whole_response(
    tmp_path: Path,
) -> None:
    once = AttemptConfig(max_attempts=1)
    async with gateway(tmp_path, error(503), attempts=once) as setup:
        use(setup, weather_server())
        answer = await setup.post_request(tools=[SKY])
        assert setup.waiting_requests == 0
    assert answer.status == 503


@streamed_and_whole
async def test_the_first_request_is_retried(tmp_path: Path, stream: bool) -> None:
    async with gateway(tmp_path, error(503), ASKED, error(503), ANSWER) as setup:
        servers = use(setup, weather_server())
        answer = await setup.post_request(stream=stream, tools=[SKY])
        assert len(setup.request_bodies) == 4
    assert item_types(answer.response) == ["mcp_list_tools", "mcp_call", "message"]
    assert servers.asked.count(("list", "sky")) == 1


@streamed_and_whole
async def test_a_fallback_goes_on_with_the_tools(tmp_path: Path, stream: bool) -> None:
    options: Document = {"fallback": [ASKED, ANSWER], "attempts": AttemptConfig(max_attempts=2)}
    async with gateway(tmp_path, error(401), **options) as setup:
        servers = use(setup, weather_server())
        answer = await setup.post_request(model="up/m", stream=stream, tools=[SKY])
        assert len(setup.fallback.requests) == 2
    assert item_types(answer.response) == ["mcp_list_tools", "mcp_call", "message"]
    assert servers.asked.count(("list", "sky")) == 1


@streamed_and_whole
async def test_a_fallback_that_cannot_take_the_tools_is_skipped(
    tmp_path: Path, stream: bool
) -> None:
    options: Document = {
        "fallback": [ANSWER],
        "spare_model": ModelConfig(max_tools=1),
        "attempts": AttemptConfig(max_attempts=2),
    }
    async with gateway(tmp_path, error(401), **options) as setup:
        use(setup, weather_server(READ_ONLY))
        answer = await setup.post_request(model="up/m", stream=stream, tools=[SKY])
        assert setup.fallback.requests == []
    assert answer.status == (200 if stream else 502)
    [skipped] = read_trace(setup.trace, answer.headers["x-request-id"]).skipped
    assert (skipped.provider, skipped.reason) == ("spare", "it cannot serve this request")


async def test_a_fallback_whose_provider_calls_servers_itself_is_skipped(tmp_path: Path) -> None:
    options: Document = {"fallback": [ANSWER], "spare_kind": "openai"}
    async with gateway(tmp_path, ANSWER, **options) as setup:
        use(setup, weather_server())
        answer = await setup.post_request(model="up/m", tools=[SKY])
    [skipped] = read_trace(setup.trace, answer.response["id"]).skipped
    assert skipped.provider == "spare"
    assert "the gateway calls MCP servers for one of the two models" in skipped.reason


@streamed_and_whole
async def test_too_many_tools_are_an_error(tmp_path: Path, stream: bool) -> None:
    many = tuple(type(WEATHER)(name=f"tool_{number}") for number in range(200))
    async with gateway(tmp_path) as setup:
        servers = use(setup, weather_server(*many))
        answer = await setup.post_request(stream=stream, tools=[SKY])
        assert setup.request_bodies == []
    assert answer.status == (200 if stream else 400)
    assert "At most 128 tools" in answer.error["message"]
    assert servers.asked[-1] == ("close",)


async def test_a_background_response_with_too_many_tools_says_so(tmp_path: Path) -> None:
    many = tuple(type(WEATHER)(name=f"tool_{number}") for number in range(200))
    async with gateway(tmp_path) as setup:
        use(setup, weather_server(*many))
        client = setup.gateway.client
        body = {"model": "m", "input": "Hello?", "background": True, "tools": [SKY]}
        async with client.post(f"{setup.gateway.base_url}/responses", json=body) as reply:
            url = f"{setup.gateway.base_url}/responses/{(await reply.json())['id']}"

        async def has_ended() -> bool:
            async with client.get(url) as reply:
                return (await reply.json())["status"] not in ("queued", "in_progress")

        await until_async(has_ended, "the response has ended")
        async with client.get(url) as reply:
            found = await reply.json()
    assert found["status"] == "failed"
    assert "At most 128 tools" in found["error"]["message"]


async def test_a_client_that_leaves_ends_the_call(tmp_path: Path) -> None:
    async with gateway(tmp_path, ASKED) as setup:
        servers = use(setup, weather_server())
        servers.blocked.add("weather")
        body = {"model": "m", "input": "Hi", "stream": True, "store": False, "tools": [SKY]}
        async with open_stream(setup.gateway.gateway.port) as stream:
            await stream.post(body)
            await stream.event()
            await servers.begun.wait()
        await until(lambda: servers.asked[-1] == ("close",), "connections that are closed")
        assert servers.interrupted == ["weather"]
        assert setup.waiting_requests == 0


# --- approval and history -------------------------------------------------------------------------


def decision(answer: Any, *, approve: bool = True, **fields: Any) -> Document:
    request = answer.response["output"][-1]
    assert request["type"] == "mcp_approval_request"
    response = {"type": "mcp_approval_response", "approval_request_id": request["id"]}
    return {**response, "approve": approve, **fields}


@streamed_and_whole
@pytest.mark.parametrize("stored", [True, False], ids=["stored", "sent back"])
async def test_an_approved_call_is_made_before_the_model_is_asked(
    tmp_path: Path, stream: bool, stored: bool
) -> None:
    async with gateway(tmp_path, ASKED, ANSWER) as setup:
        servers = use(setup, weather_server())
        first = await setup.post_request(tools=[ASKING], stream=stream)
        assert servers.asked == [("list", "sky"), ("close",)]
        if stored:
            body: Document = {"previous_response_id": first.response["id"]}
            items: list[Document] = [decision(first)]
        else:
            body = {"store": False}
            user = {"role": "user", "content": "Hello?"}
            items = [user, *first.response["output"], decision(first)]
        later = await setup.post_request(input=items, tools=[ASKING], stream=stream, **body)
        second = setup.request_bodies[1]
    assert item_types(later.response) == ["mcp_call", "message"]
    called = later.response["output"][0]
    assert called["approval_request_id"] == decision(first)["approval_request_id"]
    assert called["output"] == "Sunny in Ulm."
    assert servers.asked[2:] == [("call", "sky", "weather"), ("close",)]
    assert [each["role"] for each in second["messages"]] == ["user", "assistant", "tool"]
    if stream:
        assert mcp_order(later.events) == CALL_ORDER[4:]


@streamed_and_whole
async def test_a_call_that_is_not_approved_is_never_made(tmp_path: Path, stream: bool) -> None:
    async with gateway(tmp_path, ASKED, ANSWER) as setup:
        servers = use(setup, weather_server())
        first = await setup.post_request(tools=[ASKING], stream=stream)
        later = await setup.post_request(
            input=[decision(first, approve=False, reason="Look out of the window.")],
            previous_response_id=first.response["id"],
            tools=[ASKING],
            stream=stream,
        )
        second = setup.request_bodies[1]
    assert item_types(later.response) == ["message"]
    assert "call" not in {kind for kind, *_ in servers.asked}
    assert "Look out of the window." in second["messages"][-1]["content"]


async def test_an_approval_is_used_once(tmp_path: Path) -> None:
    async with gateway(tmp_path, ASKED, ANSWER, ANSWER) as setup:
        servers = use(setup, weather_server())
        first = await setup.post_request(tools=[ASKING])
        body = {"tools": [ASKING]}
        second = await setup.post_request(
            input=[decision(first)], previous_response_id=first.response["id"], **body
        )
        third = await setup.post_request(previous_response_id=second.response["id"], **body)
        bodies = setup.request_bodies
    assert item_types(third.response) == ["message"]
    assert servers.asked.count(("call", "sky", "weather")) == 1
    assert bodies[2]["messages"][:3] == bodies[1]["messages"]


async def test_a_list_in_the_thread_is_used_again(tmp_path: Path) -> None:
    async with gateway(tmp_path, ANSWER, ASKED, ANSWER) as setup:
        servers = use(setup, weather_server())
        first = await setup.post_request(tools=[SKY])
        later = await setup.post_request(previous_response_id=first.response["id"], tools=[SKY])
    assert item_types(later.response) == ["mcp_call", "message"]
    assert servers.asked.count(("list", "sky")) == 1


async def test_a_conversation_keeps_lists_and_calls(tmp_path: Path) -> None:
    async with gateway(tmp_path, ASKED, ANSWER, ANSWER) as setup:
        servers = use(setup, weather_server())
        url = f"{setup.gateway.base_url}/conversations"
        async with setup.gateway.client.post(url, json={}) as response:
            conversation = (await response.json())["id"]
        await setup.post_request(tools=[SKY], conversation=conversation)
        later = await setup.post_request(tools=[SKY], conversation=conversation)
        third = setup.request_bodies[2]
    assert item_types(later.response) == ["message"]
    assert servers.asked.count(("list", "sky")) == 1
    assert [each["role"] for each in third["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]


# --- clients of Messages --------------------------------------------------------------------------

MESSAGES_SERVER: Document = {"type": "url", "name": "sky", "url": "https://sky.example/mcp"}


async def post_messages(setup: RoundsGateway, *messages: Document, stream: bool) -> list[Document]:
    """The content blocks of a reply; of a stream, their starts with all input."""
    body = {
        "model": "up/m",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": "Hello?"}, *messages],
        "mcp_servers": [MESSAGES_SERVER],
        "stream": stream,
    }
    url = f"{setup.gateway.base_url}/messages"
    async with setup.gateway.client.post(url, json=body) as response:
        assert response.status == 200, await response.text()
        data = await response.read()
    if not stream:
        content: list[Document] = json.loads(data)["content"]
        return content
    blocks: list[Document] = []
    for event in events_of(data):
        if event["type"] == "content_block_start":
            blocks.append(event["content_block"])
        elif event["type"] == "content_block_delta" and "partial_json" in event["delta"]:
            blocks[-1]["input"] = event["delta"]["partial_json"]
    return blocks


@streamed_and_whole
async def test_a_client_of_messages_gets_its_blocks(tmp_path: Path, stream: bool) -> None:
    async with gateway(tmp_path, ASKED, ANSWER, ANSWER) as setup:
        servers = use(setup, weather_server())
        blocks = await post_messages(setup, stream=stream)
        whole = [{**each, "input": {"city": "Ulm"}} for each in blocks[:1]]
        history = {"role": "assistant", "content": [*whole, *blocks[1:2]]}
        user = {"role": "user", "content": "And now?"}
        await post_messages(setup, history, user, stream=stream)
        third = setup.request_bodies[2]
    assert [block["type"] for block in blocks] == ["mcp_tool_use", "mcp_tool_result", "text"]
    use_block, result, _ = blocks
    assert (use_block["name"], use_block["server_name"]) == ("weather", "sky")
    assert use_block["input"] in (ULM, json.loads(ULM))
    assert result["content"] == [{"type": "text", "text": "Sunny in Ulm."}]
    assert [each["role"] for each in third["messages"]] == ["user", "assistant", "tool", "user"]
    assert third["messages"][1]["tool_calls"][0]["function"]["name"] == "sky__weather"
    assert servers.asked.count(("call", "sky", "weather")) == 1


async def test_a_list_that_fails_is_an_error_of_messages(tmp_path: Path) -> None:
    async with gateway(tmp_path) as setup:
        use(setup, ValueServers(sky=McpToolList(problem=DOWN)))
        body = {"model": "up/m", "max_tokens": 9, "mcp_servers": [MESSAGES_SERVER]}
        messages = [{"role": "user", "content": "Hello?"}]
        url = f"{setup.gateway.base_url}/messages"
        async with setup.gateway.client.post(url, json={**body, "messages": messages}) as response:
            status, document = response.status, await response.json()
    assert (status, document["type"]) == (424, "error")
    assert "The MCP server 'sky' did not list its tools" in document["error"]["message"]


# --- trace ----------------------------------------------------------------------------------------


async def test_calls_are_in_the_trace(tmp_path: Path) -> None:
    async with gateway(tmp_path, ASKED, ANSWER) as setup:
        use(setup, weather_server())
        answer = await setup.post_request(tools=[SKY])
    listed, called = read_trace(setup.trace, answer.response["id"]).server_calls
    assert (listed.server, listed.tool, listed.result_bytes) == ("sky", None, 1)
    assert (called.server, called.tool) == ("sky", "weather")
    assert called.result_bytes == len("Sunny in Ulm.")
    assert called.item_id == answer.response["output"][1]["id"]
    assert called.error is None


# --- secrets --------------------------------------------------------------------------------------

SECRET = "canary-credential-41f2"


def find_leaks(directory: Path) -> list[str]:
    files = [path for path in directory.rglob("*") if path.is_file()]
    return [path.name for path in files if SECRET.encode() in path.read_bytes()]


@streamed_and_whole
async def test_credentials_go_to_the_server_only(tmp_path: Path, stream: bool) -> None:
    async with gateway(tmp_path, ASKED, ANSWER, payloads=True) as setup:
        servers = use(setup, weather_server())
        address = f"{SKY['server_url']}?token={SECRET}"
        headers = {"X-Key": f"key-{SECRET}"}
        tool = {**SKY, "server_url": address, "authorization": SECRET, "headers": headers}
        answer = await setup.post_request(stream=stream, tools=[tool])
        bodies = [request.raw for request in setup.upstream.requests]
        log = list(setup.gateway.log)
        trace = setup.trace
    assert [server.headers for server in servers.servers] == [
        {"X-Key": f"key-{SECRET}", "Authorization": f"Bearer {SECRET}"}
    ]
    assert SECRET.encode() not in answer.body
    assert not any(SECRET.encode() in body for body in bodies)
    assert SECRET not in str(log)
    assert find_leaks(tmp_path) == []
    streams = read_trace(trace, answer.response["id"]).streams
    assert {each.kind for each in streams} >= {"request", "outbound"}
    assert not any(SECRET.encode() in each.blob for each in streams)
