"""The client of MCP servers, as one configuration has it: policy, remembered lists, sessions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec

from antiphon.config import Config, McpConfig
from antiphon.core.mcp.values import McpServer, McpSessions
from antiphon.mcp.addresses import NETWORK, Network
from antiphon.mcp.list_cache import ListCache
from antiphon.mcp.policy import Policy, check_header
from antiphon.mcp.sessions import Sessions
from antiphon.mcp.urls import read_url


class McpClient:
    """Opens the sessions of each response. It holds no connection itself."""

    def __init__(
        self,
        config: McpConfig,
        monotonic: Callable[[], float],
        network: Network = NETWORK,
    ) -> None:
        self._config = config
        self._policy = Policy(config)
        self._cache = ListCache(config.list_ttl_s, monotonic)
        self._network = network

    def find_refusal(self, server: McpServer) -> str:
        """Say why a server may not be called; empty: it may."""
        return self._policy.find_refusal(server)

    def requires_approval(self, server: McpServer) -> bool:
        """Whether calls need an approval in a request that does not say."""
        return self._policy.requires_approval(server)

    def open_sessions(self) -> McpSessions:
        """Make the sessions of one response; each is opened on first use."""
        return Sessions(self._config, self._policy, self._cache, self._network)


def check_servers(config: Config) -> None:
    """Check that the client package is there, and the URLs and headers of `[mcp]`; raises
    `ConfigError`."""
    if find_spec("mcp") is None:
        raise config.error_at(
            ("mcp",),
            "needs the packages mcp and httpx2. Install them into Antiphon's environment:"
            f" pip --python {sys.executable} install mcp httpx2",
        )
    for name, server in config.mcp.servers.items():
        path = ("mcp", "servers", name)
        if read_url(server.url) is None:
            raise config.error_at((*path, "url"), "must be a URL such as https://host/mcp")
        for header, value in server.headers.items():
            problem = check_header(header, value)
            if problem:
                raise config.error_at((*path, "headers", header), problem)
    for entry in config.mcp.allow:
        if read_url(entry) is None:
            raise config.error_at(
                ("mcp", "allow"),
                f"{entry!r} is not a URL such as https://host/path, without user name, `..` and"
                " wildcards",
            )
