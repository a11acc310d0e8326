"""Request encoding: the encoded request of each attempt, without what providers have rejected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from antiphon.core.diagnostic import Code, Decision, Diagnostic
from antiphon.core.faults.fault import FaultType, ProviderFault
from antiphon.core.history.capsule import Unseal
from antiphon.core.history.steps import MessageStep, ReasoningStep, Step
from antiphon.core.plan.measure_input import measure_input
from antiphon.core.plan.next_round import FinishedRound, can_take_over, plan_next_round
from antiphon.core.plan.plan import Outbound, Plan
from antiphon.core.plan.planner import NO_MODES, Modes, Planner, TargetName
from antiphon.core.response import remove_settings
from antiphon.engine.rejections import (
    ModeFallback,
    ModeRejection,
    RejectedParameters,
    is_about_value,
    named_parameter,
)
from antiphon.engine.retry import Change
from antiphon.engine.routing import Target
from antiphon.errors import InvalidRequest
from antiphon.providers.registry import Provider


class RejectedPart(NamedTuple):
    """The part of a request that a fault complains about, if that can be avoided."""

    mode: ModeRejection | None
    parameter: str | None

    @property
    def is_named(self) -> bool:
        """Whether the fault names a mode, so that the provider itself is not at fault."""
        return self.mode is not None and not self.mode.is_guess


@dataclass(slots=True)
class RequestEncoding:
    """Encodes the request of each attempt: the plan of its target, continued by the rounds so far,
    without what the provider has rejected."""

    planner: Planner
    """Has planned the request for each target, so that no attempt can be refused later."""
    rejected: RejectedParameters
    unseal: Unseal
    stream: bool
    modes: ModeFallback
    _rounds: list[FinishedRound] = field(default_factory=list)
    _avoided: dict[TargetName, Modes] = field(default_factory=dict)
    """Output formats and tool choices that a target has rejected in this request."""
    _without_state: bool = False
    _without: list[str] = field(default_factory=list)
    """Parameters whose values were rejected in this request."""

    def plan(self, target: Target) -> Plan:
        """Return the plan of the first round for a target, without the modes that it rejected."""
        if not self._avoided:
            return self.planner.plan(target)
        return self.planner.plan(target, self._avoided.get(target.name, NO_MODES))

    def use_planner(self, planner: Planner) -> None:
        """Continue from another context: it was compacted, or has items of MCP servers."""
        self.planner = planner

    def encode(self, plan: Plan, provider: Provider) -> tuple[Plan, Outbound]:
        """Encode the request that was planned for a target of this provider; the returned plan says
        what was left out."""
        for finished in self._rounds:
            plan = plan_next_round(plan, finished, issuer=provider.issuer, unseal=self.unseal)
        if self._without_state:
            plan = _remove_state(plan)
        if plan.is_large:  # measured here, in the worker thread, and not at the end of the response
            plan = msgspec.structs.replace(plan, input_bytes=measure_input(plan))
        outbound = provider.dialect.encode(plan, stream=self.stream)
        if self.rejected.known or self._without:
            outbound, diagnostics = self.rejected.apply(
                provider.dialect, provider.name, plan.model, outbound, self._without
            )
            plan = _report_left_out(plan, diagnostics)
        return plan, outbound

    def add_round(self, finished: FinishedRound) -> None:
        """Append a finished round to the history of every later request."""
        self._rounds.append(finished)

    def can_take_over(self, target: Target, plan: Plan) -> bool:
        """Whether a target can continue a response that was begun with this plan."""
        return can_take_over(self.plan(target), begun=plan)

    def can_serve(self, target: Target) -> bool:
        """Whether the request can be planned for a target."""
        try:
            self.plan(target)
        except InvalidRequest:
            return False
        return True

    def find_rejected(
        self, target: Target, fault: ProviderFault, outbound: Outbound, *, is_last: bool = False
    ) -> RejectedPart:
        """Find what a fault complains about. Later rounds keep the modes that the response was
        begun with. `is_last`: at most one attempt is left."""
        mode = None
        if not self._rounds:
            mode = self.modes.find(target, self.plan(target), fault, is_last=is_last)
        return RejectedPart(mode, self.find_parameter(target, fault, outbound))

    def give_up(self, target: Target, part: RejectedPart) -> None:
        """Remember for later requests what this one has no attempt left to go without."""
        if part.mode is not None:
            self.modes.give_up(target, part.mode)

    def apply_change(
        self, change: Change, part: RejectedPart, fault: ProviderFault, target: Target
    ) -> None:
        """Leave out what the next attempt goes without."""
        if change is Change.WITHOUT_MODE and part.mode is not None:
            avoided = self._avoided.get(target.name, NO_MODES)
            self._avoided[target.name] = avoided | self.modes.avoid(target, part.mode)
            self.plan(target)  # made here: this is the worker thread if the request is large
        elif change is Change.WITHOUT_PARAMETER and part.parameter is not None:
            self.leave_out_parameter(part.parameter, fault, target)
        elif change is Change.WITHOUT_STATE:
            self.leave_out_state()

    def accepted(self, target: Target) -> None:
        """Remember what the target has rejected before it accepted the request."""
        if self.modes.rejected.suspected:
            self.modes.accept(target, self.plan(target))
        if self.modes.to_remember:
            self.modes.remember(target)

    def find_parameter(
        self, target: Target, fault: ProviderFault, outbound: Outbound
    ) -> str | None:
        """Find the parameter of a request that a fault complains about, if it can be left out."""
        if fault.type is not FaultType.invalid_request:
            return None
        return named_parameter(target.provider.dialect, fault, outbound)

    def leave_out_parameter(self, name: str, fault: ProviderFault, target: Target) -> None:
        """Leave a parameter out: for this request if its value was rejected, else from now on."""
        if is_about_value(fault):
            self._without.append(name)
        else:
            self.rejected.learn(target.provider.name, target.model, name)

    def leave_out_state(self) -> None:
        """Leave out the sealed reasoning state of earlier turns."""
        self._without_state = True


def _report_left_out(plan: Plan, diagnostics: Sequence[Diagnostic]) -> Plan:
    """Add diagnostics of parameters that were left out, which the response must not report."""
    return msgspec.structs.replace(
        plan,
        diagnostics=(*plan.diagnostics, *diagnostics),
        used=remove_settings(plan.used, [each.param for each in diagnostics]),
    )


def _remove_state(plan: Plan) -> Plan:
    history = tuple(map(_remove_step_state, plan.history))
    diagnostic = Diagnostic(
        code=Code.CAPSULE_UNUSED,
        decision=Decision.DEGRADED,
        param="input",
        subject="refused",
        message=f"{plan.provider} rejected the reasoning state of earlier turns (encrypted_content)"
        f" for {plan.model}; the request was sent again without it.",
    )
    diagnostics = (*plan.diagnostics, diagnostic)
    return msgspec.structs.replace(plan, history=history, diagnostics=diagnostics)


def _remove_step_state(step: Step) -> Step:
    if isinstance(step, ReasoningStep):
        return msgspec.structs.replace(step, states=())
    if isinstance(step, MessageStep) and step.native is not None:
        return msgspec.structs.replace(step, native=None)
    return step
