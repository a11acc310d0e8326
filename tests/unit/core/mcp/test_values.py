"""Values that both sides of MCP use."""

from __future__ import annotations

from antiphon.core.mcp.values import McpServer


def test_a_server_does_not_show_its_headers() -> None:
    server = McpServer(label="a", url="https://a.example", headers={"Authorization": "Bearer x"})
    assert repr(server) == (
        "McpServer(label='a', url='https://a.example', headers=['Authorization'])"
    )
