"""Retry policy: which attempt follows a fault, if any.

1. Retries happen only before the first output of a round. After it, a fault is final.
2. The scope of a fault decides. A fault of a key moves on to another key; a fault of the provider
   is retried there after a pause, then at the next target; a fault of the request or its content
   is final.
3. One budget of attempts and seconds covers a round. The deadline covers all rounds: nothing is
   tried that could not end before it.

The policy reads provider health and changes none of it; `Attempts` takes the lease of a key.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec
from msgspec import Struct

from antiphon.config import AttemptConfig
from antiphon.core.faults.fault import FaultType, ProviderFault, Scope
from antiphon.core.faults.kinds import FaultKind
from antiphon.engine.health import HealthRegistry
from antiphon.engine.routing import Target

_LONGEST_PAUSE_S = 60.0
_LEAST_CALL_S = 5.0
_LEAST_SHARE = 0.1  # of the whole time, where that is short
_FINAL_SCOPES = frozenset({Scope.request, Scope.content, Scope.client})
# Faults for which one retry at the same target is not enough, by type or by code.
_TWO_RETRIES = frozenset(
    {FaultType.provider_overloaded, FaultType.connection, FaultKind.SERVER_ERROR}
)


class Change(StrEnum):
    """What an attempt does differently from the one before."""

    NONE = "none"
    WITHOUT_PARAMETER = "without_parameter"
    WITHOUT_STATE = "without_state"
    WITHOUT_MODE = "without_mode"


class NextAttempt(Struct, frozen=True):
    """Where and how to try next: a target, a key, and a pause before."""

    number: int
    target: Target
    key: str
    delay_s: float = 0.0
    change: Change = Change.NONE


@dataclass(slots=True)
class RetryPolicy:
    """The attempts of one request: a fault in, the next attempt or None out."""

    targets: Sequence[Target]
    health: HealthRegistry
    config: AttemptConfig
    clock: Callable[[], float]
    random: Callable[[], float]
    """Between 0 and 1, for the jitter of pauses."""
    on_skip: Callable[[Target, str], None] = lambda target, reason: None
    """Called with each target that is not tried, and why."""
    session: str | None = None
    """The session whose requests share a key."""
    _position: int = 0
    """Index of the current target."""
    _number: int = 0
    """The number of the last attempt that was chosen, over all rounds."""
    _earlier_rounds: int = 0
    """Attempts that belong to earlier rounds."""
    _same_target: int = 0
    """Retries at the current target."""
    _tried_keys: frozenset[str] = frozenset()
    _changes: frozenset[Change] = frozenset()
    _began: float = 0.0
    _last_call_at: float = math.inf
    """When it is too late for another call."""

    @property
    def attempts_left(self) -> int:
        """How many attempts the current round may still make after the one under way."""
        return self.config.max_attempts - (self._number - self._earlier_rounds)

    def set_deadline(self, limit_s: float) -> None:
        """End the response after so many seconds from now, also while a call is under way.

        A call that has almost no time left is not made: it would be paid for, and cut."""
        self._last_call_at = self.clock() + limit_s - min(_LEAST_CALL_S, limit_s * _LEAST_SHARE)

    def begin_round(self) -> None:
        """Count the seconds of a round from now on: what came before it was no attempt."""
        self._began = self.clock()

    def first(self) -> NextAttempt:
        """Start at the first target that is available and has a key.

        If none is, the first target is tried all the same: it may work, and a failure without a
        request never does."""
        self.begin_round()
        for position in range(len(self.targets)):
            self._position = position
            if (attempt := self._current_target()) is not None:
                for skipped in self.targets[:position]:
                    self.on_skip(skipped, _explain_refusal(skipped, self.health))
                return self._chosen(attempt)
        self._position = 0
        target = self.targets[0]
        key = self.health.of(target.provider).keyring.pick_soonest(target.model)
        return self._chosen(NextAttempt(1, target, key))

    def next_round(
        self, attempt: NextAttempt, can_take_over: Callable[[Target], bool]
    ) -> NextAttempt:
        """Send a further round to the same target, with a new budget.

        From here on, only targets that understand the response so far remain as fallbacks."""
        self.keep_targets(can_take_over, "it cannot continue a response that another model began")
        self._earlier_rounds = self._number
        self._same_target = 0
        self._tried_keys = frozenset()
        self.begin_round()
        following = NextAttempt(self._number + 1, attempt.target, attempt.key)
        return self._chosen(self.with_usable_key(following))

    def keep_targets(
        self, is_usable: Callable[[Target], bool], reason: str = "it cannot serve this request"
    ) -> None:
        """Keep only those fallbacks that can be used from now on."""
        after = self._position + 1
        remaining: list[Target] = []
        for target in self.targets[after:]:
            if is_usable(target):
                remaining.append(target)
            else:
                self.on_skip(target, reason)
        self.targets = [*self.targets[:after], *remaining]

    def after(
        self,
        attempt: NextAttempt,
        fault: ProviderFault,
        *,
        names_parameter: bool,
        rejects_mode: bool = False,
    ) -> NextAttempt | None:
        """Choose the attempt after a fault; None: the fault is final.

        `names_parameter`: the fault names a request parameter that can be left out.
        `rejects_mode`: it is about an output format or a tool choice that can be avoided."""
        if fault.scope is Scope.key:
            self._tried_keys |= {attempt.key}
        if self.attempts_left <= 0 or self._is_over_budget():
            return None
        changed = self._changed(
            attempt, fault, names_parameter=names_parameter, rejects_mode=rejects_mode
        )
        following = changed or self._elsewhere(attempt, fault)
        return None if following is None else self._chosen(self.with_usable_key(following))

    def with_usable_key(self, attempt: NextAttempt) -> NextAttempt:
        """Replace the key of an attempt if it is cooling down, because of another request, and
        another key is not."""
        keyring = self.health.of(attempt.target.provider).keyring
        model = attempt.target.model
        if keyring.is_ready(attempt.key, model):
            return attempt
        key = keyring.pick(self._tried_keys, model=model, session=self.session)
        return attempt if key is None else msgspec.structs.replace(attempt, key=key)

    def _chosen(self, attempt: NextAttempt) -> NextAttempt:
        self._number = attempt.number
        return attempt

    def _changed(
        self,
        attempt: NextAttempt,
        fault: ProviderFault,
        *,
        names_parameter: bool,
        rejects_mode: bool,
    ) -> NextAttempt | None:
        """Retry without what was rejected, once for each kind of change. Modes are left out one by
        one: the next weaker one may be rejected as well."""
        if rejects_mode:
            self._same_target += fault.retryable
            change = Change.WITHOUT_MODE
        elif fault.code == "reasoning_rejected":
            change = Change.WITHOUT_STATE
        elif fault.type is FaultType.invalid_request and names_parameter:
            change = Change.WITHOUT_PARAMETER
        else:
            return None
        if change in self._changes:
            return None
        if change is not Change.WITHOUT_MODE:
            self._changes |= {change}
        return NextAttempt(self._number + 1, attempt.target, attempt.key, change=change)

    def _elsewhere(self, attempt: NextAttempt, fault: ProviderFault) -> NextAttempt | None:
        if fault.type is FaultType.context_length:
            return self._next_target(fault)
        if fault.scope in _FINAL_SCOPES:
            return None
        if fault.scope is Scope.key:
            return self._other_key(attempt, fault) or self._next_target(fault)
        return self._same_after_pause(attempt, fault) or self._next_target(fault)

    def _other_key(self, attempt: NextAttempt, fault: ProviderFault) -> NextAttempt | None:
        if fault.type is FaultType.permission and len(self._tried_keys) > 1:
            return None  # two keys without permission: the account has none
        keyring = self.health.of(attempt.target.provider).keyring
        model = attempt.target.model
        key = keyring.pick(self._tried_keys, model=model, session=self.session)
        if key is not None:
            return NextAttempt(self._number + 1, attempt.target, key)
        return self._same_key_after_cooldown(attempt, fault)

    def _same_key_after_cooldown(
        self, attempt: NextAttempt, fault: ProviderFault
    ) -> NextAttempt | None:
        """Wait for the only key, if its provider gave a short delay and no other target is left."""
        wait_s = fault.retry_after_s
        if wait_s is None or not fault.retryable or self._has_next() or self._is_too_long(wait_s):
            return None
        return NextAttempt(self._number + 1, attempt.target, attempt.key, wait_s)

    def _same_after_pause(self, attempt: NextAttempt, fault: ProviderFault) -> NextAttempt | None:
        """Retry at the same target; not where the pause is too long, and not at an open circuit
        while another target is left."""
        retries = 2 if _TWO_RETRIES & {fault.type, fault.code} else 1
        if not fault.retryable or self._same_target >= retries:
            return None
        self._same_target += 1
        pause_s = self._backoff_s(fault)
        breaker = self.health.of(attempt.target.provider).breaker
        if self._is_too_long(pause_s) or (self._has_next() and not breaker.allows()):
            return None
        return NextAttempt(self._number + 1, attempt.target, attempt.key, pause_s)

    def _next_target(self, fault: ProviderFault) -> NextAttempt | None:
        """Fall back to the next target; after a context overflow, only to a larger window."""
        window = (
            _window(self.targets[self._position])
            if fault.type is FaultType.context_length
            else None
        )
        while self._has_next():
            self._position += 1
            self._same_target = 0
            self._tried_keys = frozenset()
            if window is not None and _window(self.targets[self._position]) <= window:
                self.on_skip(self.targets[self._position], "its context window is not larger")
                continue
            if (attempt := self._current_target()) is not None:
                return attempt
            skipped = self.targets[self._position]
            self.on_skip(skipped, _explain_refusal(skipped, self.health))
        return None

    def _current_target(self) -> NextAttempt | None:
        target = self.targets[self._position]
        key = self.health.of(target.provider).pick_key(target.model, self.session)
        return None if key is None else NextAttempt(self._number + 1, target, key)

    def _has_next(self) -> bool:
        return self._position + 1 < len(self.targets)

    def _backoff_s(self, fault: ProviderFault) -> float:
        grown = self.config.backoff_s * float(2 ** (self._same_target - 1))
        spread = min(grown, self.config.max_backoff_s) * (0.5 + self.random() / 2)
        return max(spread, fault.retry_after_s or 0.0)

    def _is_too_long(self, pause_s: float) -> bool:
        """Whether a client is better served by the fault, and how long it lasts."""
        return pause_s > _LONGEST_PAUSE_S or self._is_over_budget(pause_s)

    def _is_over_budget(self, delay_s: float = 0.0) -> bool:
        call_at = self.clock() + delay_s
        return call_at - self._began > self.config.max_s or call_at > self._last_call_at


def _explain_refusal(target: Target, health: HealthRegistry) -> str:
    return health.of(target.provider).explain_refusal(target.model)


def _window(target: Target) -> int:
    return target.capabilities.context_window or 0
