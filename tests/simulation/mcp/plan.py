"""The MCP servers of a world, and the rules for them in its configuration."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace

from antiphon.config import Config, McpConfig, McpServerConfig
from tests.simulation.virtual_loop import Address

Style = Literal["modern", "session", "sse"]
"""Without sessions, with sessions, or with the older transport."""
LABELS = ("sky", "sea", "land")
_WORLDS_RATE = 0.3  # of the worlds have servers
_STYLES: tuple[Style, ...] = ("modern", "session", "session", "sse")


@dataclass(frozen=True)
class Tool:
    name: str
    is_read_only: bool = False


TOOLS = (Tool("look", is_read_only=True), Tool("write"), Tool("erase.all"))
"""The tools of every server, so that names are ambiguous without the server."""


@dataclass(frozen=True)
class ServerPlan:
    """One MCP server."""

    label: str
    address: Address
    style: Style
    is_configured: bool
    """Whether the operator has configured it; else clients bring its URL."""
    fault_rate: float

    @property
    def url(self) -> str:
        return f"http://{self.address[0]}/mcp"

    @property
    def operator_secret(self) -> str:
        """The credential in the configuration."""
        return f"mcp-operator-secret-{self.label}" if self.is_configured else ""


def draw_servers(seed: int) -> tuple[ServerPlan, ...]:
    """Draw the servers of a world: most worlds have none."""
    rng = random.Random(f"mcp {seed}")
    if rng.random() >= _WORLDS_RATE:
        return ()
    return tuple(
        ServerPlan(
            label=label,
            address=(f"10.0.1.{number}", 80),
            style=rng.choice(_STYLES),
            is_configured=rng.random() < 0.4,
            fault_rate=rng.choice((0.0, 0.3, 0.7)),
        )
        for number, label in enumerate(LABELS[: rng.choice((1, 2, 2, 3))], 1)
    )


def add_servers(seed: int, config: Config, servers: tuple[ServerPlan, ...]) -> Config:
    """Configure the servers."""
    if not servers:
        return config
    rng = random.Random(f"mcp configuration {seed}")
    mcp = McpConfig(
        servers={
            each.label: McpServerConfig(
                url=each.url, headers={"authorization": f"Bearer {each.operator_secret}"}
            )
            for each in servers
            if each.is_configured
        },
        allow=[each.url for each in servers if not each.is_configured],
        require_approval=rng.choice(("always", "never")),
        connect_timeout_s=3.0,
        idle_timeout_s=rng.choice((2.0, 4.0)),
        call_timeout_s=rng.choice((6.0, 9.0)),
        max_result_bytes=4000,
        max_result_parts=4,
        max_tools=6,
        max_list_bytes=20_000,
        list_ttl_s=rng.choice((1.0, 10.0, 300.0)),
    )
    return replace(config, mcp=mcp)
