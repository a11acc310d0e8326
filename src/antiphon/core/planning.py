"""`make_plan`: one request, decided.

It raises `InvalidRequest` only for what must not be answered. What stands in a history was sent
before and will be sent again: it may weaken a plan, visibly, but it never prevents one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec import structs

from antiphon.core.canonical import canonical
from antiphon.core.capsule import Unseal
from antiphon.core.contract import FormatKind, OutputContract, check_schema
from antiphon.core.declaration import Declared, declare
from antiphon.core.diagnostic import Code, Decision, Diagnostic, diagnostics_header
from antiphon.core.effort import RUNGS, climb, settle, while_thinking
from antiphon.core.history import Step
from antiphon.core.pairing import paired
from antiphon.core.parameter import decide, decide_include
from antiphon.core.plan import Capabilities, Plan
from antiphon.core.unsealing import unsealed
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
) -> Plan:
    """Decide everything about a request. `issuer` is whose capsules this provider understands."""
    items = [*history, *request.input]
    read, noticed = _read(items, capabilities, issuer, model, unseal)
    declared = declare(request.tools, request.tool_choice, items, read, capabilities)
    steps, mended = paired(declared.steps)
    asked, effort, climbed = _effort(request, items, declared, capabilities)
    able = while_thinking(effort, capabilities)
    logprobs, included = decide_include(request, able)
    parameters, decided = decide(request, able, moot=_moot(declared, logprobs=logprobs))
    contract, formed = _contract(request, items, _formats(declared, capabilities))
    found = (*noticed, *mended, *declared.diagnostics, *decided, *included, *climbed, *formed)
    return Plan(
        provider=provider,
        model=model,
        instructions=request.instructions,
        history=steps,
        declarations=declared.declarations,
        native_tools=declared.native_tools,
        identities=declared.identities,
        tool_choice=declared.tool_choice,
        parameters=parameters,
        effort=effort,
        requested_effort=asked,
        contract=contract,
        replay_reasoning=capabilities.replay_reasoning,
        developer_role=capabilities.developer_role,
        include_logprobs=logprobs,
        diagnostics=tuple(_located(each, len(history)) for each in found),
    )


def _read(
    items: Sequence[Mapping[str, Any]],
    capabilities: Capabilities,
    issuer: str,
    model: str,
    unseal: Unseal | None,
) -> tuple[tuple[Step, ...], Sequence[Diagnostic]]:
    """The items as steps, with the provider's own state where it belongs."""
    steps, noticed = canonical(
        items, inputs=capabilities.inputs, tool_output_images=capabilities.tool_output_images
    )
    if unseal is None:
        return steps, noticed
    steps, forgotten = unsealed(steps, issuer=issuer, model=model, unseal=unseal)
    return steps, [*noticed, *forgotten]


def _moot(declared: Declared, *, logprobs: bool) -> frozenset[str]:
    """Parameters without a meaning in this request; some providers refuse them then."""
    tools = declared.declarations or declared.native_tools
    moot = {"parallel_tool_calls": not tools, "top_logprobs": not logprobs}
    return frozenset(name for name, is_moot in moot.items() if is_moot)


def _located(diagnostic: Diagnostic, earlier: int) -> Diagnostic:
    """Items are counted over the whole thread; a client counts those that it sent just now."""
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
    declared: Declared,
    capabilities: Capabilities,
) -> tuple[str | None, str | None, list[Diagnostic]]:
    """The effort that was asked for, the provider's word for it, and what was lost between."""
    param, asked = _updated(items, "reasoning", "effort") or ("reasoning.effort", request.effort)
    effort, climbed = climb(asked, param, capabilities)
    effort, settled = settle(effort, declared.tool_choice, param, capabilities)
    return asked if isinstance(asked, str) else None, effort, [*climbed, *settled]


def _note(code: Code, decision: Decision, param: str, message: str) -> Diagnostic:
    subject = param.rpartition("].")[2]
    return Diagnostic(code=code, decision=decision, param=param, message=message, subject=subject)


# What the answer has to look like

_FORMATS: tuple[FormatKind, ...] = ("json_schema", "json_object", "text")
"""From the most exact to the least."""


def _formats(declared: Declared, capabilities: Capabilities) -> frozenset[str]:
    """What the provider can be asked for in this request."""
    alone = not declared.declarations and not declared.native_tools
    return capabilities.formats if alone or capabilities.formats_beside_tools else frozenset()


def _contract(
    request: Request, items: Sequence[Mapping[str, Any]], formats: frozenset[str]
) -> tuple[OutputContract, list[Diagnostic]]:
    ignored: list[Diagnostic] = []
    updated = _updated(items, "text", "format")
    if updated is not None:
        try:
            return _read_format(*updated, formats)
        except InvalidRequest as error:
            param = error.param or updated[0]
            ignored = [_note(Code.FORMAT_IGNORED, Decision.IGNORED, param, error.message)]
    contract, diagnostics = _read_format("text.format", request.text_format, formats)
    return contract, ignored + diagnostics


def _read_format(
    param: str, form: Any, formats: frozenset[str]
) -> tuple[OutputContract, list[Diagnostic]]:
    kind = form.get("type") if isinstance(form, Mapping) else None
    if kind not in _FORMATS:
        raise InvalidRequest(f"{kind!r} is not a format of text.", param=f"{param}.type")
    weaker = _FORMATS[_FORMATS.index(kind) :]
    asked = next((each for each in weaker if each in formats), "text")
    contract = OutputContract(requested=kind, asked=cast("FormatKind", asked))
    if kind == "json_schema":
        contract = structs.replace(contract, **_schema(param, form))
    if not contract.degraded:
        return contract, []
    message = f"The provider cannot be asked for {kind}: the model is told, and the answer checked."
    param = f"{param}.type"
    return contract, [_note(Code.FORMAT_DEGRADED, Decision.DEGRADED, param, message)]


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
