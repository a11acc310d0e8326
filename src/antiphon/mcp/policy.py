"""Which MCP servers may be called, and how.

A server is *trusted* if the operator named exactly this URL: a server of the configuration, or an
entry of `allow` that equals the URL of the request. Only a trusted server may have an internal
address, use plain HTTP, or redirect within its origin. Any other must be at or below an entry of
`allow`, use HTTPS, and have public addresses only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from antiphon.config import McpConfig
from antiphon.core.mcp.values import McpProblem, McpServer
from antiphon.mcp.urls import Location, read_url

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t -~\x80-\xff]*")
_OWN_HEADERS = frozenset(
    """
    accept accept-encoding connection content-encoding content-length content-type expect host
    keep-alive last-event-id mcp-method mcp-name mcp-protocol-version mcp-session-id
    proxy-authorization proxy-connection te trailer transfer-encoding upgrade
    """.split()
)
"""Headers that belong to the connection or the protocol: no client sets them."""


class Endpoint(Struct, frozen=True, kw_only=True):
    """A server that may be called."""

    label: str
    location: Location
    headers: Mapping[str, str]
    """Those of the operator and of the client: secrets."""
    is_trusted: bool

    def __repr__(self) -> str:
        return f"Endpoint(label={self.label!r})"


class Policy:
    """The rules of `[mcp]`."""

    def __init__(self, config: McpConfig) -> None:
        self._servers = config.servers
        self._approval = config.require_approval
        self._allowed = [found for each in config.allow if (found := read_url(each)) is not None]

    def find_endpoint(self, server: McpServer) -> Endpoint | McpProblem:
        """Find the endpoint of a server that a request names, or why it may not be called."""
        reason = self.find_refusal(server)
        if reason:
            return McpProblem(type="http_error", code=403, message=reason)
        configured = None if server.url else self._servers[server.label]
        location = read_url(server.url if configured is None else configured.url)
        assert location is not None
        own = {} if configured is None else configured.headers
        return Endpoint(
            label=server.label,
            location=location,
            headers=_merge_headers(own, server.headers),
            is_trusted=configured is not None or location in self._allowed,
        )

    def find_refusal(self, server: McpServer) -> str:
        """Say why a server may not be called; empty: it may."""
        name = f"MCP server '{server.label}'"
        if not server.url:
            if server.label in self._servers:
                return _find_bad_header(name, server.headers)
            return (
                f"{name} is not a server of the gateway. Send its `server_url`, or have it added"
                f" as [mcp.servers.{server.label}] of the gateway."
            )
        location = read_url(server.url)
        if location is None:
            return f"{name} cannot be called: `{server.url_at}` is not a plain https:// URL."
        if not self.admits(location):
            return (
                f"{name} cannot be called: the gateway does not allow its `{server.url_at}`. Use"
                " another server, or have the URL added to `allow` in [mcp] of the gateway."
            )
        return _find_bad_header(name, server.headers)

    def admits(self, location: Location) -> bool:
        """Whether clients may bring this URL."""
        if location in self._allowed:
            return True
        return location.scheme == "https" and any(map(location.is_below, self._allowed))

    def requires_approval(self, server: McpServer) -> bool:
        """Whether a call needs an approval if the request does not say."""
        configured = None if server.url else self._servers.get(server.label)
        own = None if configured is None else configured.require_approval
        return (own or self._approval) == "always"


def _find_bad_header(name: str, headers: Mapping[str, str]) -> str:
    """Find a header of a client that cannot be sent; values are secrets, and not shown."""
    problems = (check_header(key, value) for key, value in headers.items())
    problem = next(filter(None, problems), "")
    return f"{name} cannot be called: a header {problem}." if problem else ""


def check_header(name: str, value: str) -> str:
    """Say why a header cannot be sent to a server; empty: it can."""
    if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
        return "is not a valid header of HTTP"
    if name.lower() in _OWN_HEADERS:
        return "belongs to the protocol and cannot be set"
    return ""


def _merge_headers(own: Mapping[str, str], client: Mapping[str, str]) -> dict[str, str]:
    """Join the headers of operator and client, by lower-case name; the operator's are kept."""
    merged = {name.lower(): value for name, value in client.items()}
    return merged | {name.lower(): value for name, value in own.items()}
