"""Which servers may be called, and how."""

from __future__ import annotations

from antiphon.config import McpConfig, McpServerConfig
from antiphon.core.mcp.values import McpProblem, McpServer
from antiphon.mcp.policy import Endpoint, Policy
from tests.support.tables import table

CONFIG = McpConfig(
    servers={
        "files": McpServerConfig(
            url="http://127.0.0.1:3001/mcp", headers={"Authorization": "Bearer operator"}
        ),
        "quick": McpServerConfig(url="https://quick.example/", require_approval="never"),
    },
    allow=["https://mcp.example/public/", "http://10.0.0.5:8080/mcp"],
)


def find(server: McpServer, config: McpConfig = CONFIG) -> Endpoint:
    found = Policy(config).find_endpoint(server)
    assert isinstance(found, Endpoint)
    return found


def refusal(server: McpServer, config: McpConfig = CONFIG) -> str:
    found = Policy(config).find_endpoint(server)
    assert isinstance(found, McpProblem)
    assert found.type == "http_error"
    assert found.code == 403
    return found.message


def test_a_configured_server_is_found_by_its_label_and_is_trusted() -> None:
    found = find(McpServer(label="files"))
    assert found.location.url == "http://127.0.0.1:3001/mcp"
    assert found.is_trusted
    assert found.headers == {"authorization": "Bearer operator"}


def test_headers_of_the_operator_replace_those_of_the_client() -> None:
    headers = {"AUTHORIZATION": "Bearer client", "X-Team": "a"}
    assert find(McpServer(label="files", headers=headers)).headers == {
        "authorization": "Bearer operator",
        "x-team": "a",
    }


def test_nothing_is_allowed_without_configuration() -> None:
    assert "is not a server of the gateway" in refusal(McpServer(label="files"), McpConfig())
    message = refusal(McpServer(label="a", url="https://mcp.example/public/"), McpConfig())
    assert "does not allow its `server_url`" in message


def test_a_url_that_equals_an_entry_is_trusted_even_if_it_is_internal() -> None:
    found = find(McpServer(label="a", url="http://10.0.0.5:8080/mcp"))
    assert found.is_trusted


def test_a_url_below_an_entry_is_not_trusted() -> None:
    found = find(McpServer(label="a", url="https://mcp.example/public/team/mcp?x=1"))
    assert not found.is_trusted


@table(
    "url",
    [
        "http://10.0.0.5:8080/mcp/below",
        "http://mcp.example/public/",
        "https://mcp.example/publicity",
        "https://mcp.example:8443/public/",
        "https://mcp.example.evil.example/public/",
        "https://files/",
        "http://127.0.0.1:3001/mcp",
    ],
)
def test_any_other_url_is_refused(url: str) -> None:
    assert "does not allow its `server_url`" in refusal(McpServer(label="a", url=url))


@table("url", ["https://mcp.example/public/../admin", "https://u:p@mcp.example/public/", "x"])
def test_an_ambiguous_url_is_refused_and_not_shown(url: str) -> None:
    message = refusal(McpServer(label="a", url=url))
    assert "is not a plain https:// URL" in message
    assert url not in message.replace("https://", "", 1) or url == "x"


def test_a_label_of_the_configuration_gives_no_credential_to_another_url() -> None:
    found = find(McpServer(label="files", url="https://mcp.example/public/"))
    assert found.headers == {}


@table(
    "headers",
    [{"a b": "c"}, {"a": "b\r\nhost: c"}, {"a": "\u20ac"}, {"": "a"}],
)
def test_a_header_that_is_not_one_of_http_is_refused_without_its_value(
    headers: dict[str, str],
) -> None:
    message = refusal(McpServer(label="files", headers=headers))
    assert message == "MCP server 'files' cannot be called: a header is not a valid header of HTTP."


@table("name", ["Host", "content-length", "Transfer-Encoding", "Mcp-Session-Id", "accept"])
def test_headers_of_the_protocol_cannot_be_set(name: str) -> None:
    assert "belongs to the protocol" in refusal(McpServer(label="files", headers={name: "x"}))


def test_approval_is_required_unless_the_configuration_says_otherwise() -> None:
    policy = Policy(CONFIG)
    assert policy.requires_approval(McpServer(label="files"))
    assert not policy.requires_approval(McpServer(label="quick"))
    assert policy.requires_approval(McpServer(label="quick", url="https://mcp.example/public/"))
    never = Policy(McpConfig(require_approval="never"))
    assert not never.requires_approval(McpServer(label="a", url="https://a.example/"))


def test_an_endpoint_does_not_show_its_headers_and_url() -> None:
    shown = repr(find(McpServer(label="files")))
    assert shown == "Endpoint(label='files')"
