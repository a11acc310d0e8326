"""Servers that misbehave: each ends in a problem, in bounded time and memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import McpConfig
from antiphon.core.mcp.values import McpProblem, McpServer
from antiphon.mcp.addresses import NETWORK, Network
from antiphon.mcp.content import ReadTools
from antiphon.mcp.policy import Policy
from antiphon.mcp.session import Failure, ServerSession
from tests.support.mcp.raw_servers import Request, http, raw_server, result, session_of
from tests.support.mcp.sessions import SERVER, configure, open_sessions
from tests.support.tls import make_contexts


def impatient(url: str) -> McpConfig:
    return configure(url, connect_timeout_s=2.0, idle_timeout_s=0.3)


async def list_problem(config: McpConfig) -> McpProblem:
    async with open_sessions(config) as sessions:
        problem = (await sessions.list_tools(SERVER)).problem
        assert problem is not None
        return problem


async def call_problem(config: McpConfig) -> McpProblem:
    async with open_sessions(config) as sessions:
        problem = (await sessions.call(SERVER, "a", {})).problem
        assert problem is not None
        return problem


def never(request: Request) -> None:
    return None


async def test_a_session_is_opened_and_closed_by_its_own_task() -> None:
    def reply(request: Request) -> Iterable[bytes]:
        return result(request, {"tools": [{"name": "a", "inputSchema": {"type": "object"}}]})

    async with raw_server(session_of(reply)) as server:
        config = configure(server.url)
        endpoint = Policy(config).find_endpoint(SERVER)
        assert not isinstance(endpoint, McpProblem)

        async def resolve(host: str, port: int) -> list[str]:
            return [host]

        session = ServerSession(endpoint, config, lambda _: True, Network(resolve), lambda: None)
        listed = await session.list_tools()
        assert isinstance(listed, ReadTools)
        assert [tool.name for tool in listed.tools] == ["a"]
        session.begin_close()
        await session.wait_closed()
        assert [task for task in asyncio.all_tasks() if task.get_name() == "mcp session"] == []


async def test_a_session_that_is_closed_before_it_is_opened_fails_its_requests() -> None:
    config = configure("http://127.0.0.1:1/mcp")
    endpoint = Policy(config).find_endpoint(SERVER)
    assert not isinstance(endpoint, McpProblem)
    session = ServerSession(endpoint, config, lambda _: True, NETWORK, lambda: None)
    session.begin_close()
    failure = await session.call("a", {})
    assert isinstance(failure, Failure)
    assert failure.problem.message == "The call was cancelled: the response has ended."


async def test_a_server_that_is_not_there_is_a_problem() -> None:
    problem = await list_problem(configure("http://127.0.0.1:1/mcp"))
    assert problem.message == "MCP server 'tests' could not be reached (ConnectError)."


async def test_a_server_that_never_replies_is_a_problem() -> None:
    async with raw_server(never) as server:
        problem = await list_problem(configure(server.url, connect_timeout_s=0.3))
    assert problem.message == "MCP server 'tests' did not open a session in time."


async def test_a_call_without_reply_is_a_problem() -> None:
    async with raw_server(session_of(never)) as server:
        problem = await call_problem(impatient(server.url))
    assert problem.message == "MCP server 'tests' did not send a result in time."


NONSENSE = [
    http(200, b"<html>hello</html>", "text/html"),
    http(200, b"nonsense"),
    http(200, b"[]"),
    http(200, b'{"jsonrpc":"2.0","id":99,"result":{}}'),
    http(200, b""),
    http(200, b"data: nonsense\n\n", "text/event-stream"),
    http(200, b"\xff\xfe\x00"),
    http(200, b"[" * 100_000),
    http(202),
    http(204),
    [b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{", b""],
    [b"nonsense\r\n\r\n"],
]


@pytest.mark.parametrize("reply", NONSENSE, ids=range(len(NONSENSE)))
async def test_nonsense_instead_of_a_session_is_a_problem(reply: list[bytes]) -> None:
    async with raw_server(lambda request: reply) as server:
        problem = await list_problem(configure(server.url, connect_timeout_s=0.5))
    assert problem.message.startswith("MCP server 'tests' ")


@pytest.mark.parametrize("reply", NONSENSE, ids=range(len(NONSENSE)))
async def test_nonsense_instead_of_a_result_is_a_problem(reply: list[bytes]) -> None:
    async with raw_server(session_of(lambda request: reply)) as server:
        problem = await call_problem(impatient(server.url))
    assert problem.message.startswith("MCP server 'tests' ")


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"content": "text"},
        {"content": [{"type": "unknown"}]},
        {"content": [{"type": "image", "data": 1}]},
        {"resultType": "input_required", "inputRequests": {}},
        [],
        None,
    ],
)
async def test_a_result_of_another_form_is_a_problem(content: Any) -> None:
    async with raw_server(session_of(lambda request: result(request, content))) as server:
        problem = await call_problem(impatient(server.url))
    assert problem.type == "mcp_protocol_error"


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 503])
async def test_an_error_status_is_a_problem_with_its_code(status: int) -> None:
    async with raw_server(lambda request: http(status, b"no", "text/plain")) as server:
        problem = await list_problem(configure(server.url))
    assert (problem.type, problem.code) == ("http_error", status)
    async with raw_server(session_of(lambda request: http(status))) as server:
        problem = await call_problem(configure(server.url))
    assert (problem.type, problem.code) == ("http_error", status)


async def test_an_error_of_the_protocol_is_a_problem_with_its_code_and_without_secrets() -> None:
    def reply(request: Request) -> Iterable[bytes]:
        echo = request.headers["authorization"]
        error = {"code": -32602, "message": f"Unknown tool for {echo}"}
        document = {"jsonrpc": "2.0", "id": request.message["id"], "error": error}
        return http(200, json.dumps(document).encode())

    async with raw_server(session_of(reply)) as server:
        config = configure(server.url, {"authorization": "Bearer canary-1"})
        problem = await call_problem(config)
    assert (problem.type, problem.code) == ("mcp_protocol_error", -32602)
    assert problem.message == ("MCP server 'tests' returned an error: Unknown tool for «redacted»")


def endless(kind: str) -> Iterator[bytes]:
    """200 MB of a reply."""
    yield f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: 200000000\r\n\r\n".encode()
    for _ in range(2000):
        yield b" " * 100_000


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream", "text/html"])
async def test_200_megabytes_are_not_read(kind: str) -> None:
    async with raw_server(session_of(lambda request: endless(kind))) as server:
        await call_problem(configure(server.url, idle_timeout_s=10))
        assert server.sent < 20_000_000


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_200_megabytes_instead_of_a_session_are_not_read(kind: str) -> None:
    async with raw_server(lambda request: endless(kind)) as server:
        problem = await list_problem(configure(server.url))
        assert problem.message == "MCP server 'tests' sent more than 4,259,840 bytes."
        assert server.sent < 40_000_000


async def test_a_compressed_reply_is_refused() -> None:
    def reply(request: Request) -> Iterable[bytes]:
        return http(200, b"x" * 100, content_encoding="gzip")

    async with raw_server(session_of(reply)) as server:
        problem = await call_problem(configure(server.url))
        assert server.requests[-1].headers["accept-encoding"] == "identity"
    assert problem.message == ("MCP server 'tests' compressed its reply, which was not requested.")


async def test_a_list_without_end_is_a_problem() -> None:
    def reply(request: Request) -> Iterable[bytes]:
        return result(request, {"tools": [], "nextCursor": "again"})

    async with raw_server(session_of(reply)) as server:
        problem = await list_problem(configure(server.url))
        assert len(server.requests) < 120
    assert problem.message == "MCP server 'tests' does not end its list of tools."


async def test_pages_of_a_list_are_joined() -> None:
    def reply(request: Request) -> Iterable[bytes]:
        cursor = request.message.get("params", {}).get("cursor", "0")
        tool = {"name": f"tool{cursor}", "inputSchema": {"type": "object"}}
        following = {"nextCursor": str(int(cursor) + 1)} if int(cursor) < 2 else {}
        return result(request, {"tools": [tool], **following})

    async with (
        raw_server(session_of(reply)) as server,
        open_sessions(configure(server.url)) as sessions,
    ):
        listed = await sessions.list_tools(SERVER)
    assert [tool.name for tool in listed.tools] == ["tool0", "tool1", "tool2"]


def nest(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"a": schema}
    return schema


async def test_a_list_too_deep_to_be_parsed_is_a_problem() -> None:
    tools = [{"name": "deep", "inputSchema": {"type": "object", "x": nest(900)}}]
    async with raw_server(session_of(lambda request: result(request, {"tools": tools}))) as server:
        problem = await list_problem(configure(server.url))
    assert problem.message == "MCP server 'tests' sent a reply that is not one of the protocol."


async def test_schema_bombs_are_left_out_and_named() -> None:
    deep = nest(80)
    laughs = {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 10} for n in range(600)}
    tools = [
        {"name": "good", "inputSchema": {"type": "object"}},
        {"name": "deep", "inputSchema": {"type": "object", "x": deep}},
        {"name": "wide", "inputSchema": {"type": "object", "$defs": laughs}},
        {"name": "long", "description": "x" * 100_000, "inputSchema": {"type": "object"}},
    ]
    async with (
        raw_server(session_of(lambda request: result(request, {"tools": tools}))) as server,
        open_sessions(configure(server.url)) as sessions,
    ):
        listed = await sessions.list_tools(SERVER)
    assert [tool.name for tool in listed.tools] == ["good"]
    assert listed.left_out == ("deep", "wide", "long")


# Addresses and redirects


async def test_a_redirect_to_an_internal_address_is_not_followed() -> None:
    async with raw_server(never) as secret:

        def reply(request: Request) -> Iterable[bytes]:
            return http(307, location=secret.url)

        async with raw_server(reply) as server:
            listed = await list_problem(configure(server.url, connect_timeout_s=2))
        async with raw_server(session_of(reply)) as server:
            called = await call_problem(configure(server.url))
        assert secret.requests == []
    message = "MCP server 'tests' redirects to another URL, which is not called."
    assert (listed.message, called.message) == (message, message)


@pytest.mark.parametrize("location", ["http://[::1", "http://user@host/", "file:///etc/passwd"])
async def test_a_redirect_that_is_not_a_plain_url_is_not_followed(location: str) -> None:
    async with raw_server(lambda request: http(307, location=location)) as server:
        problem = await list_problem(configure(server.url, connect_timeout_s=2))
    assert problem.message == "MCP server 'tests' redirects to another URL, which is not called."


async def test_a_redirect_within_the_origin_is_followed_for_a_trusted_server() -> None:
    def reply(request: Request) -> Iterable[bytes] | None:
        if request.path == "/mcp":
            return http(307, location="/mcp/")
        return session_of(lambda found: result(found, {"content": []}))(request)

    async with (
        raw_server(reply) as server,
        open_sessions(configure(server.url)) as sessions,
    ):
        assert (await sessions.call(SERVER, "a", {})).problem is None


async def test_an_allowed_name_with_an_internal_address_is_not_connected_to() -> None:
    async with raw_server(never) as server:
        port = server.url.rpartition(":")[2].partition("/")[0]

        async def resolve(host: str, number: int) -> list[str]:
            return ["127.0.0.1"]

        config = McpConfig(allow=[f"https://evil.example:{port}/"])
        async with open_sessions(config, Network(resolve)) as sessions:
            named = McpServer(label="evil", url=f"https://evil.example:{port}/mcp")
            problem = (await sessions.list_tools(named)).problem
        assert server.requests == []
    assert problem is not None
    assert problem.message == (
        "MCP server 'evil' has an address that is not public; only the operator of the gateway can"
        " allow that."
    )


async def test_a_certificate_that_no_authority_signed_is_refused(tmp_path: Path) -> None:
    make_contexts(tmp_path)
    async with raw_server(never, tmp_path / "server.pem") as server:
        problem = await list_problem(configure(server.url))
        assert server.requests == []
    assert problem.message == "MCP server 'tests' could not be reached (ConnectError)."


async def test_an_endpoint_of_the_older_transport_on_another_server_is_not_called() -> None:
    async with raw_server(never) as secret:

        def reply(request: Request) -> Iterable[bytes]:
            if request.method == "POST":
                return http(405)
            return http(
                200, f"event: endpoint\ndata: {secret.url}\n\n".encode(), "text/event-stream"
            )

        async with raw_server(reply) as server:
            await list_problem(configure(server.url, connect_timeout_s=1))
        assert secret.requests == []


async def test_a_refused_message_of_the_older_transport_does_not_wait_for_the_time_out() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"

    def reply(request: Request) -> Iterable[bytes]:
        if request.method == "POST":
            return http(405 if request.path == "/mcp" else 503)
        return [head + b"event: endpoint\ndata: /messages\n\n"]

    async with raw_server(reply) as server:
        problem = await list_problem(configure(server.url, connect_timeout_s=600))
    assert (problem.type, problem.code) == ("http_error", 503)
