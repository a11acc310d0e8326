"""MCP servers of a Messages request, and their blocks in its history."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.dialects.anthropic.parse import parse_messages
from antiphon.dialects.anthropic.parse_mcp import call_of_block
from antiphon.errors import InvalidRequest
from tests.support.tables import table

SERVER: dict[str, Any] = {"type": "url", "name": "sky", "url": "https://sky.example/mcp"}


def request(**members: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "Hello?"}]
    return {"model": "m", "max_tokens": 9, "messages": messages, **members}


def read(servers: Any, *tools: dict[str, Any], messages: Any = ()) -> list[dict[str, Any]]:
    """The canonical servers of a request with these toolsets."""
    given = [{"role": "user", "content": "Hello?"}, *messages]
    body = request(mcp_servers=servers, tools=list(tools), messages=given)
    return [tool for tool in parse_messages(body).tools if tool["type"] == "mcp"]


def toolset(name: str = "sky", **members: Any) -> dict[str, Any]:
    return {"type": "mcp_toolset", "mcp_server_name": name, **members}


def path_of_error(servers: Any, *tools: dict[str, Any], messages: Any = ()) -> str | None:
    with pytest.raises(InvalidRequest) as error:
        read(servers, *tools, messages=messages)
    assert error.value.message.startswith(f"{error.value.param}: ")
    return error.value.param


# --- servers --------------------------------------------------------------------------------------


def test_a_server_is_a_tool_that_needs_no_approval() -> None:
    [tool] = read([{**SERVER, "authorization_token": "t"}])
    assert (tool["type"], tool["server_label"]) == ("mcp", "sky")
    assert (tool["server_url"], tool["authorization"]) == (SERVER["url"], "t")
    assert tool["require_approval"] == "never"
    assert "allowed_tools" not in tool


def test_a_server_may_restrict_its_tools() -> None:
    settings = {"enabled": True, "allowed_tools": ["weather"]}
    [tool] = read([{**SERVER, "tool_configuration": settings}])
    assert tool["allowed_tools"] == ["weather"]


def test_a_server_that_is_switched_off_is_none() -> None:
    assert read([{**SERVER, "tool_configuration": {"enabled": False}}]) == []
    assert read(None) == []


@table(
    ("servers", "path"),
    [
        ({}, "mcp_servers"),
        (["sky"], "mcp_servers.0"),
        ([SERVER, {"name": "sky"}], "mcp_servers.1.url"),
        ([{"url": "https://sky.example"}], "mcp_servers.0.name"),
        ([{**SERVER, "name": ""}], "mcp_servers.0.name"),
        ([SERVER, SERVER], "mcp_servers.1.name"),
        ([{**SERVER, "authorization_token": 1}], "mcp_servers.0.authorization_token"),
        ([{**SERVER, "tool_configuration": []}], "mcp_servers.0.tool_configuration"),
        (
            [{**SERVER, "tool_configuration": {"allowed_tools": ["weather", 1]}}],
            "mcp_servers.0.tool_configuration.allowed_tools.1",
        ),
    ],
)
def test_what_is_no_server_is_an_error(servers: Any, path: str) -> None:
    assert path_of_error(servers) == path


def test_servers_stand_beside_the_tools_and_stay_with_the_request() -> None:
    tool = {"name": "read", "input_schema": {"type": "object"}}
    parsed = parse_messages(request(tools=[tool], mcp_servers=[SERVER], other=1))
    assert [each["type"] for each in parsed.tools] == ["function", "mcp"]
    assert parsed.unknown == ("other",)
    assert parsed.extra is not None
    assert parsed.extra["members"]["mcp_servers"] == [SERVER]


# --- toolsets -------------------------------------------------------------------------------------

READ: dict[str, Any] = {"name": "read", "input_schema": {"type": "object"}}
SEA: dict[str, Any] = {"type": "url", "name": "sea", "url": "https://sea.example/mcp"}
ON, OFF = {"enabled": True}, {"enabled": False}


def test_a_server_stands_in_the_place_of_its_toolset() -> None:
    body = request(mcp_servers=[SERVER, SEA], tools=[toolset("sea"), READ, toolset()])
    parsed = parse_messages(body)
    assert [each.get("server_label") for each in parsed.tools] == ["sea", None, "sky"]
    assert parsed.tools[0]["extra"]["members"] == toolset("sea")
    assert "allowed_tools" not in parsed.tools[0]
    assert parsed.tools[0]["toolset"] == {"url_at": "mcp_servers.1.url"}


def test_a_server_without_toolset_has_nothing_for_the_tools_of_its_own_format() -> None:
    [tool] = read([SERVER])
    assert tool["extra"]["members"] == {"name": "sky"}


@table(
    ("members", "allowed", "more"),
    [
        ({"default_config": ON}, None, None),
        ({"default_config": {}, "configs": None}, None, None),
        ({"default_config": OFF, "configs": {"weather": ON}}, ["weather"], None),
        ({"default_config": OFF, "configs": {"weather": ON, "tide": {}}}, ["weather"], None),
        ({"default_config": OFF, "configs": {"weather": {}}}, [], {"off": True}),
        ({"default_config": OFF}, [], {"off": True}),
        ({"configs": {"weather": OFF, "tide": ON}}, None, {"disabled": ["weather"]}),
        ({"default_config": {"defer_loading": True}}, None, {"deferred": True}),
        ({"configs": {"weather": {"defer_loading": True}}}, None, {"deferred": True}),
        (
            {"default_config": {"defer_loading": False}, "configs": {"weather": OFF}},
            None,
            {"disabled": ["weather"]},
        ),
        (
            {"tools": [READ, {"name": "tide"}], "configs": {"tide": OFF}},
            ["read"],
            {"listed": [READ, {"name": "tide"}]},
        ),
        ({"tools": []}, [], {"listed": [], "off": True}),
    ],
)
def test_a_toolset_says_which_tools_are_enabled(members: Any, allowed: Any, more: Any) -> None:
    [tool] = read([SERVER], toolset(**members))
    at = {"url_at": "mcp_servers.0.url"}
    assert (tool.get("allowed_tools"), tool["toolset"]) == (allowed, {**at, **(more or {})})


def test_a_toolset_keeps_its_breakpoint() -> None:
    control = {"type": "ephemeral"}
    [tool] = read([SERVER], toolset(cache_control=control))
    assert tool["cache_control"] == control


@table(
    ("servers", "tools", "path"),
    [
        (None, [toolset()], "tools.0.mcp_server_name"),
        ([SERVER], [{"type": "mcp", "server_label": "sky"}], "tools.0.type"),
        ([SERVER], [toolset("sea")], "tools.0.mcp_server_name"),
        ([SERVER], [{"type": "mcp_toolset"}], "tools.0.mcp_server_name"),
        ([SERVER], [toolset(), READ, toolset()], "tools.2.mcp_server_name"),
        ([SERVER, SEA], [toolset()], "mcp_servers.1.name"),
        (
            [{**SERVER, "tool_configuration": {"enabled": True}}],
            [toolset()],
            "mcp_servers.0.tool_configuration",
        ),
        ([SERVER], [toolset(mcp_server_name=1)], "tools.0.mcp_server_name"),
        ([SERVER], [toolset(default_config=[])], "tools.0.default_config"),
        ([SERVER], [toolset(default_config={"enabled": "no"})], "tools.0.default_config.enabled"),
        ([SERVER], [toolset(configs=[])], "tools.0.configs"),
        ([SERVER], [toolset(configs={"weather": False})], "tools.0.configs.weather"),
        (
            [SERVER],
            [toolset(configs={"weather": {"defer_loading": 1}})],
            "tools.0.configs.weather.defer_loading",
        ),
        ([SERVER], [toolset(tools={})], "tools.0.tools"),
        ([SERVER], [toolset(tools=[READ, {"description": "No."}])], "tools.0.tools.1.name"),
    ],
)
def test_what_is_no_toolset_of_a_server_is_an_error(servers: Any, tools: Any, path: str) -> None:
    assert path_of_error(servers, *tools) == path


def test_a_message_may_define_the_toolset_of_a_server() -> None:
    definition = {"type": "tool_definition", "definition": toolset("sea")}
    blocks = [{"type": "text", "text": "More."}, {"type": "tool_addition", "tool": definition}]
    later = [{"role": "system", "content": blocks}, {"role": "user", "content": "And now?"}]
    [tool] = read([SERVER, SEA], toolset(), messages=later)
    assert tool["server_label"] == "sky"


# --- blocks ---------------------------------------------------------------------------------------

USE: dict[str, Any] = {
    "type": "mcp_tool_use",
    "id": "mcptoolu_1",
    "name": "weather",
    "server_name": "sky",
    "input": {"city": "Ulm"},
}
RESULT: dict[str, Any] = {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1"}


def test_a_call_of_a_server_is_a_call_for_other_providers() -> None:
    assert call_of_block(USE) == {
        "type": "function_call",
        "call_id": "mcp_1",
        "name": "weather",
        "namespace": "sky",
        "arguments": '{"city":"Ulm"}',
    }


@pytest.mark.parametrize(
    ("members", "output"),
    [
        ({"content": "Sunny."}, "Sunny."),
        ({"content": [{"type": "text", "text": "Sunny."}, {"type": "image"}]}, "Sunny."),
        ({"content": "No.", "is_error": True}, "error: No."),
        ({}, ""),
    ],
)
def test_a_result_is_its_text(members: dict[str, Any], output: str) -> None:
    found = call_of_block({**RESULT, **members})
    assert found == {"type": "function_call_output", "call_id": "mcp_1", "output": output}


def test_a_call_of_another_gateway_keeps_its_id() -> None:
    found = call_of_block({**RESULT, "tool_use_id": "call_1"})
    assert found is not None
    assert found["call_id"] == "call_1"


def test_a_listing_is_the_list_of_a_server() -> None:
    block = {"type": "mcp_tool_listing", "mcp_server_name": "sky", "tools": [READ]}
    assert call_of_block(block) == {
        "type": "mcp_list_tools",
        "server_label": "sky",
        "tools": [READ],
    }


def test_other_blocks_stand_for_nothing() -> None:
    assert call_of_block({"type": "container_upload"}) is None


def test_blocks_of_servers_keep_what_they_stand_for() -> None:
    messages = [
        {"role": "user", "content": "Hello?"},
        {"role": "assistant", "content": [USE, {**RESULT, "content": "Sunny."}]},
        {"role": "user", "content": "Thanks."},
    ]
    _, use, result, _ = parse_messages(request(messages=messages)).input
    assert (use["type"], use["block"]) == ("client_block", USE)
    assert use["instead"]["type"] == "function_call"
    assert result["instead"]["type"] == "function_call_output"
