"""Capabilities: what a model supports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from antiphon.core.history.media import MediaSupport

SystemMessages: TypeAlias = Literal["anywhere", "after_user", "first"]
ReplayReasoning: TypeAlias = Literal["never", "tool_turns", "always"]


class StrictLimits(Struct, frozen=True):
    """How much a provider accepts in the schemas of all strict tools of a request."""

    tools: int
    optional: int
    """Arguments that are not required."""
    unions: int
    """Arguments of several types."""


class Capabilities(Struct, frozen=True, kw_only=True):
    """What a model supports: dated data of its provider, which an operator may override."""

    model_name: str = "this model"
    """`provider/model`, for messages; the planner sets it."""
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
    of `max_output_tokens` for the output. 0: the provider enforces both itself."""
    thinking_budgets: bool = False
    """The provider accepts a budget in tokens in place of an effort, though efforts have names."""
    max_thinking_budget: int | None = None
    """The maximum budget, where it is not only limited by `max_output_tokens`."""
    ranges: Mapping[str, tuple[float, float]] = {}
    """Minimum and maximum of a parameter's value; of a string or a list, of its length."""
    allowed_values: Mapping[str, frozenset[str]] = {}
    """The only values that the provider accepts for a parameter."""
    conflicting_parameters: Mapping[str, str] = {}
    """A parameter that the provider rejects beside another → that other one, which is sent."""
    blank_stops: bool = True
    """False: the provider rejects a stop sequence without a visible character."""
    inputs: frozenset[str] = frozenset({"text", "image"})
    """Kinds of input parts: text, image, file, audio; file_url if a file may be sent as a URL."""
    media: MediaSupport = MediaSupport()
    """Which images, files and audio: media types, and URLs that the provider fetches."""
    tool_output_images: bool = False
    tool_output_files: bool = False
    tool_errors: bool = False
    """Whether the result of a call can be marked as an error."""
    deferred_tools: bool = False
    """Whether the provider itself hides a deferred tool until a result refers to it. Others get a
    deferred tool with the first reference."""
    client_blocks: str = ""
    """The client format whose content blocks this provider accepts as they are."""
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
    strict_limits: StrictLimits | None = None
    """The provider rejects more strict tools than these; then none is strict."""
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
        return structs.replace(
            self, formats=self.formats - modes, tool_choice=self.tool_choice - modes
        )
