"""The plan of one request: every decision about it, as one immutable value.

A `Planner` makes it of the request, the history and the model's capabilities. The dialect encodes
it, the response machine uses its tool identity map, the client gets its diagnostics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from antiphon.core.capabilities import ReplayReasoning
from antiphon.core.compaction.request_summary import SummaryTask
from antiphon.core.deltas import Usage
from antiphon.core.diagnostic import Diagnostic
from antiphon.core.history.steps import Step
from antiphon.core.mcp.toolset import McpPlan
from antiphon.core.response import UsedSettings
from antiphon.core.structured_output.contract import OutputContract
from antiphon.core.tools.declaration import ToolChoice, ToolDeclaration
from antiphon.core.tools.identity import NO_TOOLS, ToolIdentityMap
from antiphon.core.web_search.rules import SearchRules

Notes: TypeAlias = list[Diagnostic]
"""Collects the diagnostics of a plan while it is made, in the order in which the client gets
them."""


class CompactedContext(Struct, frozen=True):
    """The compaction that was made before a response: its state, and what it has cost."""

    state: Mapping[str, Any]
    usage: Usage | None = None


class Plan(Struct, frozen=True, kw_only=True):
    """The request to the provider, and all that its response is decoded with."""

    provider: str
    model: str
    """The provider's name for the model."""
    instructions: str | None = None
    history: tuple[Step, ...] = ()
    declarations: tuple[ToolDeclaration, ...] = ()
    native_tools: tuple[Mapping[str, Any], ...] = ()
    """Tools that the provider runs itself, as the client declared them."""
    native_places: tuple[int, ...] = ()
    """The place of each of them among all tools, in the client's order."""
    identities: ToolIdentityMap = NO_TOOLS
    tool_choice: ToolChoice = ToolChoice()
    single_call: bool = False
    """The client allows one tool call at a time (`parallel_tool_calls: false`)."""
    search: SearchRules | None = None
    """Rules of the web search that the gateway runs; None: it runs none."""
    mcp: McpPlan | None = None
    """MCP servers that the gateway asks; None: it asks none."""
    parameters: Mapping[str, Any] = {}
    """Values of the supported parameters, by their Responses names."""
    effort: str | None = None
    """The provider's value for the reasoning effort; None: the field is left out."""
    effective_effort: str | None = None
    """The effort of the API that `effort` amounts to; None if effort has no effect."""
    used: UsedSettings = UsedSettings()
    """The settings that the response reports."""
    contract: OutputContract = OutputContract()
    include_reasoning_summary: bool = False
    """The client requested reasoning as a summary."""
    replay_reasoning: ReplayReasoning = "never"
    developer_role: bool = False
    include_logprobs: bool = False
    include: tuple[str, ...] = ()
    """Additional output that is requested of the provider."""
    summary_task: SummaryTask | None = None
    """The response is a summary of the history, for a compaction item."""
    compacted: CompactedContext | None = None
    """The history was compacted for this response."""
    is_large: bool = False
    """Whether the request is encoded in small steps."""
    input_bytes: int | None = None
    """Bytes of its text, where they have been measured already."""
    diagnostics: tuple[Diagnostic, ...] = ()


class Outbound(Struct, frozen=True, kw_only=True):
    """A request to a provider: path, headers and body."""

    path: str
    headers: Mapping[str, str] = {}
    body: bytes = b""
