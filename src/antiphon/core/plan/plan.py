"""The plan of one request: every decision about it, as one immutable value.

`make_plan` reads the request, the history and the model's capabilities, and returns a `Plan`. The
dialect encodes it, the response machine uses its tool identity map, the client gets its
diagnostics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct, structs

from antiphon.core.compaction.request_summary import SummaryTask
from antiphon.core.diagnostic import Decision, Diagnostic
from antiphon.core.history.media import MediaSupport
from antiphon.core.history.steps import Step
from antiphon.core.stream.deltas import Usage
from antiphon.core.structured_output.contract import OutputContract
from antiphon.core.tools.identity import NO_TOOLS, ToolIdentityMap
from antiphon.core.web_search.rules import SearchRules
from antiphon.wire.response_from_request import UsedSettings

__all__ = [
    "Capabilities",
    "CompactedContext",
    "Decision",
    "Diagnostic",
    "Outbound",
    "Plan",
    "ReplayReasoning",
    "ToolChoice",
    "ToolDeclaration",
]

SystemMessages: TypeAlias = Literal["anywhere", "after_user", "first"]
ReplayReasoning: TypeAlias = Literal["never", "tool_turns", "always"]


class Capabilities(Struct, frozen=True, kw_only=True):
    """What a model supports: dated data of its provider, which an operator may override."""

    model_name: str = "this model"
    """`provider/model`, for messages; `make_plan` sets it."""
    parameters: frozenset[str] = frozenset({"temperature", "top_p", "max_output_tokens"})
    """Request parameters that are sent to the provider, by their Responses names."""
    tool_choice: frozenset[str] = frozenset({"auto", "none", "required", "function"})
    formats: frozenset[str] = frozenset({"text", "json_object", "json_schema"})
    formats_beside_tools: bool = True
    """False: the provider rejects a JSON output format in a request that declares tools."""
    efforts: Mapping[str, str | None] = {}
    """Reasoning effort of the API → the provider's value for it; None: the field is left out.
    Empty: the model has no effort setting."""
    thinks_by_default: bool = True
    """Whether the model thinks when no effort is sent; the value for `none` turns thinking off."""
    fixed_by_thinking: frozenset[str] = frozenset()
    """Parameters that the provider rejects while the model thinks."""
    fixed_by_effort: Mapping[str, frozenset[str]] = {}
    """Parameters that the provider rejects beside one of its effort values."""
    forced_choice_stops_thinking: bool = False
    """The provider rejects a forced tool call while the model thinks; thinking is disabled then."""
    resume_requires_reasoning: bool = False
    """Thinking may continue after tool results only if the turn began with replayable reasoning."""
    min_thinking_budget: int = 0
    """Where an effort is a number of tokens: the minimum budget, and the minimum that must remain
    of `max_output_tokens` for the answer. 0: the provider enforces both itself."""
    ranges: Mapping[str, tuple[float, float]] = {}
    """Minimum and maximum of a parameter's value; of a string, of its length."""
    allowed_values: Mapping[str, frozenset[str]] = {}
    """The only values that the provider accepts for a parameter."""
    conflicting_parameters: Mapping[str, str] = {}
    """A parameter that the provider rejects beside another → that other one, which is sent."""
    inputs: frozenset[str] = frozenset({"text", "image"})
    """Kinds of input parts: text, image, file, audio; file_url if a file may be sent as a URL."""
    media: MediaSupport = MediaSupport()
    """Which images, files and audio: media types, and URLs that the provider fetches."""
    tool_output_images: bool = False
    replay_reasoning: ReplayReasoning = "never"
    """Whether reasoning of earlier turns is sent: never, on turns that call tools, always."""
    developer_role: bool = False
    """False: `developer` messages become `system` messages, in place."""
    system_messages: SystemMessages = "anywhere"
    """Where the provider accepts system messages: anywhere, anywhere but right after an assistant
    or tool message (`after_user`), or one before all others (`first`)."""
    tools: bool = True
    strict_tools: bool = True
    strict_together: bool = False
    """Schemas are enforced for all tools or for none: one tool that is not strict, or that has no
    required argument, disables it for all."""
    closed_objects: bool = True
    """False: the provider rejects `additionalProperties: false`, so it is removed from schemas."""
    max_tools: int = 128
    web_search: Literal["native", "managed", "refuse", "ignore", "none"] = "none"
    """Who searches the web: the provider, the gateway, or neither: with an error, without one, or
    as for any other hosted tool that is not available."""
    web_search_limits: frozenset[str] = frozenset()
    """Fields of the search tool that are supported: external_web_access, filters, …"""
    hosted_tools: frozenset[str] = frozenset()
    """Types of other tools that the provider runs itself: code_interpreter, mcp, …"""
    include: frozenset[str] = frozenset()
    """Additional output of its own tools that the provider sends on request (`include`)."""
    search_beside_tools: bool = True
    """False: the provider rejects its own search beside functions, so the search is left out."""
    guards: tuple[str, ...] = ()
    """Markup that the model leaks into its text, by the names of the filters that remove it."""
    context_window: int | None = None
    max_output_tokens: int | None = None

    def without(self, modes: frozenset[str]) -> Capabilities:
        """These capabilities without some output formats and tool choices."""
        formats, choices = self.formats - modes, self.tool_choice - modes
        return structs.replace(self, formats=formats, tool_choice=choices)


class ToolDeclaration(Struct, frozen=True, kw_only=True):
    """A tool as it is declared to the provider: always a function."""

    name: str
    description: str | None = None
    parameters: Mapping[str, Any] | None = None
    strict: bool | None = None


class ToolChoice(Struct, frozen=True):
    """`auto`, `none`, `required`, or `function` with the tool's name at the provider."""

    mode: Literal["auto", "none", "required", "function"] = "auto"
    name: str | None = None


class CompactedContext(Struct, frozen=True):
    """The compaction that was made before an answer: its state, and what it has cost."""

    state: Mapping[str, Any]
    usage: Usage | None = None


class Plan(Struct, frozen=True, kw_only=True):
    """What is sent to the provider, and what its response is decoded with."""

    provider: str
    model: str
    """The provider's name for the model."""
    instructions: str | None = None
    history: tuple[Step, ...] = ()
    declarations: tuple[ToolDeclaration, ...] = ()
    native_tools: tuple[Mapping[str, Any], ...] = ()
    """Tools that the provider runs itself, as the client declared them."""
    identities: ToolIdentityMap = NO_TOOLS
    tool_choice: ToolChoice = ToolChoice()
    single_call: bool = False
    """The client allows one tool call at a time (`parallel_tool_calls: false`)."""
    search: SearchRules | None = None
    """Rules of the web search that the gateway runs; None: it runs none."""
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
    """The answer is a summary of the history, for a compaction item."""
    compacted: CompactedContext | None = None
    """The history was compacted for this answer."""
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
