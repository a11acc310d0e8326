"""One attempt after another, each with what it needs: a plan, a bridge, the bytes to send."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from antiphon.core.diagnostic import Code, Decision, Diagnostic
from antiphon.core.faults.fault import FaultType, ProviderFault
from antiphon.core.history.capsule import Unseal
from antiphon.core.history.steps import Thought
from antiphon.core.plan.follow_up import FollowUp
from antiphon.core.plan.plan import Outbound, Plan
from antiphon.core.planning.next_round import FinishedRound, followed, takes_over
from antiphon.engine.course import Attempt, Change, Course
from antiphon.engine.rejected_parameters import RejectedParameters, is_about_value, named_parameter
from antiphon.engine.routing import Target
from antiphon.engine.upstream import Upstream
from antiphon.pipeline.bridge import Bridge
from antiphon.providers.registry import Provider


@dataclass(frozen=True)
class Gear:
    """What one attempt works with."""

    attempt: Attempt
    plan: Plan
    bridge: Bridge
    outbound: Outbound
    upstream: Upstream

    @property
    def provider(self) -> Provider:
        return self.attempt.target.provider


@dataclass
class Attempts:
    """The attempts of one request. Plans are made beforehand, so nothing can be refused later."""

    course: Course
    lessons: RejectedParameters
    plans: Mapping[tuple[str, str], Plan]
    """By the names of provider and model."""
    bridge: Callable[[Plan, Target, Bridge | None], Bridge]
    """A fresh one, or the one that is given, turned to another target."""
    upstream: Callable[[Provider], Upstream]
    unseal: Unseal
    stream: bool
    _attempt: Attempt = field(init=False)
    _gear: Gear = field(init=False)
    _rounds: list[FinishedRound] = field(default_factory=list)
    """What was said and found in earlier rounds of this answer."""
    _without_state: bool = False
    _without: list[str] = field(default_factory=list)
    """Parameters whose values were refused."""

    def first(self) -> Gear:
        return self._equipped(self.course.first())

    def after(self, fault: ProviderFault) -> Gear | None:
        """The next attempt, or None: then the fault is the answer."""
        gear = self._gear
        name = None
        if fault.type is FaultType.invalid_request:
            name = named_parameter(fault, gear.outbound)
        attempt = self.course.after(gear.attempt, fault, nameable=name is not None)
        if attempt is None:
            return None
        if attempt.change is Change.WITHOUT_PARAMETER and name is not None:
            if is_about_value(fault):
                self._without.append(name)
            else:
                self.lessons.learn(gear.provider.name, gear.plan.model, name)
        if attempt.change is Change.WITHOUT_STATE:
            self._without_state = True
        return self._equipped(attempt)

    def again(self, asked: FollowUp) -> Gear:
        """Another round: the same answer goes on, with what it has brought so far."""
        told = msgspec.to_builtins(self._gear.bridge.round_items)
        self._rounds.append(FinishedRound(tuple(told), asked))
        self._gear.bridge.begin_next_round()
        return self._equipped(self.course.again(self._gear.attempt, self._takes_over))

    def _takes_over(self, target: Target) -> bool:
        return takes_over(self.plans[target.name], begun=self._gear.plan)

    def key_name(self) -> str:
        """Which key is in use, for people."""
        attempt = self._attempt
        keyring = self.course.health(attempt.target.provider).keyring
        return f"key {keyring.number(attempt.key)}"

    def succeeded(self) -> None:
        self.course.succeeded(self._attempt)

    def abandoned(self) -> None:
        self.course.abandoned(self._attempt)

    def _equipped(self, attempt: Attempt) -> Gear:
        self._attempt = attempt  # it is under way, whatever becomes of the rest
        provider = attempt.target.provider
        plan = self.plans[attempt.target.name]
        for followup in self._rounds:
            plan = followed(plan, followup, issuer=provider.issuer, unseal=self.unseal)
        if self._without_state:
            plan = _stateless(plan)
        outbound = provider.dialect.encode(plan, stream=self.stream)
        outbound, learned = self.lessons.applied(provider.name, plan.model, outbound, self._without)
        if learned:
            plan = msgspec.structs.replace(plan, diagnostics=(*plan.diagnostics, *learned))
        bridge = self.bridge(plan, attempt.target, self._gear.bridge if self._rounds else None)
        bridge.request_bytes = len(outbound.body)
        self._gear = Gear(attempt, plan, bridge, outbound, self.upstream(provider))
        return self._gear


def _stateless(plan: Plan) -> Plan:
    """The same question without the state that the provider has just refused."""
    history = tuple(
        msgspec.structs.replace(step, states=()) if isinstance(step, Thought) else step
        for step in plan.history
    )
    told = Diagnostic(
        code=Code.CAPSULE_UNUSED,
        decision=Decision.DEGRADED,
        param="input",
        subject="refused",
        message="The provider refused the sealed state of earlier turns; it was asked without it.",
    )
    return msgspec.structs.replace(plan, history=history, diagnostics=(*plan.diagnostics, told))
