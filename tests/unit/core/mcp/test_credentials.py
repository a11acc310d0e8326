"""A document that is kept has no credentials for MCP servers."""

from __future__ import annotations

from antiphon.core.mcp.credentials import hide_credentials, name_servers, without_credentials


def test_credentials_of_servers_are_left_out() -> None:
    function = {"type": "function", "name": "f", "headers": {"a": "b"}}
    tool = {"type": "mcp", "server_label": "a", "headers": {"X": "secret"}, "authorization": "t"}
    server = {"type": "url", "name": "a", "authorization_token": "t"}
    document = {"model": "m", "tools": [function, tool, "x"], "mcp_servers": [server, 1]}
    assert without_credentials(document) == {
        "model": "m",
        "tools": [function, {"type": "mcp", "server_label": "a"}, "x"],
        "mcp_servers": [{"type": "url", "name": "a"}, 1],
    }
    assert tool["authorization"] == "t"


def test_the_query_of_a_url_may_be_a_credential() -> None:
    tool = {"type": "mcp", "server_url": "https://a.example/mcp?token=secret"}
    server = {"name": "a", "url": "https://a.example/mcp"}
    document = {"tools": [tool], "mcp_servers": [server, {"url": 1}]}
    assert without_credentials(document) == {
        "tools": [{"type": "mcp", "server_url": "https://a.example/mcp?<redacted>"}],
        "mcp_servers": [server, {"url": 1}],
    }


def test_other_documents_stay_as_they_are() -> None:
    assert without_credentials({"model": "m", "tools": None}) == {"model": "m", "tools": None}


def test_servers_that_the_client_has_credentials_for_are_named() -> None:
    tools = [
        {"type": "mcp", "server_label": "open", "server_url": "https://a.example/mcp"},
        {"type": "mcp", "server_label": "token", "authorization": "t"},
        {"type": "mcp", "server_label": "query", "server_url": "https://a.example/mcp?key=t"},
        {"type": "function", "name": "f", "headers": {"a": "b"}},
        {"type": "mcp", "headers": {"a": "b"}},
    ]
    servers = [{"name": "messages", "authorization_token": "t"}, 1]
    document = {"model": "m", "tools": tools, "mcp_servers": servers}
    assert name_servers(document) == ["token", "query", "", "messages"]
    assert name_servers({"model": "m", "tools": None}) == []


def test_credentials_in_a_request_to_a_provider_are_left_out() -> None:
    body = b'{"n":1.0,"tools":[{"type":"mcp","server_label":"a","authorization":"secret"}]}'
    assert hide_credentials(body) == b'{"n":1.0,"tools":[{"type":"mcp","server_label":"a"}]}'


def test_a_request_without_credentials_is_kept_byte_by_byte() -> None:
    for body in (b'{"n": 1.0}', b'{ "mcp_servers": [{"name": "a"}] }', b'{"text": "mcp"}'):
        assert hide_credentials(body) == body


def test_a_request_that_cannot_be_read_is_not_kept() -> None:
    assert hide_credentials(b'{"mcp":') == b""
    assert hide_credentials(b'{"mcp":' + b"[" * 100_000) == b""
    assert hide_credentials(b'["mcp"]') == b'["mcp"]'
