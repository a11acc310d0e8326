"""Plans of requests, made by a planner of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from antiphon.core.capabilities import Capabilities
from antiphon.core.diagnostic import Diagnostic
from antiphon.core.items import Document
from antiphon.core.plan.plan import Notes, Plan
from antiphon.core.plan.planner import ModelTarget, PlanInputs, Planner
from antiphon.core.request import Request

_T = TypeVar("_T")


def make_plan(
    request: Request,
    history: Sequence[Document] = (),
    *,
    provider: str = "p",
    model: str = "m",
    capabilities: Capabilities,
    issuer: str = "",
    **inputs: Any,
) -> Plan:
    """The plan of a request for one model; `inputs` are those of `PlanInputs`."""
    target = ModelTarget(provider, model, capabilities, issuer)
    return Planner(request, PlanInputs(history=history, **inputs)).plan(target)


def noted(
    decide: Callable[..., _T], *arguments: Any, **options: Any
) -> tuple[_T, list[Diagnostic]]:
    """The result of a part of the planner, and its diagnostics."""
    notes: Notes = []
    result = decide(*arguments, notes=notes, **options)
    return result, notes


class FixedPlanner(Planner):
    """A planner whose plan is given."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(Request(raw={}, model=plan.model), PlanInputs())
        self._plan = plan

    def plan(self, target: object, without: frozenset[str] = frozenset()) -> Plan:
        return self._plan
