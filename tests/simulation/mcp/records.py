"""Records of MCP: what clients asked for, and what servers received and did."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

Document = dict[str, Any]
TOKEN = re.compile(r"ax(\d+)-(\w+?)-(\d+)-(\d+)x")
"""In the arguments of a call: the exchange, its tenant, the number of the upstream call, and that
of the call within it."""
Reply = Literal["result", "error", "none", "any"]
"""What a client must get of a call: its text, the error that the tool reports, a failure, or any of
these."""


def find_token(text: str) -> str:
    """The token in the arguments of a call; empty if a fault has damaged it."""
    found = TOKEN.search(text)
    return "" if found is None else found[0]


def write_result(label: str, tool: str, token: str) -> str:
    """The text of a result."""
    return f"[{token} by {label}/{tool}]"


@dataclass(frozen=True)
class AskedServer:
    """A server, as one request declares it."""

    label: str
    document: Document
    """The `mcp` tool, or the entry of `mcp_servers`."""
    secret: str = ""
    """The client's credential for it."""
    allowed: frozenset[str] | None = None
    """The names of tools that may be called; None: all."""
    approved: frozenset[str] = frozenset()
    """The names of tools that need no approval."""

    def allows(self, tool: str) -> bool:
        return self.allowed is None or tool in self.allowed


@dataclass
class McpAsk:
    """What one request says of servers."""

    servers: dict[str, AskedServer]
    approvals: set[str] = field(default_factory=set)
    """Tokens of the calls that it approves."""
    denials: set[str] = field(default_factory=set)
    is_native: bool = False
    """Whether the provider calls servers itself."""
    max_calls: int | None = None


@dataclass
class Execution:
    """A call that a server has carried out."""

    label: str
    tool: str
    token: str
    at: float
    reply: Reply
    text: str
    fault: str


@dataclass
class ServerRequest:
    """One HTTP request that a server received."""

    label: str
    verb: str
    method: str
    """That of the protocol; empty if there is none."""
    session: str
    secrets: str
    """The values of its headers that may be credentials."""
    began: float
    process: str
    token: str = ""
    """Of a call."""
    fault: str = ""
    lost_at: float | None = None


@dataclass
class ServerSession:
    """A session that a server has opened."""

    id: str
    label: str
    process: str
    is_used: bool = False
    """Whether a list or a call has arrived in it: the gateway knows its id."""
    last_used: float = 0.0
    is_over: bool = False
    """Closed by the gateway, or forgotten by the server."""


@dataclass
class McpHistory:
    """Everything that the oracles read of MCP."""

    requests: list[ServerRequest] = field(default_factory=list)
    executions: list[Execution] = field(default_factory=list)
    sessions: list[ServerSession] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict)
    """The label of the server, by the credential."""
