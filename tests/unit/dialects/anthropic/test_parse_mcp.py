"""MCP servers of a Messages request, and their blocks in its history."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.dialects.anthropic.parse import parse_messages
from antiphon.dialects.anthropic.parse_mcp import call_of_block, read_servers
from antiphon.errors import InvalidRequest

SERVER: dict[str, Any] = {"type": "url", "name": "sky", "url": "https://sky.example/mcp"}


def request(**members: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "Hello?"}]
    return {"model": "m", "max_tokens": 9, "messages": messages, **members}


def test_a_server_is_a_tool_that_needs_no_approval() -> None:
    [tool] = read_servers([{**SERVER, "authorization_token": "t"}])
    assert (tool["type"], tool["server_label"]) == ("mcp", "sky")
    assert (tool["server_url"], tool["authorization"]) == (SERVER["url"], "t")
    assert tool["require_approval"] == "never"
    assert "allowed_tools" not in tool


def test_a_server_may_restrict_its_tools() -> None:
    settings = {"enabled": True, "allowed_tools": ["weather", 1]}
    [tool] = read_servers([{**SERVER, "tool_configuration": settings}])
    assert tool["allowed_tools"] == ["weather"]


def test_a_server_that_is_switched_off_is_none() -> None:
    assert read_servers([{**SERVER, "tool_configuration": {"enabled": False}}]) == ()
    assert read_servers(None) == ()


@pytest.mark.parametrize(
    ("servers", "path"),
    [
        ({}, "mcp_servers"),
        (["sky"], "mcp_servers.0"),
        ([SERVER, {"name": "sky"}], "mcp_servers.1.url"),
        ([{"url": "https://sky.example"}], "mcp_servers.0.name"),
        ([{**SERVER, "name": ""}], "mcp_servers.0.name"),
    ],
)
def test_what_is_no_server_is_an_error(servers: Any, path: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        read_servers(servers)
    assert error.value.param == path


def test_servers_stand_beside_the_tools_and_stay_with_the_request() -> None:
    tool = {"name": "read", "input_schema": {"type": "object"}}
    parsed = parse_messages(request(tools=[tool], mcp_servers=[SERVER], other=1))
    assert [each["type"] for each in parsed.tools] == ["function", "mcp"]
    assert parsed.unknown == ("other",)
    assert parsed.extra is not None
    assert parsed.extra["members"]["mcp_servers"] == [SERVER]


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
        "call_id": "mcptoolu_1",
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
    assert found == {"type": "function_call_output", "call_id": "mcptoolu_1", "output": output}


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
