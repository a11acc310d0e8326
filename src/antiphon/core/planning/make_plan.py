"""`make_plan`: one request, decided.

It raises `InvalidRequest` only for what must not be answered. What stands in a history was sent
before and will be sent again: it may weaken a plan, visibly, but it never prevents one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import structs

from antiphon.core.diagnostic import Code, Decision, Diagnostic, diagnostics_header
from antiphon.core.history.capsule import Unseal
from antiphon.core.history.content import NOTHING_SEEN
from antiphon.core.history.pairing import pair_calls
from antiphon.core.history.read_items import read_items
from antiphon.core.history.steps import Step
from antiphon.core.plan.plan import Capabilities, Plan
from antiphon.core.planning.declare_tools import Declared, declare
from antiphon.core.planning.effort import (
    RUNGS,
    adjust_effort,
    effective_effort,
    resolve_effort,
    while_thinking,
)
from antiphon.core.planning.output_strategy import OutputStrategy, choose_output_strategy
from antiphon.core.planning.parameters import SOURCES, decide, decide_include
from antiphon.core.planning.unseal import unseal_history
from antiphon.core.structured_output.contract import OutputContract, check_schema
from antiphon.core.web_search.rules import SearchRules
from antiphon.errors import InvalidRequest
from antiphon.wire.request import Request

__all__ = ["RUNGS", "diagnostics_header", "make_plan"]

_UPDATE = "configuration_update"


def make_plan(
    request: Request,
    history: Sequence[Mapping[str, Any]],
    *,
    provider: str,
    model: str,
    capabilities: Capabilities,
    issuer: str = "",
    unseal: Unseal | None = None,
    descriptions: Mapping[str, str] = NOTHING_SEEN,
) -> Plan:
    """Decide everything. `issuer` is whose capsules count; `descriptions` are of images, by URL."""
    items = [*history, *request.input]
    read, noticed = _read(items, capabilities, issuer, model, unseal, descriptions)
    declared, steps, told = _declared(request, items, read, capabilities)
    asked, effort, climbed = _effort(request, items, steps, declared, capabilities)
    logprobs, parameters, decided = _parameters(request, declared, effort, capabilities)
    form = _form(request, items, declared, effort, capabilities)
    return Plan(
        provider=provider,
        model=model,
        instructions=request.instructions,
        history=steps,
        declarations=form.declared.declarations,
        native_tools=declared.native_tools,
        identities=declared.identities,
        tool_choice=form.declared.tool_choice,
        single_call=request.parallel_tool_calls is False,
        search=_search(request, declared),
        parameters=parameters,
        effort=effort,
        requested_effort=asked,
        effective_effort=effective_effort(asked, effort, capabilities),
        contract=form.contract,
        replay_reasoning=capabilities.replay_reasoning,
        developer_role=capabilities.developer_role,
        include_logprobs=logprobs,
        include_reasoning_summary=bool(request.summary),
        diagnostics=_located((*noticed, *told, *decided, *climbed, *form.diagnostics), history),
    )


def _declared(
    request: Request,
    items: Sequence[Mapping[str, Any]],
    steps: Sequence[Step],
    capabilities: Capabilities,
) -> tuple[Declared, tuple[Step, ...], list[Diagnostic]]:
    """The tools, and the history with every call and answer in its place."""
    declared = declare(request.tools, request.tool_choice, items, steps, capabilities)
    placed, mended = pair_calls(declared.steps)
    return declared, placed, [*mended, *declared.diagnostics]


def _parameters(
    request: Request, declared: Declared, effort: str | None, capabilities: Capabilities
) -> tuple[bool, dict[str, Any], list[Diagnostic]]:
    """Whether probabilities are told, the values that go to the provider, and what does not."""
    able = while_thinking(effort, capabilities)
    logprobs, included = decide_include(request, able, searches=declared.search is not None)
    parameters, decided = decide(request, able, moot=_moot(declared, logprobs=logprobs))
    return logprobs, parameters, [*decided, *included]


def _read(
    items: Sequence[Mapping[str, Any]],
    capabilities: Capabilities,
    issuer: str,
    model: str,
    unseal: Unseal | None,
    descriptions: Mapping[str, str],
) -> tuple[tuple[Step, ...], Sequence[Diagnostic]]:
    """The items as steps, with the provider's own state where it belongs."""
    steps, noticed = read_items(
        items,
        inputs=capabilities.inputs,
        tool_output_images=capabilities.tool_output_images,
        media=capabilities.media,
        descriptions=descriptions,
    )
    if unseal is None:
        return steps, noticed
    steps, forgotten = unseal_history(steps, issuer=issuer, model=model, unseal=unseal)
    return steps, [*noticed, *forgotten]


def _moot(declared: Declared, *, logprobs: bool) -> frozenset[str]:
    """Parameters without a meaning in this request; some providers refuse them then."""
    tools = declared.declarations or declared.native_tools
    moot = {
        "parallel_tool_calls": not tools,
        "top_logprobs": not logprobs,
        "max_tool_calls": declared.search is not None,  # the gateway counts them
    }
    return frozenset(name for name, is_moot in moot.items() if is_moot)


def _search(request: Request, declared: Declared) -> SearchRules | None:
    """The rules of the tool, and those of the request as a whole."""
    if declared.search is None:
        return None
    limits = [
        limit for limit in (declared.search.max_calls, request.max_tool_calls) if limit is not None
    ]
    return structs.replace(
        declared.search,
        max_calls=min(limits, default=None),
        include_sources=SOURCES in request.include,
    )


def _located(found: Iterable[Diagnostic], history: Sequence[Any]) -> tuple[Diagnostic, ...]:
    """Items are counted over the whole thread; a client counts those that it sent just now."""
    return tuple(_from_here(diagnostic, len(history)) for diagnostic in found)


def _from_here(diagnostic: Diagnostic, earlier: int) -> Diagnostic:
    place = re.match(r"input\[(\d+)\]", diagnostic.param)
    if place is None or not earlier:
        return diagnostic
    index = int(place[1])
    start = f"input[{index - earlier}]" if index >= earlier else f"history[{index}]"
    return structs.replace(diagnostic, param=start + diagnostic.param[place.end() :])


def _updated(items: Sequence[Mapping[str, Any]], outer: str, inner: str) -> tuple[str, Any] | None:
    """Where an item last changed a setting, and to what: it stays so for the rest of the thread."""
    for index in reversed(range(len(items))):
        setting = items[index].get(outer)
        if items[index].get("type") == _UPDATE and isinstance(setting, Mapping):
            value = setting.get(inner)
            if value is not None:
                return f"input[{index}].{outer}.{inner}", value
    return None


def _effort(
    request: Request,
    items: Sequence[Mapping[str, Any]],
    steps: Sequence[Step],
    declared: Declared,
    capabilities: Capabilities,
) -> tuple[str | None, str | None, list[Diagnostic]]:
    """The effort that was asked for, the provider's word for it, and what was lost between."""
    param, asked = _updated(items, "reasoning", "effort") or ("reasoning.effort", request.effort)
    effort, climbed = resolve_effort(asked, param, capabilities)
    effort, settled = adjust_effort(
        effort,
        param,
        capabilities,
        choice=declared.tool_choice,
        steps=steps,
        limit=request.max_output_tokens,
    )
    return asked if isinstance(asked, str) else None, effort, [*climbed, *settled]


def _note(code: Code, decision: Decision, param: str, message: str) -> Diagnostic:
    subject = param.rpartition("].")[2]
    return Diagnostic(code=code, decision=decision, param=param, message=message, subject=subject)


# What the answer has to look like


def _form(
    request: Request,
    items: Sequence[Mapping[str, Any]],
    declared: Declared,
    effort: str | None,
    capabilities: Capabilities,
) -> OutputStrategy:
    place, form = _updated(items, "text", "format") or ("text.format", request.text_format)
    ignored: tuple[Diagnostic, ...] = ()
    try:
        contract = _read_format(place, form)
    except InvalidRequest as error:
        if place == "text.format":
            raise
        ignored = (
            _note(Code.FORMAT_IGNORED, Decision.IGNORED, error.param or place, error.message),
        )
        place = "text.format"
        contract = _read_format(place, request.text_format)
    asked = choose_output_strategy(contract, place, declared, effort, capabilities)
    return structs.replace(asked, diagnostics=(*ignored, *asked.diagnostics))


def _read_format(param: str, form: Any) -> OutputContract:
    match form:
        case {"type": "text" | "json_object" as kind}:
            return OutputContract(requested=kind)
        case {"type": "json_schema"}:
            return OutputContract(requested="json_schema", **_schema(param, form))
    kind = form.get("type") if isinstance(form, Mapping) else None
    raise InvalidRequest(f"{kind!r} is not a format of text.", param=f"{param}.type")


def _schema(param: str, form: Mapping[str, Any]) -> dict[str, Any]:
    schema = form.get("schema")
    problem = check_schema(schema) if isinstance(schema, Mapping) else "it is not an object"
    if problem is not None:
        raise InvalidRequest(
            f"The schema cannot be used: {problem}",
            param=f"{param}.schema",
            code="invalid_json_schema",
        )
    return {
        "name": form.get("name") or "",
        "description": form.get("description"),
        "schema": schema,
        "strict": form.get("strict"),
    }
