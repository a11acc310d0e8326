"""The plan of a later round: the same request, with what the response has brought so far."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct, structs

from antiphon.core.filters.filter import FollowUp
from antiphon.core.history.capsule import Unseal
from antiphon.core.history.client_format import RESPONSES, FormatSupport
from antiphon.core.history.pairing import pair_calls
from antiphon.core.history.read_items import read_items
from antiphon.core.history.steps import Step, ToolCallStep, ToolResultStep
from antiphon.core.plan.plan import Plan
from antiphon.core.plan.unseal import unseal_history
from antiphon.core.stream.compaction_item import COMPACTION
from antiphon.core.tools.declaration import ToolChoice
from antiphon.core.tools.identity import ToolIdentityMap

_MCP_CALLS = FormatSupport(approvals=frozenset())


class FinishedRound(Struct, frozen=True):
    """A finished round: its output items, and the follow-up that continues it."""

    items: tuple[dict[str, Any], ...]
    follow_up: FollowUp


def plan_next_round(plan: Plan, finished: FinishedRound, *, issuer: str, unseal: Unseal) -> Plan:
    """Plan the round after this one. Its history only grows, so prompt caches stay valid. A
    compaction is part of it already."""
    items = [item for item in finished.items if item.get("type") != COMPACTION]
    output, _ = read_items(
        items,
        inputs=frozenset({"text"}),
        tool_output_images=False,
        support=RESPONSES if plan.mcp is None else _MCP_CALLS,
    )
    output = unseal_history(output, [], issuer=issuer, model=plan.model, unseal=unseal)
    calls = {step.call_id for step in output if isinstance(step, ToolCallStep)}
    added = [step for step in finished.follow_up.steps if _call_id(step) not in calls]
    more, _ = pair_calls((*output, *_restore_names(added, plan.identities)))
    choice = finished.follow_up.tool_choice or _later_choice(plan)
    return structs.replace(plan, history=(*plan.history, *more), tool_choice=choice)


def can_take_over(plan: Plan, begun: Plan) -> bool:
    """Whether a response that began with another plan can continue with this one.

    Its output is decoded by the plan it began with. So both have to request the same output format,
    give the same tools the same names, and this one may use the gateway's web search only if the
    other does. The same server calls MCP servers for both: the gateway, or the provider.
    """
    names, known = plan.identities, begun.identities
    return (
        plan.contract == begun.contract
        and all(names.by_provider_name(name) == known.by_provider_name(name) for name in names)
        and (plan.search is None or begun.search is not None)
        and (plan.mcp is None) == (begun.mcp is None)
    )


def _call_id(step: Step) -> str | None:
    return step.call_id if isinstance(step, ToolCallStep | ToolResultStep) else None


def _restore_names(steps: Iterable[Step], identities: ToolIdentityMap) -> Iterable[Step]:
    """Give calls the client's names of their tools, as everywhere in a history."""
    for step in steps:
        identity = (
            identities.by_provider_name(step.name) if isinstance(step, ToolCallStep) else None
        )
        if identity is None:
            yield step
        else:
            yield structs.replace(step, name=identity.requested_name, namespace=identity.namespace)


def _later_choice(plan: Plan) -> ToolChoice:
    """The tool choice of later rounds: the forced call has been made by now, unless it is the call
    of the answer tool."""
    choice = plan.tool_choice
    if choice.mode not in {"required", "function"} or plan.contract.tool is not None:
        return choice
    return ToolChoice("auto")
