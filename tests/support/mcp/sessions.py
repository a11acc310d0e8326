"""Sessions of a response with servers of a test."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from antiphon.config import McpConfig, McpServerConfig
from antiphon.core.mcp.values import McpServer, McpSessions
from antiphon.mcp.addresses import NETWORK, Network
from antiphon.mcp.client import McpClient

SERVER = McpServer(label="tests")
"""The server of the configuration that `configure` makes."""


def configure(url: str, headers: Mapping[str, str] | None = None, **settings: Any) -> McpConfig:
    """Configure the server `tests`."""
    server = McpServerConfig(url=url, headers=dict(headers or {}))
    return McpConfig(servers={"tests": server}, **settings)


@asynccontextmanager
async def open_sessions(
    config: McpConfig, network: Network = NETWORK
) -> AsyncIterator[McpSessions]:
    sessions = McpClient(config, time.monotonic, network).open_sessions()
    try:
        yield sessions
    finally:
        await sessions.close()
