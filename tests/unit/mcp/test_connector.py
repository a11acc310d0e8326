"""The transports of a session, without the session."""

from __future__ import annotations

from antiphon.core.mcp.values import McpProblem, McpServer
from antiphon.mcp.addresses import NETWORK
from antiphon.mcp.connector import Connector
from antiphon.mcp.policy import Policy
from tests.support.mcp.raw_servers import Request, http, raw_server
from tests.support.mcp.sessions import configure


async def test_requests_have_the_headers_of_operator_and_client_and_ask_for_no_compression() -> (
    None
):
    def reply(request: Request) -> list[bytes]:
        return http(200, b"event: endpoint\ndata: /messages\n\n", "text/event-stream")

    async with raw_server(reply) as server:
        policy = Policy(configure(server.url, {"x-key": "operator"}))
        endpoint = policy.find_endpoint(McpServer(label="tests", headers={"X-User": "client"}))
        assert not isinstance(endpoint, McpProblem)
        connector = Connector(endpoint, configure(server.url), policy.admits, NETWORK)
        async with connector.open_sse():
            (request,) = server.requests
    headers = request.headers
    assert (request.method, request.path) == ("GET", "/mcp")
    assert (headers["x-key"], headers["x-user"]) == ("operator", "client")
    assert (headers["user-agent"], headers["accept-encoding"]) == ("antiphon", "identity")
