"""Facts about providers that several processes share, and their application to one engine.

Requests read the registries of their own process, as without sharing. The registries pass what they
learn to `SharedFacts`, which sends it; a fact that arrives is written to the registries.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2s
from typing import Literal, TypeAlias

from msgspec import Struct

from antiphon.engine.engine import Engine
from antiphon.engine.health import HealthFact, ProviderHealth

MAX_S = 3600.0
"""How long others believe that a key was rejected for good: it may be replaced or paid for."""
PARAMETER_S = 24 * 3600.0

FactKind: TypeAlias = Literal["key", "model", "breaker", "parameter", "mode"]


class Fact(Struct, frozen=True, omit_defaults=True):
    """Something known of a provider for a time. The fields are its identity."""

    kind: FactKind
    provider: str
    key: str = ""
    """Digest of an API key, never the key itself."""
    model: str = ""
    name: str = ""
    """Of a rejected parameter or mode."""


Publish: TypeAlias = Callable[[Fact, float], None]
"""Sends a fact that holds for so many seconds; 0 takes it back. Must not block."""


def digest_key(provider: str, key: str) -> str:
    """Return what identifies an API key to other processes that have it, too."""
    return blake2s(f"{provider}\0{key}".encode(), digest_size=12, person=b"antiphon").hexdigest()


class SharedFacts:
    """Sends what the registries of this process learn, and applies what others have learned."""

    def __init__(self, publish: Publish) -> None:
        self._publish = publish
        self._engine: Engine | None = None

    def attach(self, engine: Engine) -> None:
        """Apply to this engine what others have learned."""
        self._engine = engine

    def send_health(self, fact: HealthFact) -> None:
        """Send what was learned of the health of a provider."""
        if fact.seconds <= 0 and fact.kind != "breaker":
            return
        key = digest_key(fact.provider, fact.key) if fact.kind == "key" else ""
        shared = Fact(fact.kind, fact.provider, key, fact.model)
        self._publish(shared, min(fact.seconds, MAX_S))

    def send_parameter(self, provider: str, model: str, name: str) -> None:
        """Send that a model rejects a parameter."""
        self._publish(Fact("parameter", provider, model=model, name=name), PARAMETER_S)

    def send_mode(self, provider: str, model: str, name: str) -> None:
        """Send that a model rejects an output format or a tool choice."""
        self._publish(Fact("mode", provider, model=model, name=name), MAX_S)

    def apply(self, fact: Fact, seconds: float) -> None:
        """Apply what another process has learned; unknown providers and keys are ignored."""
        assert self._engine is not None
        services = self._engine.services
        target = fact.provider, fact.model
        provider = self._engine.router.providers.get(fact.provider)
        if provider is None:
            return
        if fact.kind == "parameter":
            services.rejected.remember(target, fact.name)
        elif fact.kind == "mode":
            until = services.runtime.monotonic() + seconds
            services.rejected_modes.remember(target, fact.name, until)
        else:
            _apply_health(services.health.of(provider), fact, seconds)


def _apply_health(health: ProviderHealth, fact: Fact, seconds: float) -> None:
    if fact.kind == "breaker":
        health.breaker.follow(seconds)
    elif fact.kind == "model":
        health.missing[fact.model] = health.clock() + seconds
    else:
        for key in health.keyring.keys:
            if digest_key(fact.provider, key) == fact.key:
                health.keyring.cool_down(key, seconds, model=fact.model)
