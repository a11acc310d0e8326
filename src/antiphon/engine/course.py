"""The attempts of one request: what is tried first, and what comes after each fault.

1. Everything here happens before the commit point: the client has not heard a word yet.
2. The fault decides, by its scope. A key's fault turns to another key; the provider's own to the
   same one again, a little later, then to the next target; a fault of the request or its content
   touches neither.
3. One budget of attempts and seconds covers all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from msgspec import Struct

from antiphon.config import AttemptConfig
from antiphon.core.faults.fault import FaultType, ProviderFault, Scope, cooldown_s
from antiphon.engine.breaker import Breaker
from antiphon.engine.keyring import Keyring
from antiphon.engine.routing import Target
from antiphon.providers.registry import Provider

_LONGEST_PAUSE_S = 60.0


class Change(StrEnum):
    """What an attempt does differently from the one before."""

    NONE = "none"
    WITHOUT_PARAMETER = "without_parameter"
    WITHOUT_STATE = "without_state"


class Attempt(Struct, frozen=True):
    """One try at one upstream with one key."""

    number: int
    target: Target
    key: str
    delay_s: float = 0.0
    change: Change = Change.NONE


@dataclass
class Health:
    """What is known of one provider, over all requests."""

    keyring: Keyring
    breaker: Breaker
    missing: dict[str, float] = field(default_factory=dict)
    """Models that it does not have, and until when we believe that."""


@dataclass
class Course:
    """The way of one request through its targets."""

    targets: Sequence[Target]
    health: Callable[[Provider], Health]
    policy: AttemptConfig
    clock: Callable[[], float]
    jitter: Callable[[], float]
    """Between 0 and 1."""
    _place: int = 0
    _number: int = 0
    _asked_before: int = 0
    """Attempts that belong to earlier rounds."""
    _again: int = 0
    _tried_keys: set[str] = field(default_factory=set)
    _changes: set[Change] = field(default_factory=set)
    _began: float = 0.0

    def __post_init__(self) -> None:
        self._began = self.clock()

    def first(self) -> Attempt:
        """Where to begin: the first target that is allowed and has a key. If none is, the first
        one all the same, since refusing without asking would help nobody."""
        for place in range(len(self.targets)):
            self._place = place
            attempt = self._at_this_target()
            if attempt is not None:
                return attempt
        self._place = 0
        target = self.targets[0]
        keyring = self.health(target.provider).keyring
        return self._begun(Attempt(1, target, keyring.soonest(target.model)))

    def again(self, attempt: Attempt, can_take_over: Callable[[Target], bool]) -> Attempt:
        """The same target is asked another question: what it costs counts anew. From now on only
        those can take over that understand what has been said so far."""
        here = self._place + 1
        following = [target for target in self.targets[here:] if can_take_over(target)]
        self.targets = [*self.targets[:here], *following]
        self._asked_before, self._again = self._number, 0
        self._tried_keys.clear()
        self._began = self.clock()
        return self._begun(Attempt(self._number + 1, attempt.target, attempt.key))

    def succeeded(self, attempt: Attempt) -> None:
        health = self.health(attempt.target.provider)
        health.breaker.succeed()
        health.keyring.end(attempt.key)

    def abandoned(self, attempt: Attempt) -> None:
        """The client has gone: nothing was learned."""
        health = self.health(attempt.target.provider)
        health.breaker.pass_over()
        health.keyring.end(attempt.key)

    def after(self, attempt: Attempt, fault: ProviderFault, *, nameable: bool) -> Attempt | None:
        """The next attempt, or None: the fault is the answer. `nameable` says that the fault names
        a parameter that can be left out."""
        self._record(attempt, fault)
        if self._number - self._asked_before >= self.policy.max_attempts or self._overdrawn():
            return None
        following = self._changed(attempt, fault, nameable=nameable)
        following = following or self._elsewhere(attempt, fault)
        return None if following is None else self._begun(following)

    # What a fault teaches

    def _record(self, attempt: Attempt, fault: ProviderFault) -> None:
        health = self.health(attempt.target.provider)
        health.keyring.end(attempt.key)
        rest_s = cooldown_s(fault) or 0.0
        if fault.scope is Scope.key:
            model = attempt.target.model if fault.type is FaultType.permission else ""
            health.keyring.rest(attempt.key, rest_s, model=model)
            self._tried_keys.add(attempt.key)
        if fault.scope is Scope.model and len(self.targets) > 1:
            health.missing[attempt.target.model] = self.clock() + rest_s
        if fault.scope is Scope.provider:
            health.breaker.fail()
        else:
            health.breaker.pass_over()

    # Where to go

    def _changed(self, attempt: Attempt, fault: ProviderFault, *, nameable: bool) -> Attempt | None:
        """The same again, but without what was refused; once for each kind of change."""
        if fault.code == "reasoning_rejected":
            change = Change.WITHOUT_STATE
        elif fault.type is FaultType.invalid_request and nameable:
            change = Change.WITHOUT_PARAMETER
        else:
            return None
        if change in self._changes:
            return None
        self._changes.add(change)
        return Attempt(self._number + 1, attempt.target, attempt.key, change=change)

    def _elsewhere(self, attempt: Attempt, fault: ProviderFault) -> Attempt | None:
        if fault.type is FaultType.context_length:
            return self._next_target(fault)
        if fault.scope in _FINAL:
            return None
        return self._same_target(attempt, fault) or self._next_target(fault)

    def _same_target(self, attempt: Attempt, fault: ProviderFault) -> Attempt | None:
        if fault.scope is not Scope.key:
            return self._later(attempt, fault)
        if fault.type is FaultType.permission and len(self._tried_keys) > 1:
            return None  # what two keys may not do, the account may not
        keyring = self.health(attempt.target.provider).keyring
        key = keyring.pick(self._tried_keys, model=attempt.target.model)
        if key is not None:
            return Attempt(self._number + 1, attempt.target, key)
        return self._patient(attempt, fault)

    def _later(self, attempt: Attempt, fault: ProviderFault) -> Attempt | None:
        """The same again, after a pause; not if that takes too long, and not if the provider is to
        be left alone and somebody else is there."""
        if not fault.retryable or self._again >= _SAME_AGAIN.get(fault.type, 1):
            return None
        self._again += 1
        pause_s = self._backoff_s(fault)
        breaker = self.health(attempt.target.provider).breaker
        if self._too_long(pause_s) or (self._has_next() and not breaker.allows()):
            return None
        return Attempt(self._number + 1, attempt.target, attempt.key, pause_s)

    def _patient(self, attempt: Attempt, fault: ProviderFault) -> Attempt | None:
        """The only key is resting: wait for it, if its provider said how long and that is short."""
        wait_s = fault.retry_after_s
        if wait_s is None or not fault.retryable or self._has_next() or self._too_long(wait_s):
            return None
        return Attempt(self._number + 1, attempt.target, attempt.key, wait_s)

    def _too_long(self, pause_s: float) -> bool:
        """A client would rather hear of the fault, and of how long it lasts."""
        return pause_s > _LONGEST_PAUSE_S or self._overdrawn(pause_s)

    def _backoff_s(self, fault: ProviderFault) -> float:
        grown = self.policy.backoff_s * float(2 ** (self._again - 1))
        spread = min(grown, self.policy.max_backoff_s) * (0.5 + self.jitter() / 2)
        return max(spread, fault.retry_after_s or 0.0)

    def _has_next(self) -> bool:
        return self._place + 1 < len(self.targets)

    def _next_target(self, fault: ProviderFault) -> Attempt | None:
        window = self._window() if fault.type is FaultType.context_length else None
        while self._has_next():
            self._place += 1
            self._again = 0
            self._tried_keys.clear()
            if window is not None and self._window() <= window:
                continue
            attempt = self._at_this_target(begin=False)
            if attempt is not None:
                return attempt
        return None

    def _window(self) -> int:
        return self.targets[self._place].capabilities.context_window or 0

    def _at_this_target(self, *, begin: bool = True) -> Attempt | None:
        target = self.targets[self._place]
        health = self.health(target.provider)
        key = health.keyring.pick(model=target.model)
        missing = health.missing.get(target.model, 0.0) > self.clock()
        if missing or key is None or not health.breaker.allows():
            return None
        attempt = Attempt(self._number + 1, target, key)
        return self._begun(attempt) if begin else attempt

    def _begun(self, attempt: Attempt) -> Attempt:
        self._number = attempt.number
        self.health(attempt.target.provider).keyring.begin(attempt.key)
        return attempt

    def _overdrawn(self, delay_s: float = 0.0) -> bool:
        return self.clock() - self._began + delay_s > self.policy.max_s


_FINAL = frozenset({Scope.request, Scope.content, Scope.client})
# How often one target is asked again, where once is not enough.
_SAME_AGAIN = {FaultType.provider_overloaded: 2, FaultType.connection: 2}
