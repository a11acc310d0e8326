"""`make_plan`: decide everything about one request.

It raises `InvalidRequest` only for errors in the request itself. What is wrong with an item of the
history weakens the plan and makes a diagnostic, but never an error: the client sends that item with
every later request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import structs

from antiphon.core.compaction import open_items as compactions
from antiphon.core.diagnostic import Code, Diagnostic, diagnostics_header, ignored
from antiphon.core.history.capsule import Unseal
from antiphon.core.history.content import NO_DESCRIPTIONS, NO_TEXTS
from antiphon.core.history.pairing import pair_calls
from antiphon.core.history.read_items import has_only_messages, read_items
from antiphon.core.history.steps import MessageStep, ReasoningStep, Step
from antiphon.core.plan.plan import Capabilities, Plan
from antiphon.core.planning.declare_tools import DeclaredTools, declare_tools
from antiphon.core.planning.effort import (
    EFFORTS,
    adjust_effort,
    effective_effort,
    fixed_parameters,
    resolve_effort,
    subject_of,
)
from antiphon.core.planning.hosted_tools import REFUSE, HostedToolPolicy
from antiphon.core.planning.output_strategy import OutputStrategy, choose_output_strategy
from antiphon.core.planning.parameters import SOURCES, decide_include, decide_parameters
from antiphon.core.planning.system_messages import place_system_messages
from antiphon.core.planning.truncate_history import can_truncate, truncate_history
from antiphon.core.planning.unseal import unseal_history
from antiphon.core.structured_output.contract import OutputContract, check_schema
from antiphon.core.web_search.rules import SearchRules
from antiphon.errors import InvalidRequest
from antiphon.wire.request import Request
from antiphon.wire.response_from_request import UsedSettings

__all__ = ["EFFORTS", "diagnostics_header", "make_plan"]

_UPDATE = "configuration_update"
_TEXT_FORMAT = {"type": "text"}
_TEXT = OutputContract(requested="text", asked="text")


def make_plan(
    request: Request,
    history: Sequence[Mapping[str, Any]],
    *,
    provider: str,
    model: str,
    capabilities: Capabilities,
    issuer: str = "",
    unseal: Unseal | None = None,
    descriptions: Mapping[str, str] = NO_DESCRIPTIONS,
    file_texts: Mapping[str, str] = NO_TEXTS,
    hosted_tools: HostedToolPolicy = REFUSE,
) -> Plan:
    """Decide everything. `issuer`: whose capsules are used; `descriptions`: of images, by URL;
    `file_texts`: of PDF files; `hosted_tools`: what becomes of those that nobody can run."""
    capabilities = structs.replace(capabilities, model_name=f"{provider}/{model}")
    items = [*history, *request.input]
    opened: Sequence[Diagnostic] = ()
    if any(item.get("type") in compactions.TYPES for item in items):
        items, opened = compactions.open_items(items, issuer=issuer, unseal=unseal)
    read, notes = _read_history(items, capabilities, descriptions, file_texts)
    read, unused = _open_capsules(read, issuer, model, unseal)
    plan = _decide(request, items, read, capabilities, hosted_tools)
    if _truncates(request, capabilities):
        plan = truncate_history(plan, capabilities)
    found = _locate((*opened, *notes, *unused, *plan.diagnostics), history)
    include = tuple(sorted(request.include & capabilities.include)) if plan.native_tools else ()
    return structs.replace(plan, provider=provider, model=model, include=include, diagnostics=found)


def _decide(
    request: Request,
    items: Sequence[Mapping[str, Any]],
    read: tuple[Step, ...],
    capabilities: Capabilities,
    policy: HostedToolPolicy,
) -> Plan:
    """Decide everything that does not depend on the name of the target."""
    tools, paired, found = _declare_tools(request, items, read, capabilities, policy)
    instructions, steps, found = _place_system_messages(request, paired, capabilities, found)
    if tools.instruction is not None:
        instructions = "\n\n".join(filter(None, (instructions, tools.instruction)))
    requested, effort, reduced = _decide_effort(request, items, steps, tools, capabilities)
    logprobs, parameters, unsent = _decide_parameters(request, tools, effort, capabilities)
    output = _decide_output(request, items, tools, effort, capabilities)
    search = _search_rules(request, tools)
    used_effort = effective_effort(requested, effort, capabilities)
    return Plan(
        provider="",
        model="",
        instructions=instructions,
        history=steps,
        declarations=output.tools.declarations,
        native_tools=tools.native_tools,
        identities=tools.identities,
        tool_choice=output.tools.tool_choice,
        single_call=request.parallel_tool_calls is False,
        search=search,
        parameters=parameters,
        effort=effort,
        effective_effort=used_effort,
        used=_used_settings(request, tools, parameters, used_effort, output, capabilities),
        contract=output.contract,
        replay_reasoning=capabilities.replay_reasoning,
        developer_role=capabilities.developer_role,
        include_logprobs=logprobs,
        include_reasoning_summary=bool(request.summary),
        diagnostics=(*found, *unsent, *reduced, *output.diagnostics),
    )


def _place_system_messages(
    request: Request, steps: tuple[Step, ...], capabilities: Capabilities, notes: list[Diagnostic]
) -> tuple[str | None, tuple[Step, ...], list[Diagnostic]]:
    """Place system messages where the provider accepts them; most requests have none."""
    if capabilities.system_messages == "anywhere" or not any(map(_is_system_message, steps)):
        return request.instructions, steps, notes
    instructions, steps, found = place_system_messages(request.instructions, steps, capabilities)
    return instructions, steps, [*notes, *found]


def _is_system_message(step: Step) -> bool:
    return isinstance(step, MessageStep) and step.role in ("system", "developer")


def _declare_tools(
    request: Request,
    items: Sequence[Mapping[str, Any]],
    steps: tuple[Step, ...],
    capabilities: Capabilities,
    policy: HostedToolPolicy,
) -> tuple[DeclaredTools, tuple[Step, ...], list[Diagnostic]]:
    """Declare the tools, and pair the calls of the history with their results."""
    if not request.tools and request.tool_choice == "auto" and has_only_messages(items):
        return DeclaredTools(steps=steps), steps, []
    tools = declare_tools(request.tools, request.tool_choice, items, steps, capabilities, policy)
    paired, diagnostics = pair_calls(tools.steps)
    return tools, paired, [*diagnostics, *tools.diagnostics]


def _decide_parameters(
    request: Request, tools: DeclaredTools, effort: str | None, capabilities: Capabilities
) -> tuple[bool, dict[str, Any], list[Diagnostic]]:
    """Decide whether log probabilities are included, and which parameters are sent."""
    fixed = fixed_parameters(effort, capabilities)
    logprobs, not_included = decide_include(
        request, capabilities, fixed=fixed, searches=tools.search is not None
    )
    parameters, not_sent = decide_parameters(
        request,
        capabilities,
        fixed=fixed,
        not_applicable=_not_applicable(request, tools, capabilities, logprobs=logprobs),
    )
    return logprobs, parameters, [*not_sent, *not_included]


def _read_history(
    items: Sequence[Mapping[str, Any]],
    capabilities: Capabilities,
    descriptions: Mapping[str, str],
    file_texts: Mapping[str, str],
) -> tuple[tuple[Step, ...], Sequence[Diagnostic]]:
    """Read items into steps for a model with these capabilities."""
    return read_items(
        items,
        inputs=capabilities.inputs,
        tool_output_images=capabilities.tool_output_images,
        media=capabilities.media,
        descriptions=descriptions,
        file_texts=file_texts,
        model_name=capabilities.model_name,
    )


def _open_capsules(
    steps: tuple[Step, ...], issuer: str, model: str, unseal: Unseal | None
) -> tuple[tuple[Step, ...], Sequence[Diagnostic]]:
    """Open the capsules in these steps; only reasoning has any."""
    if unseal is None or not any(isinstance(step, ReasoningStep) for step in steps):
        return steps, ()
    return unseal_history(steps, issuer=issuer, model=model, unseal=unseal)


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
    return frozenset(name for name, applies in cases.items() if applies)


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
        include_sources=SOURCES in request.include,
    )


def _used_settings(
    request: Request,
    tools: DeclaredTools,
    parameters: Mapping[str, Any],
    effort: str | None,
    output: OutputStrategy,
    capabilities: Capabilities,
) -> UsedSettings:
    """The settings that the response reports: those that are sent, or that the gateway applies."""
    return UsedSettings(
        parameters={**parameters, **_applied_here(request, tools, capabilities)},
        effort=effort,
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


def _locate(found: Iterable[Diagnostic], history: Sequence[Any]) -> tuple[Diagnostic, ...]:
    """Rewrite item indexes, which count the whole thread, to those of the request's own `input`."""
    return tuple(_locate_param(diagnostic, len(history)) for diagnostic in found)


def _locate_param(diagnostic: Diagnostic, earlier: int) -> Diagnostic:
    match = re.match(r"input\[(\d+)\]", diagnostic.param)
    if match is None or not earlier:
        return diagnostic
    index = int(match[1])
    start = f"input[{index - earlier}]" if index >= earlier else f"history[{index}]"
    return structs.replace(diagnostic, param=start + diagnostic.param[match.end() :])


def _find_update(
    items: Sequence[Mapping[str, Any]], outer: str, inner: str
) -> tuple[str, Any] | None:
    """Find the last item that changed a setting: its path and value. It holds for the rest of the
    thread."""
    for index in reversed(range(len(items))):
        setting = items[index].get(outer)
        if items[index].get("type") == _UPDATE and isinstance(setting, Mapping):
            value = setting.get(inner)
            if value is not None:
                return f"input[{index}].{outer}.{inner}", value
    return None


def _decide_effort(
    request: Request,
    items: Sequence[Mapping[str, Any]],
    steps: Sequence[Step],
    tools: DeclaredTools,
    capabilities: Capabilities,
) -> tuple[object, str | None, list[Diagnostic]]:
    """Decide the effort: the requested one, the provider's value for it, and what was lost."""
    param, requested = _find_update(items, "reasoning", "effort") or (
        "reasoning.effort",
        request.effort,
    )
    effort, resolved = resolve_effort(requested, param, capabilities)
    effort, adjusted = adjust_effort(
        effort,
        param,
        capabilities,
        choice=tools.tool_choice,
        steps=steps,
        limit=request.max_output_tokens,
    )
    return requested, effort, [*resolved, *adjusted]


# The output format


def _decide_output(
    request: Request,
    items: Sequence[Mapping[str, Any]],
    tools: DeclaredTools,
    effort: str | None,
    capabilities: Capabilities,
) -> OutputStrategy:
    """Choose the output strategy. An invalid format is an error of the request's own `text.format`,
    but only a diagnostic where an item of the history has set it."""
    param, form = _find_update(items, "text", "format") or ("text.format", request.text_format)
    if form == _TEXT_FORMAT:
        return OutputStrategy(contract=_TEXT, tools=tools)
    notes: tuple[Diagnostic, ...] = ()
    try:
        contract = _read_format(param, form)
    except InvalidRequest as error:
        if param == "text.format":
            raise
        invalid = error.param or param
        message = f"{error.message} Ignored; the request's own `text.format` applies."
        notes = (ignored(Code.FORMAT_IGNORED, invalid, message, subject_of(invalid)),)
        param, form = "text.format", request.text_format
        contract = _read_format(param, form)
    strategy = choose_output_strategy(contract, param, tools, effort, capabilities)
    diagnostics = (*notes, *strategy.diagnostics)
    return structs.replace(strategy, text_format=form, diagnostics=diagnostics)


def _read_format(param: str, form: Any) -> OutputContract:
    match form:
        case {"type": "text" | "json_object" as kind}:
            return OutputContract(requested=kind)
        case {"type": "json_schema"}:
            return OutputContract(requested="json_schema", **_read_schema(param, form))
    kind = form.get("type") if isinstance(form, Mapping) else None
    raise InvalidRequest(
        f"`{param}.type` must be 'text', 'json_object' or 'json_schema', not {kind!r}.",
        param=f"{param}.type",
    )


def _read_schema(param: str, form: Mapping[str, Any]) -> dict[str, Any]:
    schema = form.get("schema")
    problem = check_schema(schema) if isinstance(schema, Mapping) else "it is not an object"
    if problem is not None:
        raise InvalidRequest(
            f"`{param}.schema` is not a supported JSON Schema: {problem}.",
            param=f"{param}.schema",
            code="invalid_json_schema",
        )
    return {
        "name": form.get("name") or "",
        "description": form.get("description"),
        "schema": schema,
        "strict": form.get("strict"),
    }
