"""Managed MCP: any model uses the tools of a server, with the items and events of the API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.mcp_sessions import use_servers, weather_server
from tests.support.rounds import (
    call_delta,
    output_text,
    round_script,
    rounds_gateway,
    streamed_and_whole,
    text_delta,
)

Document = dict[str, Any]
SKY: Document = {
    "type": "mcp",
    "server_label": "sky",
    "server_url": "https://sky.example/mcp",
    "require_approval": "never",
}
ASKED = round_script(call_delta(("call_1", "sky__weather", '{"city": "Ulm"}')))
ANSWER = round_script(text_delta("Sunny."))


@streamed_and_whole
async def test_a_model_uses_a_server(tmp_path: Path, stream: bool) -> None:
    servers = weather_server()
    async with rounds_gateway(tmp_path, ASKED, ANSWER) as setup:
        use_servers(setup.gateway.engine, servers)
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
