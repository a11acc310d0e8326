"""Planner: decide everything about one request, for each model that may serve it.

A plan raises `InvalidRequest` only for errors in the request itself. A problem with an item of
the history weakens the plan and makes a diagnostic, but never an error: the client sends that item
with every later request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from msgspec import Struct, structs

from antiphon.core.capabilities import Capabilities
from antiphon.core.compaction import open_items as compactions
from antiphon.core.compaction.request_summary import SummaryTask
from antiphon.core.diagnostic import MAX_DIAGNOSTICS, Diagnostic, bound_diagnostics, degraded
from antiphon.core.history.capsule import Unseal
from antiphon.core.history.client_format import FormatSupport
from antiphon.core.history.content import NO_DESCRIPTIONS, NO_TEXTS
from antiphon.core.history.pairing import pair_calls
from antiphon.core.history.read_items import (
    has_only_messages,
    read_items,
    read_plain_messages,
)
from antiphon.core.history.steps import HistoryCode, ReasoningStep, Step
from antiphon.core.items import Document
from antiphon.core.mcp.thread import find_approved, find_calls_made
from antiphon.core.mcp.toolset import MCP, McpPlan, read_toolset
from antiphon.core.plan.declare_tools import DeclaredTools, declare_tools
from antiphon.core.plan.effort import Effort, decide_effort, fixed_parameters
from antiphon.core.plan.hosted_tools import REFUSE, HostedToolPolicy
from antiphon.core.plan.kept_settings import KeptSettings, SettingsPlan
from antiphon.core.plan.output_strategy import OutputStrategy, decide_output
from antiphon.core.plan.parameters import SOURCES, decide_include, decide_parameters
from antiphon.core.plan.plan import CompactedContext, Notes, Plan
from antiphon.core.plan.plan_summary import plan_summary
from antiphon.core.plan.system_messages import place_system_messages
from antiphon.core.plan.truncate_history import can_truncate, truncate_history
from antiphon.core.plan.unseal import unseal_history
from antiphon.core.request import Request
from antiphon.core.response import UsedSettings
from antiphon.core.web_search.rules import SearchRules
from antiphon.errors import InvalidRequest

Modes: TypeAlias = frozenset[str]
"""Output formats and tool choices, by their names in `Capabilities`."""
TargetName: TypeAlias = tuple[str, str]
"""The names of provider and model."""

_CUT = degraded(
    HistoryCode.TRUNCATED,
    "input",
    "The stored history exceeds the limits of this server ([store] max_history_items,"
    " max_history_bytes); its oldest turns were left out.",
)
NO_MODES: Modes = frozenset()
KEPT = KeptSettings()
"""Shared by all requests."""


class PlanTarget(Protocol):
    """What a plan depends on of the provider and model that it is made for."""

    @property
    def name(self) -> TargetName: ...
    @property
    def capabilities(self) -> Capabilities: ...
    @property
    def issuer(self) -> str:
        """Names the provider in capsules: it gets back the state that it has issued."""


class ModelTarget(Struct, frozen=True):
    """A target that is no more than these values."""

    provider: str
    model: str
    capabilities: Capabilities = Capabilities()
    issuer: str = ""

    @property
    def name(self) -> TargetName:
        return self.provider, self.model


class PlanInputs(Struct, frozen=True, kw_only=True):
    """What all plans of a request are made of besides the request itself."""

    history: Sequence[Document] = ()
    """The items of earlier turns."""
    is_cut: bool = False
    """Whether the oldest turns of a stored history were left out."""
    unseal: Unseal | None = None
    """Opens the capsules of the client; None: they stay closed."""
    descriptions: Mapping[str, str] = NO_DESCRIPTIONS
    """Descriptions of images, by URL."""
    file_texts: Mapping[str, str] = NO_TEXTS
    """Texts of PDF files, by their content."""
    hosted_tools: HostedToolPolicy = REFUSE
    """What becomes of hosted tools that no server can run."""
    rejected: Mapping[TargetName, Modes] = {}
    """Output formats and tool choices that a target is known to reject."""
    task: SummaryTask | None = None
    """The request asks for a summary of its history."""
    compacted: CompactedContext | None = None
    """The history was compacted for this response."""
    images: tuple[Step, ...] = ()
    """Images in results of calls that were made before the model is asked, for models that take
    them."""


_T = TypeVar("_T", bound=PlanTarget)
_OTHER_MCP_CALLER = (
    "the gateway calls MCP servers for one of the two models, and the provider for the other"
)


class PlannedTargets(Struct, Generic[_T], frozen=True):
    """Which targets of a request can serve it."""

    served: tuple[_T, ...]
    """In the order of attempts."""
    first_plan: Plan
    """The plan for the first of them."""
    skipped: Sequence[tuple[_T, str]]
    """Fallbacks that cannot serve it, and why."""


class Planner:
    """Makes the plans of one request: for each target, and again without modes that it rejects.

    Each plan is made once."""

    __slots__ = ("_kept", "_plans", "inputs", "request")

    def __init__(self, request: Request, inputs: PlanInputs, kept: KeptSettings = KEPT) -> None:
        """`kept` has the settings of plans that were made before."""
        self.request = request
        self.inputs = inputs
        self._kept = kept
        self._plans: dict[tuple[TargetName, Modes], Plan] = {}

    def plan(self, target: PlanTarget, without: Modes = NO_MODES) -> Plan:
        """Return the plan for a target, without these output formats and tool choices and those
        that the target is known to reject; raises `InvalidRequest` if it cannot serve the request.
        """
        key = target.name, without
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._make_plan(target, without)
        return plan

    def plan_all(self, targets: Sequence[_T]) -> PlannedTargets[_T]:
        """Plan the request for each target; raises `InvalidRequest` if the first one cannot serve
        it."""
        first, *fallbacks = targets
        first_plan = self.plan(first)
        served = [first]
        skipped: list[tuple[_T, str]] = []
        for target in fallbacks:
            try:
                plan = self.plan(target)
            except InvalidRequest as error:
                reason = f"it cannot serve this request: {error.param} ({error.wire_code})"
                skipped.append((target, reason))
                continue
            if (plan.mcp is None) == (first_plan.mcp is None):
                served.append(target)
            else:
                skipped.append((target, _OTHER_MCP_CALLER))
        return PlannedTargets(tuple(served), first_plan, skipped)

    def continue_from(self, item: Document, compacted: CompactedContext) -> Planner:
        """Return the planner of the same request with a compaction item at its end."""
        request = structs.replace(self.request, input=(*self.request.input, item))
        return Planner(request, structs.replace(self.inputs, compacted=compacted), self._kept)

    def continue_with(self, items: Iterable[Document], images: Iterable[Step] = ()) -> Planner:
        """Return the planner of the same request with output items at its end, and images of
        results: what MCP servers were asked before the model."""
        request = structs.replace(self.request, input=(*self.request.input, *items))
        inputs = structs.replace(self.inputs, images=tuple(images))
        return Planner(request, inputs, self._kept)

    def _make_plan(self, target: PlanTarget, without: Modes) -> Plan:
        task = self.inputs.task
        capabilities = self._capabilities(target, without)
        plan = _decide(self.request, self.inputs, target, capabilities, self._kept)
        return plan if task is None else plan_summary(plan, task)

    def _capabilities(self, target: PlanTarget, without: Modes) -> Capabilities:
        """What the model supports, without the modes that it rejects; it is named in messages."""
        capabilities = target.capabilities
        rejected = self.inputs.rejected.get(target.name, NO_MODES) | without
        if rejected:
            capabilities = capabilities.without(rejected)
        name = "/".join(target.name)
        is_named = capabilities.model_name == name
        return capabilities if is_named else structs.replace(capabilities, model_name=name)


def _decide(
    request: Request,
    inputs: PlanInputs,
    target: PlanTarget,
    capabilities: Capabilities,
    kept: KeptSettings,
) -> Plan:
    """Decide everything about a request for a model with these capabilities."""
    notes: Notes = [_CUT] if inputs.is_cut else []
    items: Sequence[Mapping[str, Any]] = [*inputs.history, *request.input]
    plain = read_plain_messages(items)
    steps: tuple[Step, ...]
    if plain is None:
        items, steps = _read_history(request, items, inputs, target, capabilities, notes)
    else:
        steps = plain
    # No item changes a setting if all of them are messages and no tool may be called: then other
    # requests that ask for the same have the same settings.
    may_call = bool(request.tools) or request.tool_choice != "auto"
    shares_settings = not may_call and (plain is not None or has_only_messages(items))
    tools = DeclaredTools(steps=steps)
    if not shares_settings:
        policy = inputs.hosted_tools
        tools, steps = _declare_tools(request, items, steps, capabilities, policy, notes)
    instructions = request.instructions
    if capabilities.system_messages != "anywhere":
        instructions, steps = place_system_messages(instructions, steps, capabilities, notes)
    if tools.instruction is not None:
        instructions = "\n\n".join(filter(None, (instructions, tools.instruction)))
    decide = partial(_decide_settings, request, items, steps, tools, target, capabilities)
    if shares_settings and capabilities is target.capabilities:
        settings = kept.find(request, target.name, capabilities, decide)
    else:
        settings = decide()
    notes.extend(settings.notes)
    plan = structs.replace(
        settings.plan,
        instructions=instructions,
        history=steps,
        compacted=inputs.compacted,
        is_large=request.is_large,
    )
    if _truncates(request, capabilities):
        plan = truncate_history(plan, capabilities, notes)
    if not notes:
        return plan
    found = bound_diagnostics(notes) if len(notes) > MAX_DIAGNOSTICS else notes
    return structs.replace(plan, diagnostics=_locate(found, inputs.history))


def _decide_settings(
    request: Request,
    items: Sequence[Mapping[str, Any]],
    steps: Sequence[Step],
    tools: DeclaredTools,
    target: PlanTarget,
    capabilities: Capabilities,
) -> SettingsPlan:
    """Decide everything but the history."""
    notes: Notes = []
    about_effort: Notes = []  # it is decided first, and reported after the parameters
    effort = decide_effort(request, items, steps, tools.tool_choice, capabilities, about_effort)
    fixed = fixed_parameters(effort.value, capabilities)
    parameters, logprobs = _decide_parameters(request, tools, fixed, capabilities, notes)
    notes.extend(about_effort)
    output = decide_output(request, items, tools, effort.value, capabilities, notes)
    provider, model = target.name
    plan = Plan(
        provider=provider,
        model=model,
        declarations=output.tools.declarations,
        native_tools=tools.native_tools,
        native_places=tools.native_places,
        identities=tools.identities,
        tool_choice=output.tools.tool_choice,
        single_call=request.parallel_tool_calls is False,
        search=_search_rules(request, tools),
        mcp=None if tools.mcp is None else _limit_calls(tools.mcp, request),
        parameters=parameters,
        effort=effort.value,
        effective_effort=effort.effective,
        used=_used_settings(request, tools, parameters, effort, output, capabilities),
        contract=output.contract,
        include=_included(request, tools, capabilities),
        replay_reasoning=capabilities.replay_reasoning,
        developer_role=capabilities.developer_role,
        include_logprobs=logprobs,
        include_reasoning_summary=bool(request.summary),
    )
    return SettingsPlan(plan, tuple(notes), capabilities)


# The history


def _read_history(
    request: Request,
    items: Sequence[Mapping[str, Any]],
    inputs: PlanInputs,
    target: PlanTarget,
    capabilities: Capabilities,
    notes: Notes,
) -> tuple[Sequence[Mapping[str, Any]], tuple[Step, ...]]:
    """Read the items of history and request into steps, for a model with these capabilities."""
    if any(item.get("type") in compactions.TYPES for item in items):
        items, found = compactions.open_items(items, issuer=target.issuer, unseal=inputs.unseal)
        notes.extend(found)
    steps, changed = read_items(
        items,
        inputs=capabilities.inputs,
        tool_output_images=capabilities.tool_output_images,
        media=capabilities.media,
        descriptions=inputs.descriptions,
        file_texts=inputs.file_texts,
        model_name=capabilities.model_name,
        support=FormatSupport(
            tool_output_files=capabilities.tool_output_files,
            tool_errors=capabilities.tool_errors,
            client_blocks=capabilities.client_blocks,
            approvals=_approvals(request, items, inputs.hosted_tools, capabilities),
        ),
    )
    notes.extend(changed)
    if inputs.images and "image" in capabilities.inputs:
        steps = (*steps, *inputs.images)
    return items, _open_capsules(steps, target, inputs.unseal, notes)


def _approvals(
    request: Request,
    items: Sequence[Mapping[str, Any]],
    policy: HostedToolPolicy,
    capabilities: Capabilities,
) -> frozenset[str] | None:
    """The approval requests whose calls were made, or are about to be; None: the gateway runs no
    MCP tools for this request."""
    if policy.mcp is None:
        return None
    tools = [tool for tool in request.tools if tool.get("type") == MCP]
    rules = policy.mcp_rules(capabilities) if tools else None
    if rules is None:
        return None
    approved = find_approved(items, [read_toolset(tool, rules) for tool in tools])
    return find_calls_made(items) | {each.request_id for each in approved}


def _open_capsules(
    steps: tuple[Step, ...], target: PlanTarget, unseal: Unseal | None, notes: Notes
) -> tuple[Step, ...]:
    """Open the capsules in these steps; only reasoning has any."""
    if unseal is None or not any(isinstance(step, ReasoningStep) for step in steps):
        return steps
    _, model = target.name
    return unseal_history(steps, notes, issuer=target.issuer, model=model, unseal=unseal)


def _locate(notes: Iterable[Diagnostic], history: Sequence[Any]) -> tuple[Diagnostic, ...]:
    """Rewrite item indexes, which count the whole thread, to those of the request's own `input`."""
    return tuple(_locate_param(diagnostic, len(history)) for diagnostic in notes)


def _locate_param(diagnostic: Diagnostic, earlier: int) -> Diagnostic:
    match = re.match(r"input\[(\d+)\]", diagnostic.param)
    if match is None or not earlier:
        return diagnostic
    index = int(match[1])
    start = f"input[{index - earlier}]" if index >= earlier else f"history[{index}]"
    return structs.replace(diagnostic, param=start + diagnostic.param[match.end() :])


# Tools


def _declare_tools(
    request: Request,
    items: Sequence[Mapping[str, Any]],
    steps: tuple[Step, ...],
    capabilities: Capabilities,
    policy: HostedToolPolicy,
    notes: Notes,
) -> tuple[DeclaredTools, tuple[Step, ...]]:
    """Declare the tools, and pair the calls of the history with their results."""
    about_tools: Notes = []
    tools = declare_tools(
        request.tools, request.tool_choice, items, steps, capabilities, about_tools, policy
    )
    paired, about_calls = pair_calls(tools.steps)
    notes.extend((*about_calls, *about_tools))
    return tools, paired


def _search_rules(request: Request, tools: DeclaredTools) -> SearchRules | None:
    """Combine the rules of the search tool with those of the request as a whole."""
    if tools.search is None:
        return None
    limits = [
        limit for limit in (tools.search.max_calls, request.max_tool_calls) if limit is not None
    ]
    return structs.replace(
        tools.search,
        max_calls=min(limits, default=None),
        include_sources=request.shows_searches or SOURCES in request.include,
        include_titles=request.shows_searches,
    )


def _limit_calls(mcp: McpPlan, request: Request) -> McpPlan:
    """Apply the limit of the request to calls of MCP servers."""
    return structs.replace(mcp, max_calls=request.max_tool_calls)


# Parameters


def _decide_parameters(
    request: Request,
    tools: DeclaredTools,
    fixed: frozenset[str],
    capabilities: Capabilities,
    notes: Notes,
) -> tuple[dict[str, Any], bool]:
    """Decide which parameters are sent, and whether log probabilities are included. The provider
    rejects the `fixed` parameters at the effort of this request."""
    about_include: Notes = []
    searches = tools.search is not None
    logprobs = decide_include(request, capabilities, about_include, fixed=fixed, searches=searches)
    parameters = decide_parameters(
        request,
        capabilities,
        notes,
        fixed=fixed,
        not_applicable=_not_applicable(request, tools, capabilities, logprobs=logprobs),
    )
    notes.extend(about_include)
    return parameters, logprobs


def _not_applicable(
    request: Request, tools: DeclaredTools, capabilities: Capabilities, *, logprobs: bool
) -> frozenset[str]:
    """Parameters that the gateway applies itself, or that have no meaning in this request; some
    providers reject them then."""
    has_tools = tools.declarations or tools.native_tools
    cases = {
        "parallel_tool_calls": not has_tools,
        "top_logprobs": not logprobs,
        "max_tool_calls": not tools.native_tools,  # the gateway counts its searches itself
        "truncation": _truncates(request, capabilities),
    }
    return frozenset(name for name, is_so in cases.items() if is_so)


def _included(
    request: Request, tools: DeclaredTools, capabilities: Capabilities
) -> tuple[str, ...]:
    """Additional output that the provider's own tools are asked for."""
    wanted = request.include | ({SOURCES} if request.shows_searches else set())
    return tuple(sorted(wanted & capabilities.include)) if tools.native_tools else ()


def _used_settings(
    request: Request,
    tools: DeclaredTools,
    parameters: Mapping[str, Any],
    effort: Effort,
    output: OutputStrategy,
    capabilities: Capabilities,
) -> UsedSettings:
    """The settings that the response reports: those that are sent, or that the gateway applies."""
    return UsedSettings(
        parameters={**parameters, **_applied_here(request, tools, capabilities)},
        effort=effort.effective,
        text_format=dict(output.text_format),
        forces_call=tools.tool_choice.mode in ("required", "function"),
        unused=tools.unused,
    )


def _applied_here(
    request: Request, tools: DeclaredTools, capabilities: Capabilities
) -> Mapping[str, Any]:
    """Parameters that the gateway applies itself: the truncation of the history, and the limit of
    tool calls where all of them are its own searches."""
    applied: dict[str, Any] = {}
    if not tools.native_tools:
        applied["max_tool_calls"] = request.max_tool_calls
    if _truncates(request, capabilities):
        applied["truncation"] = "auto"
    return applied


def _truncates(request: Request, capabilities: Capabilities) -> bool:
    """Whether the gateway truncates the history."""
    return request.truncation == "auto" and can_truncate(capabilities)
