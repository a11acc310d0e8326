"""Hosted tools: tools that a server runs, and what becomes of one that no server can run.

Such a tool is refused with an error that names it and the setting that would help. The operator, or
the profile of a client that always sends it, may have it left out with a diagnostic instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from antiphon.core.capabilities import Capabilities
from antiphon.core.mcp.toolset import MCP, McpRules
from antiphon.errors import InvalidRequest

_DATE = re.compile(r"_20\d{6}$")
_REASONS: Mapping[str, str] = {
    "code_interpreter": "the gateway does not run code",
    "computer": "the gateway does not support computer use",
    "file_search": "the gateway has no vector stores",
    "image_generation": "the gateway does not generate images",
    "mcp": "the gateway connects to no MCP servers (see [mcp] of its configuration)",
    "programmatic_tool_calling": "the gateway does not run programs",
}


class HostedToolPolicy(Struct, frozen=True):
    """What becomes of a hosted tool that neither the provider nor the gateway can run."""

    unavailable: Literal["refuse", "ignore"] = "refuse"
    optional: frozenset[str] = frozenset()
    """Families of tools that are left out in any case: the client sends them unasked."""
    mcp: McpRules | None = None
    """The rules for MCP servers that the gateway calls, for models whose provider does not call
    them; None: it calls none."""

    def mcp_rules(self, capabilities: Capabilities) -> McpRules | None:
        """The rules for MCP servers of a model's requests; None: the gateway does not call them."""
        return None if MCP in capabilities.hosted_tools else self.mcp

    def refuses(self, kind: str) -> bool:
        return self.unavailable == "refuse" and family(kind) not in self.optional


REFUSE = HostedToolPolicy()


def family(kind: str) -> str:
    """The type without its date or `preview`: `web_search_2025_08_26` is `web_search`, and
    `code_execution_20250825` is `code_execution`."""
    for stem in ("web_search", "computer"):
        if kind.startswith(stem):
            return stem
    return _DATE.sub("", kind)


def reason_unavailable(kind: str) -> str:
    """Why the gateway cannot run a tool of this type."""
    return _REASONS.get(family(kind), f"the tool type {kind!r} is unknown")


def runs_in_container(tool: Mapping[str, Any]) -> bool:
    """Whether a shell is to run in a container of the server instead of at the client."""
    environment = tool.get("environment")
    return isinstance(environment, Mapping) and environment.get("type") != "local"


def refuse_tool(kind: str, param: str, reason: str, capabilities: Capabilities) -> InvalidRequest:
    """Make the error for a hosted tool that cannot be run, with the setting that would help."""
    if family(kind) == "web_search":
        return refuse_search(kind, param, reason, capabilities)
    return _refusal(
        f"Tool {kind!r} cannot be run: {reason}, and {capabilities.model_name} does not run it"
        " either. Remove the tool, or have it left out: set `hosted_tools` in [compatibility] of"
        ' the gateway to "ignore".',
        param,
    )


def refuse_search(kind: str, param: str, reason: str, capabilities: Capabilities) -> InvalidRequest:
    """Make the error for a web search that cannot be run as it is requested."""
    provider, _, _ = capabilities.model_name.partition("/")
    setting = f"`web_search` in [providers.{provider}]"
    if capabilities.web_search == "managed":
        return _refusal(
            f"Tool {kind!r} cannot be run: {reason}. Remove the tool or the restriction, or have"
            f' the tool left out: set {setting} of the gateway to "ignore".',
            param,
        )
    return _refusal(
        f"Tool {kind!r} cannot be run: {reason}. Remove the tool, or set `backend` in [search] of"
        f' the gateway and {setting} to "managed", or the latter to "ignore" to leave it out.',
        param,
    )


def _refusal(message: str, param: str) -> InvalidRequest:
    return InvalidRequest(message, param=param, code="unsupported_parameter")
