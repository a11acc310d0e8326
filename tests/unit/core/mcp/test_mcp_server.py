"""An MCP server of a request does not show its credentials."""

from __future__ import annotations

from antiphon.core.mcp.values import McpServer


def test_the_values_of_headers_are_not_shown() -> None:
    server = McpServer(label="a", url="https://a.example/", headers={"authorization": "canary"})
    assert repr(server) == (
        "McpServer(label='a', url='https://a.example/', headers=['authorization'])"
    )
