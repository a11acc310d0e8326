"""Everything decided about a request, decided once.

`make_plan` reads the request, the history and what the model can do, and returns an immutable
`Plan`. The dialect renders it, the machine reads its identities, the client sees its diagnostics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from antiphon.core.diagnostic import Decision, Diagnostic
from antiphon.core.history.media import MediaSupport
from antiphon.core.history.steps import Step
from antiphon.core.structured_output.contract import OutputContract
from antiphon.core.tools.identity import NO_TOOLS, ToolIdentityMap
from antiphon.core.web_search.rules import SearchRules

__all__ = [
    "Capabilities",
    "Decision",
    "Diagnostic",
    "Outbound",
    "Plan",
    "ReplayReasoning",
    "ToolChoice",
    "ToolDeclaration",
]

ReplayReasoning: TypeAlias = Literal["never", "tool_turns", "always"]


class Capabilities(Struct, frozen=True, kw_only=True):
    """What a model takes. Facts are dated data of its provider, and may be overridden by a user."""

    parameters: frozenset[str] = frozenset({"temperature", "top_p", "max_output_tokens"})
    """Request parameters that reach the provider, by their Responses names."""
    tool_choice: frozenset[str] = frozenset({"auto", "none", "required", "function"})
    formats: frozenset[str] = frozenset({"text", "json_object", "json_schema"})
    formats_beside_tools: bool = True
    """False: the provider refuses to be asked for JSON while there are tools to call."""
    efforts: Mapping[str, str | None] = {}
    """The ladder: requested effort → the provider's word; None leaves it out. Empty: no effort."""
    thinks_by_default: bool = True
    """Whether it thinks where nobody says how much; the word for `none` is what stops it."""
    fixed_by_thinking: frozenset[str] = frozenset()
    """Parameters that the provider takes only of a model that does not think."""
    fixed_by_effort: Mapping[str, frozenset[str]] = {}
    """Parameters that the provider does not take beside one of its words for an effort."""
    forced_choice_stops_thinking: bool = False
    """A model that thinks cannot be told to call a tool: such a call is made without thinking."""
    resume_requires_reasoning: bool = False
    """A turn that goes on after calls is thought about only if it began with a thought."""
    min_thinking_budget: int = 0
    """Where an effort is a number of tokens: the least that it may be, and the least that has to be
    left of `max_output_tokens` for the answer. 0: the provider sees to that."""
    ranges: Mapping[str, tuple[float, float]] = {}
    """The least and the most that the provider takes of a parameter; of a text, how long it is."""
    words: Mapping[str, frozenset[str]] = {}
    """The only words that the provider takes for a parameter."""
    conflicting_parameters: Mapping[str, str] = {}
    """A parameter that the provider refuses beside another one → that other one, which counts."""
    inputs: frozenset[str] = frozenset({"text", "image"})
    """Kinds of input parts: text, image, file, audio, and file_url where its address will do."""
    media: MediaSupport = MediaSupport()
    """Which of the images, files and sounds: from where, and of what types."""
    tool_output_images: bool = False
    replay_reasoning: ReplayReasoning = "never"
    """Whether reasoning of earlier turns goes back: never, on turns that call tools, always."""
    developer_role: bool = False
    """False: `developer` becomes `system`, in place."""
    tools: bool = True
    strict_tools: bool = True
    strict_together: bool = False
    """Schemas are enforced for all tools or for none, so one that is not strict, or that insists
    on no argument, loosens all."""
    closed_objects: bool = True
    """False: the provider refuses `additionalProperties: false`, and tools are told without it."""
    max_tools: int = 128
    web_search: Literal["native", "managed", "refuse", "ignore"] = "ignore"
    """Who searches the web: the provider, the gateway, or nobody, with an error or without."""
    web_search_limits: frozenset[str] = frozenset()
    """What the search can be told: external_web_access, filters, user_location …"""
    search_beside_tools: bool = True
    """False: the provider's own search is refused beside functions, so it gives way to them."""
    guards: tuple[str, ...] = ()
    """What the model leaks into its text, by the names of the guards against it."""
    context_window: int | None = None
    max_output_tokens: int | None = None


class ToolDeclaration(Struct, frozen=True, kw_only=True):
    """A tool as the provider sees it: always a function."""

    name: str
    description: str | None = None
    parameters: Mapping[str, Any] | None = None
    strict: bool | None = None


class ToolChoice(Struct, frozen=True):
    """`auto`, `none`, `required`, or `function` with the provider's name for it."""

    mode: Literal["auto", "none", "required", "function"] = "auto"
    name: str | None = None


class Plan(Struct, frozen=True, kw_only=True):
    """What will be asked, and what the answer will be read with."""

    provider: str
    model: str
    """The provider's name for the model."""
    instructions: str | None = None
    history: tuple[Step, ...] = ()
    declarations: tuple[ToolDeclaration, ...] = ()
    native_tools: tuple[Mapping[str, Any], ...] = ()
    """Tools the provider runs itself, as the client declared them."""
    identities: ToolIdentityMap = NO_TOOLS
    tool_choice: ToolChoice = ToolChoice()
    single_call: bool = False
    """The client wants no two calls at once."""
    search: SearchRules | None = None
    """The rules of a web search that the gateway makes; None: it makes none."""
    parameters: Mapping[str, Any] = {}
    """Values of the supported parameters, by their Responses names."""
    effort: str | None = None
    """The provider's word for the reasoning effort; None leaves it out."""
    requested_effort: str | None = None
    effective_effort: str | None = None
    """What it comes to, in the words of the API; None where it has no effect."""
    contract: OutputContract = OutputContract()
    include_reasoning_summary: bool = False
    """The client wants to see thought as a summary."""
    replay_reasoning: ReplayReasoning = "never"
    developer_role: bool = False
    include_logprobs: bool = False
    diagnostics: tuple[Diagnostic, ...] = ()


class Outbound(Struct, frozen=True, kw_only=True):
    """A request to a provider: where, with what headers, and the bytes."""

    path: str
    headers: Mapping[str, str] = {}
    body: bytes = b""
