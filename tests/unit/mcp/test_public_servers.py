"""Servers whose URL a client brings: allowed by a prefix, public, over HTTPS."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from pathlib import Path

import pytest

from antiphon.config import McpConfig
from antiphon.core.mcp.values import McpProblem, McpServer
from antiphon.mcp.addresses import Network
from tests.support.mcp.public_network import Loopback, PublicNames
from tests.support.mcp.raw_servers import Request, http, raw_server, result, session_of
from tests.support.mcp.sessions import open_sessions
from tests.support.mcp.tools_server import ToolsServer, serve_tools
from tests.support.tls import make_contexts

HOST = "mcp.example"


class PublicHost:
    """A name with a public address, whose server has this certificate."""

    def __init__(self, directory: Path) -> None:
        _, self.tls = make_contexts(directory, HOST)
        self.certificate = directory / "server.pem"
        self.loopback = Loopback()

    def network(self, *addresses: str, tls: ssl.SSLContext | None = None) -> Network:
        names = PublicNames(*([each] for each in addresses or ("8.8.8.8",)))
        return Network(names, self.loopback, tls or self.tls)


@pytest.fixture
def host(tmp_path: Path) -> PublicHost:
    return PublicHost(tmp_path)


def named(url: str) -> McpServer:
    """The server at a URL of this machine, by its public name."""
    return McpServer(label="a", url=url.replace("127.0.0.1", HOST))


def allow(server: McpServer, path: str = "/") -> McpConfig:
    origin = "/".join(server.url.split("/")[:3])
    return McpConfig(allow=[origin + path], connect_timeout_s=5)


async def test_an_allowed_server_is_called_at_its_checked_address(host: PublicHost) -> None:
    with serve_tools(certificate=host.certificate) as served:
        server = named(served.url)
        async with open_sessions(allow(server), host.network()) as sessions:
            assert (await sessions.list_tools(server)).problem is None
            assert (await sessions.call(server, "greet", {"name": "A"})).text == "Hello A"
    assert {*host.loopback.asked} == {"8.8.8.8"}
    assert served.requests[0][1]["host"].startswith(HOST)


async def test_a_name_that_changes_its_address_is_not_asked_again(host: PublicHost) -> None:
    with serve_tools(certificate=host.certificate) as served:
        server = named(served.url)
        network = host.network("8.8.8.8", "127.0.0.1")
        async with open_sessions(allow(server), network) as sessions:
            for _ in range(3):
                assert (await sessions.call(server, "greet", {"name": "A"})).text == "Hello A"
    assert {*host.loopback.asked} == {"8.8.8.8"}


async def test_a_name_that_changes_its_address_is_refused_in_the_next_session(
    host: PublicHost,
) -> None:
    state = ToolsServer(is_legacy=True)
    with serve_tools(state=state, certificate=host.certificate) as served:
        server = named(served.url)
        network = host.network("8.8.8.8", "169.254.169.254")
        async with open_sessions(allow(server), network) as sessions:
            assert (await sessions.call(server, "greet", {"name": "A"})).text == "Hello A"
            state.lose_sessions()
            problem = (await sessions.call(server, "greet", {"name": "A"})).problem
    assert problem is not None
    assert "has an address that is not public" in problem.message
    assert {*host.loopback.asked} == {"8.8.8.8"}


async def test_a_certificate_of_another_name_is_refused(host: PublicHost, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    _, trusting = make_contexts(other, "other.example")
    with serve_tools(certificate=other / "server.pem") as served:
        server = named(served.url)
        async with open_sessions(allow(server), host.network(tls=trusting)) as sessions:
            problem = (await sessions.list_tools(server)).problem
    assert served.requests == []
    assert problem is not None
    assert problem.message == "MCP server 'a' could not be reached (ConnectError)."


async def list_problem(server: McpServer, config: McpConfig, network: Network) -> McpProblem:
    async with open_sessions(config, network) as sessions:
        problem = (await sessions.list_tools(server)).problem
        assert problem is not None
        return problem


@pytest.mark.parametrize("location", ["/mcp/", "https://other.example/", "http://10.0.0.1/"])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_is_followed(host: PublicHost, location: str, status: int) -> None:
    def reply(request: Request) -> Iterable[bytes]:
        return http(status, location=location)

    async with raw_server(reply, host.certificate) as raw:
        server = named(raw.url)
        problem = await list_problem(server, allow(server), host.network())
        assert {request.path for request in raw.requests} == {"/mcp"}
    assert problem.message == "MCP server 'a' redirects to another URL, which is not called."


async def test_a_redirect_in_the_middle_of_a_session_is_not_followed(host: PublicHost) -> None:
    def reply(request: Request) -> Iterable[bytes]:
        return http(307, location="https://mcp.example/elsewhere")

    async with raw_server(session_of(reply), host.certificate) as raw:
        server = named(raw.url)
        async with open_sessions(allow(server), host.network()) as sessions:
            problem = (await sessions.call(server, "a", {})).problem
        assert {request.path for request in raw.requests} == {"/mcp"}
    assert problem is not None
    assert problem.message == "MCP server 'a' redirects to another URL, which is not called."


async def test_the_older_transport_is_used_within_what_is_allowed(host: PublicHost) -> None:
    with serve_tools("sse", certificate=host.certificate) as served:
        server = named(served.url)
        async with open_sessions(allow(server), host.network()) as sessions:
            assert (await sessions.call(server, "greet", {"name": "A"})).text == "Hello A"


async def test_messages_of_the_older_transport_do_not_leave_what_is_allowed(
    host: PublicHost,
) -> None:
    with serve_tools("sse", certificate=host.certificate) as served:
        server = named(f"{served.url}?team=1")
        problem = await list_problem(server, allow(server, "/sse"), host.network())
    assert problem.message == (
        "MCP server 'a' refers to a URL that `allow` in [mcp] of the gateway does not list."
    )
    assert served.count("notifications/initialized") == 0


async def test_a_credential_goes_to_its_own_server_only(host: PublicHost) -> None:
    def reply(request: Request) -> Iterable[bytes]:
        return result(request, {"content": []})

    async with (
        raw_server(session_of(reply), host.certificate) as first,
        raw_server(session_of(reply), host.certificate) as second,
    ):
        one = McpServer(
            label="one", url=named(first.url).url, headers={"authorization": "Bearer canary"}
        )
        two = McpServer(label="two", url=named(second.url).url)
        config = McpConfig(allow=[*allow(one).allow, *allow(two).allow])
        async with open_sessions(config, host.network()) as sessions:
            await sessions.call(one, "a", {})
            await sessions.call(two, "a", {})
        assert {each.headers.get("authorization") for each in first.requests} == {"Bearer canary"}
        assert {each.headers.get("authorization") for each in second.requests} == {None}
