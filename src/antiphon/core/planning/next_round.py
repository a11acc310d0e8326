"""The plan of a later round: the same question, and behind it what the answer brought so far."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct, structs

from antiphon.core.history.capsule import Unseal
from antiphon.core.history.pairing import pair_calls
from antiphon.core.history.read_items import read_items
from antiphon.core.history.steps import Step, ToolCallStep, ToolResultStep
from antiphon.core.plan.follow_up import FollowUp
from antiphon.core.plan.plan import Plan, ToolChoice
from antiphon.core.planning.unseal import unseal_history
from antiphon.core.tools.identity import ToolIdentityMap


class FinishedRound(Struct, frozen=True):
    """What a round left behind: the items it told, and what is to be asked next."""

    told: tuple[dict[str, Any], ...]
    again: FollowUp


def plan_next_round(plan: Plan, followup: FinishedRound, *, issuer: str, unseal: Unseal) -> Plan:
    """The plan of the round after this one. Its history only grows, so prompt caches survive."""
    told, _ = read_items(followup.told, inputs=frozenset({"text"}), tool_output_images=False)
    told, _ = unseal_history(told, issuer=issuer, model=plan.model, unseal=unseal)
    calls = {step.call_id for step in told if isinstance(step, ToolCallStep)}
    asked = [step for step in followup.again.steps if _call_id(step) not in calls]
    more, _ = pair_calls((*told, *_requested(asked, plan.identities)))
    choice = followup.again.tool_choice or _loosened(plan)
    return structs.replace(plan, history=(*plan.history, *more), tool_choice=choice)


def can_take_over(plan: Plan, begun: Plan) -> bool:
    """Whether an answer that was begun by another plan can go on with this one: what it may bring
    is read by the other's rules, so the form has to be asked for alike, no tool may be unknown or
    have another's name, and the gateway may not be called for a search that it is not ready for."""
    names, known = plan.identities, begun.identities
    return (
        plan.contract == begun.contract
        and all(names.restored(name) == known.restored(name) for name in names)
        and (plan.search is None or begun.search is not None)
    )


def _call_id(step: Step) -> str | None:
    return step.call_id if isinstance(step, ToolCallStep | ToolResultStep) else None


def _requested(steps: Iterable[Step], identities: ToolIdentityMap) -> Iterable[Step]:
    """Calls under the names that the client gave their tools, as everywhere in a history."""
    for step in steps:
        identity = identities.restored(step.name) if isinstance(step, ToolCallStep) else None
        if identity is None:
            yield step
        else:
            yield structs.replace(step, name=identity.requested_name, namespace=identity.namespace)


def _loosened(plan: Plan) -> ToolChoice:
    """A tool that had to be called has been called by now; the form of the answer still counts."""
    choice = plan.tool_choice
    if choice.mode not in {"required", "function"} or plan.contract.tool is not None:
        return choice
    return ToolChoice("auto")
