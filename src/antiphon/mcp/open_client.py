"""Opening of the client of MCP servers. Without a server in the configuration nothing is loaded:
neither the client package nor any other module of this one."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from antiphon.config import Config

if TYPE_CHECKING:
    from antiphon.mcp.client import McpClient


def open_mcp(config: Config, monotonic: Callable[[], float]) -> McpClient | None:
    """Make the client; None if no server is configured or allowed. Raises `ConfigError`.

    It loads the client package, which takes half a second: the first response with a server would
    stop all others for as long.
    """
    if not config.mcp.enabled:
        return None
    check_mcp(config)
    import_module("antiphon.mcp.session")
    from antiphon.mcp.client import McpClient  # late, as the package

    return McpClient(config.mcp, monotonic)


def check_mcp(config: Config) -> None:
    """Check `[mcp]` before anything is called; raises `ConfigError`."""
    if config.mcp.enabled:
        from antiphon.mcp.client import check_servers  # late, as the package

        check_servers(config)
