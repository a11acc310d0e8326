"""Provider health: API keys, circuit breaker and missing models of each provider.

1. Choosing a key reads this state and changes nothing. A `KeyLease` takes a key and, at a half-open
   circuit, the one trial request; releasing the lease gives both back, exactly once.
2. Only faults of the provider itself count for its circuit breaker. A rate limit concerns a key.
3. A key cools down after a fault of its own, for as long as the provider asked. A key that was
   rejected altogether is not used again. A key may be barred from one model and serve others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, TypeAlias

from msgspec import Struct

from antiphon.config import AttemptConfig
from antiphon.core.faults.fault import FaultType, ProviderFault, Scope, cooldown_s
from antiphon.core.faults.kinds import FaultKind
from antiphon.providers.registry import Provider

NO_KEY = ""  # for providers without authentication
_ALL_MODELS = ""

Clock: TypeAlias = Callable[[], float]


FactKind: TypeAlias = Literal["key", "model", "breaker"]


class HealthFact(Struct, frozen=True):
    """Something learned of a provider, for other processes that use it."""

    provider: str
    kind: FactKind
    seconds: float
    """How long not to use it; 0: it can be used again."""
    key: str = ""
    model: str = ""


OnHealthFact: TypeAlias = Callable[[HealthFact], None]


def _keep_to_itself(fact: HealthFact) -> None:
    """Tell no other process."""


class Keyring:
    """API keys of one provider: the least used key first, then the one with the fewest requests.
    The requests of a session share a key: providers cache prompts by account (ADR 0095)."""

    def __init__(self, keys: Sequence[str], clock: Clock) -> None:
        self._clock = clock
        self._keys = list(keys) or [NO_KEY]
        self._used = dict.fromkeys(self._keys, 0)
        self._active = dict.fromkeys(self._keys, 0)
        self._cooling_until: dict[tuple[str, str], float] = {}

    @property
    def active(self) -> dict[str, int]:
        """Requests in flight by key."""
        return dict(self._active)

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self._keys)

    def pick(
        self, without: Collection[str] = (), *, model: str = _ALL_MODELS, session: str | None = None
    ) -> str | None:
        """Choose the key to use now; None if every key is cooling down or excluded. Requests of a
        session get the same key in every process, as long as it is ready."""
        now = self._clock()
        ready = [key for key in self._keys if key not in without and self._until(key, model) <= now]
        if len(ready) == 1:
            return ready[0]
        if session and ready:
            return min(ready, key=partial(_rank_key, session))
        return min(ready, key=lambda key: (self._used[key], self._active[key]), default=None)

    def is_ready(self, key: str, model: str = _ALL_MODELS) -> bool:
        """Whether a key is not cooling down."""
        return self._until(key, model) <= self._clock()

    def pick_soonest(self, model: str = _ALL_MODELS) -> str:
        """Choose the key whose cool-down ends first, for when no other key is left."""
        return min(self._keys, key=lambda key: self._until(key, model))

    def _until(self, key: str, model: str) -> float:
        if not self._cooling_until:
            return 0.0
        until = self._cooling_until.get
        return max(until((key, _ALL_MODELS), 0.0), until((key, model), 0.0))

    def acquire(self, key: str) -> None:
        self._used[key] += 1
        self._active[key] += 1

    def release(self, key: str) -> None:
        self._active[key] -= 1

    def cool_down(self, key: str, seconds: float, *, model: str = _ALL_MODELS) -> None:
        """Leave the key alone for so many seconds (infinity: for good), with one model or all."""
        now = self._clock()
        until = max(now + seconds, self._cooling_until.get((key, model), 0.0))
        current = {pair: end for pair, end in self._cooling_until.items() if end > now}
        self._cooling_until = current | {(key, model): until}

    def resting(self) -> list[tuple[int, str, float]]:
        """Return the keys that are cooling down: number, model (empty: all), seconds to go."""
        now = self._clock()
        return [
            (self.number(key), model, end - now)
            for (key, model), end in self._cooling_until.items()
            if end > now
        ]

    def __len__(self) -> int:
        return len(self._keys)

    def number(self, key: str) -> int:
        """The position of a key in the configuration, counting from 1. Logs name keys by it."""
        return self._keys.index(key) + 1


def _rank_key(session: str, key: str) -> bytes:
    """The place of a key in the order of a session, whatever other keys there are."""
    return hashlib.sha256(f"{session}\0{key}".encode(errors="replace")).digest()


class CircuitBreaker:
    """Circuit breaker: open after `threshold` faults in a row, half-open after `rest_s` seconds.

    At a half-open circuit one trial request at a time is allowed.
    """

    def __init__(self, clock: Clock, *, threshold: int = 5, rest_s: float = 30.0) -> None:
        self._clock = clock
        self._threshold = threshold
        self.rest_s = rest_s
        self._failures = 0
        self._open_until = 0.0
        self._trial = False

    @property
    def is_closed(self) -> bool:
        return self._failures < self._threshold

    @property
    def in_trial(self) -> bool:
        """Whether a trial request is in flight."""
        return self._trial

    @property
    def opens_in_s(self) -> float:
        """Seconds until an open circuit allows a trial request; 0 if it is closed."""
        return 0.0 if self.is_closed else max(0.0, self._open_until - self._clock())

    def allows(self) -> bool:
        """Whether a request may be sent now."""
        return self.is_closed or (not self._trial and self._clock() >= self._open_until)

    def begin_trial(self) -> bool:
        """Take the trial of a half-open circuit; False if there is none to take."""
        if self.is_closed or not self.allows():
            return False
        self._trial = True
        return True

    def end_trial(self) -> None:
        self._trial = False

    def record_success(self) -> None:
        self._failures = 0

    def record_failure(self) -> None:
        self._failures += 1
        if not self.is_closed:
            self._open_until = self._clock() + self.rest_s

    def follow(self, seconds: float) -> None:
        """Take over what another process has found: open for so many seconds, or closed (0)."""
        self._failures = self._threshold if seconds > 0 else 0
        self._open_until = self._clock() + seconds


@dataclass
class ProviderHealth:
    """The state of one provider, across all requests."""

    keyring: Keyring
    breaker: CircuitBreaker
    clock: Clock
    missing: dict[str, float] = field(default_factory=dict)
    """Models that the provider reported as unknown, and until when that is believed."""
    last_success_at: float | None = None
    last_fault_at: float | None = None
    last_fault: tuple[str, str] = ("", "")
    """Type and code of the last fault."""
    name: str = ""
    """The name of the provider, in facts about it."""
    on_learn: OnHealthFact = _keep_to_itself

    def pick_key(self, model: str, session: str | None = None) -> str | None:
        """Choose a key for a model that may be requested now; None if it may not."""
        is_missing = self.missing and self.missing.get(model, 0.0) > self.clock()
        if is_missing or not self.breaker.allows():
            return None
        return self.keyring.pick(model=model, session=session)

    def record_success(self) -> None:
        self.breaker.record_success()
        self.last_success_at = self.clock()

    def record_fault(self, fault: ProviderFault) -> None:
        """Keep the last fault for operators; what it means for keys is up to the lease."""
        self.last_fault_at = self.clock()
        self.last_fault = (fault.type, fault.code)

    def explain_refusal(self, model: str) -> str:
        """Explain why `pick_key` found no key for a model."""
        if self.missing.get(model, 0.0) > self.clock():
            return "the provider reported that it has no such model"
        if not self.breaker.allows():
            return "its circuit breaker is open"
        return "every API key is cooling down or was rejected"

    def tell(self, kind: FactKind, seconds: float, *, key: str = "", model: str = "") -> None:
        """Tell other processes what was learned of the provider."""
        self.on_learn(HealthFact(self.name, kind, seconds, key, model))


def _concerns_model(fault: ProviderFault) -> bool:
    """Whether a key that must rest after a fault may serve other models."""
    return fault.type is FaultType.permission or fault.code == FaultKind.MODEL_QUOTA


class KeyLease:
    """A key in use and, at a half-open circuit, the trial request; released exactly once."""

    __slots__ = ("_has_key", "_has_trial", "_health", "_key", "key_name")

    def __init__(self, health: ProviderHealth, key: str) -> None:
        self._health = health
        self._key = key
        self.key_name = f"key {health.keyring.number(key)}"
        """The name of the key in logs and traces."""
        self._has_key = False
        self._has_trial = False

    def acquire(self) -> None:
        self._health.keyring.acquire(self._key)
        self._has_key = True
        self._has_trial = self._health.breaker.begin_trial()

    def succeed(self) -> None:
        """Release after output arrived: the provider works."""
        health = self._health
        was_closed = health.breaker.is_closed
        health.record_success()
        self.release()
        if not was_closed:
            health.tell("breaker", 0.0)

    def fail(self, fault: ProviderFault, model: str, *, has_other_targets: bool) -> None:
        """Release after a fault, and remember what it says of the key, model or provider."""
        health = self._health
        self.release()
        health.record_fault(fault)
        seconds = cooldown_s(fault) or 0.0
        if fault.scope is Scope.key:
            barred = model if _concerns_model(fault) else _ALL_MODELS
            health.keyring.cool_down(self._key, seconds, model=barred)
            health.tell("key", seconds, key=self._key, model=barred)
        elif fault.scope is Scope.model and has_other_targets:
            health.missing[model] = health.clock() + seconds
            health.tell("model", seconds, model=model)
        elif fault.scope is Scope.provider:
            health.breaker.record_failure()
            if not health.breaker.is_closed:
                health.tell("breaker", health.breaker.rest_s)

    def release(self) -> None:
        """Release without a verdict, as when the client disconnects."""
        if self._has_trial:
            self._health.breaker.end_trial()
            self._has_trial = False
        if self._has_key:
            self._health.keyring.release(self._key)
            self._has_key = False


class HealthRegistry:
    """Provider health by provider name, kept from the first request on."""

    def __init__(
        self, config: AttemptConfig, clock: Clock, on_learn: OnHealthFact = _keep_to_itself
    ) -> None:
        """`on_learn` is called with everything that is learned here."""
        self._config = config
        self._clock = clock
        self._on_learn = on_learn
        self._health: dict[str, ProviderHealth] = {}

    def of(self, provider: Provider) -> ProviderHealth:
        health = self._health.get(provider.name)
        if health is None:
            health = ProviderHealth(
                Keyring(provider.api_keys, self._clock),
                self._make_breaker(),
                self._clock,
                name=provider.name,
                on_learn=self._on_learn,
            )
            self._health[provider.name] = health
        return health

    @property
    def by_name(self) -> Mapping[str, ProviderHealth]:
        """The health of every provider that was used."""
        return self._health

    def find(self, name: str) -> ProviderHealth | None:
        """Return the health of a provider; None if it has not been used."""
        return self._health.get(name)

    def carry_over(self, config: AttemptConfig, unchanged: Iterable[Provider]) -> HealthRegistry:
        """Make the registry of another configuration, which shares the health of these providers;
        circuit breakers with other settings begin anew."""
        following = HealthRegistry(config, self._clock, self._on_learn)
        for provider in unchanged:
            health = self.of(provider)
            if not self._has_same_breakers(config):
                health = replace(health, breaker=following._make_breaker())
            following._health[provider.name] = health
        return following

    def _has_same_breakers(self, config: AttemptConfig) -> bool:
        names = ("breaker_threshold", "breaker_rest_s")
        return all(getattr(config, name) == getattr(self._config, name) for name in names)

    def _make_breaker(self) -> CircuitBreaker:
        config = self._config
        return CircuitBreaker(
            self._clock, threshold=config.breaker_threshold, rest_s=config.breaker_rest_s
        )

    def __iter__(self) -> Iterator[ProviderHealth]:
        return iter(self._health.values())
