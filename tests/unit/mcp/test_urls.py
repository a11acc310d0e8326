"""URLs of MCP servers: one reading, or none."""

from __future__ import annotations

from antiphon.mcp.urls import Location, read_url
from tests.support.tables import table


def test_a_url_is_read_into_canonical_parts() -> None:
    assert read_url("HTTPS://Host.Example.:443?a=1") == Location(
        "https", "host.example", 443, "/", "a=1"
    )
    found = read_url("http://[::1]:8080/mcp")
    assert found == Location("http", "::1", 8080, "/mcp", "")
    assert found.url == "http://[::1]:8080/mcp"


@table("url", ["https://host/mcp", "http://host:81/a/b?c=%20d", "https://10.0.0.1/"])
def test_the_canonical_form_is_read_the_same_way(url: str) -> None:
    found = read_url(url)
    assert found is not None
    assert found.url == url


@table(
    "url",
    [
        "",
        "host/mcp",
        "ftp://host/mcp",
        "file:///etc/passwd",
        "https://",
        "https://user@host/",
        "https://allowed.example\\@evil.example/",
        "https://host/a b",
        "https://host/\n",
        "https://höst.example/",
        "https://host/#part",
        "https://host:0/",
        "https://host:99999/",
        "https://host/mcp/../admin",
        "https://host/mcp/%2e%2E/admin",
        "https://host/mcp/..%2fadmin",
        "https://host/mcp/..%5cadmin",
        "https://host/mcp/%252e%252e/admin",
        "https://host/mcp/..;/admin",
        "https://host/mcp/..%3ba=b/admin",
        "https://host/mcp/..%00/admin",
        "https://[::1/",
    ],
)
def test_a_url_that_readers_may_read_in_two_ways_is_refused(url: str) -> None:
    assert read_url(url) is None


@table(
    ("url", "expected"),
    [
        ("https://host/mcp", True),
        ("https://host/mcp/", True),
        ("https://host/mcp/a?b=c", True),
        ("https://host/mcp2", False),
        ("https://host/", False),
        ("https://host:444/mcp", False),
        ("http://host/mcp", False),
        ("https://host.evil/mcp", False),
    ],
)
def test_a_url_is_below_another_by_whole_segments_of_the_path(url: str, expected: bool) -> None:
    allowed, found = read_url("https://host/mcp"), read_url(url)
    assert allowed is not None
    assert found is not None
    assert found.is_below(allowed) is expected
