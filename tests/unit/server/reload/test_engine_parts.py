"""Engines of several configurations in one process: what each has, and what they share."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.config import (
    AttemptConfig,
    ClientConfig,
    ClientLimitConfig,
    Config,
    LimitConfig,
    ProviderConfig,
    ServerConfig,
    VisionConfig,
)
from antiphon.engine.connections import open_session
from antiphon.engine.engine import Engine
from antiphon.errors import ConfigError, LimitExceeded, StoreError
from antiphon.observe.accounting import make_counters
from antiphon.observe.recorder import UsageRecorder
from antiphon.pipeline.log import Entry
from antiphon.server.reload.engine_parts import EngineParts
from antiphon.server.wiring import open_engine
from antiphon.store.memory import MemoryStore
from antiphon.store.usage.memory import MemoryUsageTable
from antiphon.store.usage.usage_table import Counts, UsageKey
from tests.support.applications import echo_config
from tests.support.gateways import replaced


def lab(url: str = "http://lab.test/v1", key: str = "sk-first-key") -> ProviderConfig:
    return ProviderConfig(kind="chat", base_url=url, api_keys=[key])


def configure(provider: ProviderConfig, **more: Any) -> Config:
    return replaced(echo_config(), providers={"lab": provider}, **more)


def reconfigure(engine: Engine, config: Config) -> Engine:
    assert engine.reconfigure is not None
    return engine.reconfigure(config)


async def test_another_configuration_has_an_engine_of_its_own() -> None:
    first = configure(lab(), models={"alias": "lab/one"})
    second = configure(lab("http://other.test/v1", "sk-second-key"), models={"alias": "lab/two"})
    async with open_engine(first, {}, lambda entry: None) as before:
        after = reconfigure(before, second)
        for engine, url, model in (
            (before, "http://lab.test/v1", "one"),
            (after, "http://other.test/v1", "two"),
        ):
            target = engine.router.resolve("alias")
            assert (target.provider.base_url, target.model) == (url, model)
        for shared in ("store", "tracer", "http", "active", "worker", "redactor", "rejected"):
            assert getattr(before.services, shared) is getattr(after.services, shared)


@pytest.mark.parametrize(
    ("changed", "is_kept"),
    [
        (lab(), True),
        (lab("http://other.test/v1"), False),
        (lab(key="sk-second-key"), False),
    ],
)
async def test_a_provider_keeps_its_health_with_its_address_and_keys(
    changed: ProviderConfig, is_kept: bool
) -> None:
    async with open_engine(configure(lab()), {}, lambda entry: None) as before:
        target = before.router.resolve("lab/m")
        before.services.health.of(target.provider).keyring.cool_down("sk-first-key", 60.0)
        before.services.rejected.learn("lab", "m", "top_p")
        before.services.rejected_modes.learn(("lab", "m"), "json_schema", 0.0)
        after = reconfigure(before, configure(changed))
        health = after.services.health.of(after.router.resolve("lab/m").provider)
        assert (health.pick_key("m") is None) is is_kept
        assert (("lab", "m") in after.services.rejected.known) is is_kept
        assert (("lab", "m") in after.services.rejected_modes.known) is is_kept


async def test_secrets_of_both_configurations_are_redacted() -> None:
    async with open_engine(configure(lab()), {}, lambda entry: None) as before:
        server = ServerConfig(admin_key="the-admin-key-of-mine")
        reconfigure(before, configure(lab(key="a-second-secret-of-mine"), server=server))
        text = "sk-first-key a-second-secret-of-mine the-admin-key-of-mine"
        shown = before.services.redactor.redact_text(text)
    assert shown == "«redacted» «redacted» «redacted»"


async def test_limits_change_and_what_clients_have_used_is_kept() -> None:
    def limited(requests: int) -> Config:
        limits = {"*": ClientLimitConfig(requests_per_minute=requests)}
        return configure(lab(), limits=LimitConfig(clients=limits))

    async with open_engine(limited(2), {}, lambda entry: None) as before:
        old = before.services.accounting
        await old.admit("me", "request-1")
        new = reconfigure(before, limited(1)).services.accounting
        with pytest.raises(LimitExceeded, match="requests_per_minute = 1"):
            await new.admit("me", "request-2")
        await old.admit("me", "request-3")
        without = reconfigure(before, configure(lab())).services.accounting
        assert await without.admit("me", "request-4") == {}
        assert new.ended is old.ended
        assert new.observers is without.observers


async def test_the_engine_in_effect_shares_what_it_learns() -> None:
    shared: list[Engine] = []
    async with (
        open_engine(configure(lab()), {}, lambda entry: None) as before,
        open_session() as session,
    ):
        counters = make_counters(Config(), before.services.runtime)
        services = before.services
        usage = UsageRecorder(services.store.usage, services.accounting, services.emit)
        parts = EngineParts(services, session, {}, counters, usage, share=shared.append)
        after = parts.reconfigure(before, configure(lab(key="sk-second-key")))
        with pytest.raises(ConfigError):
            parts.reconfigure(after, configure(ProviderConfig(kind="chat")))
    assert shared == [after]


@pytest.mark.parametrize(
    "broken",
    [
        configure(lab(), models={"alias": "nobody/nothing"}),
        configure(ProviderConfig(kind="chat")),
        configure(lab(), vision=VisionConfig(model="nobody/sees")),
        configure(lab(), limits=LimitConfig(clients={"nobody": ClientLimitConfig()})),
        configure(lab(), clients={"unknown-profile": ClientConfig()}),
    ],
)
async def test_a_configuration_that_cannot_be_used_changes_nothing(broken: Config) -> None:
    async with open_engine(configure(lab()), {}, lambda entry: None) as before:
        known = before.services.rejected.known
        before.services.rejected.learn("lab", "m", "top_p")
        with pytest.raises(ConfigError):
            reconfigure(before, broken)
        assert before.router.resolve("lab/m").provider.base_url == "http://lab.test/v1"
        assert before.services.rejected.known is known
        assert known


async def test_other_settings_of_circuit_breakers_begin_anew_and_keys_go_on_resting() -> None:
    async with open_engine(configure(lab()), {}, lambda entry: None) as before:
        health = before.services.health.of(before.router.resolve("lab/m").provider)
        health.keyring.cool_down("sk-first-key", 60.0)
        config = configure(lab(), attempts=AttemptConfig(breaker_threshold=1))
        after = reconfigure(before, config)
        following = after.services.health.of(after.router.resolve("lab/m").provider)
    assert following.keyring is health.keyring
    assert following.breaker is not health.breaker


class UnreadableUsage(MemoryUsageTable):
    async def read(self, first_hour: int, last_hour: int) -> dict[UsageKey, Counts]:
        raise StoreError("the store cannot be read")


async def test_limits_of_cost_can_be_added_while_the_store_cannot_be_read() -> None:
    log: list[Entry] = []
    store = MemoryStore(now=lambda: 0)
    store.usage = UnreadableUsage()
    async with open_engine(configure(lab()), {}, log.append, store=store) as engine:
        assert engine.before_reload is not None
        await engine.before_reload(configure(lab()))
        assert log == []
        limits = LimitConfig(clients={"*": ClientLimitConfig(cost_per_day=1.0)})
        await engine.before_reload(configure(lab(), limits=limits))
    [entry] = log
    assert (entry.event, entry.level) == ("limits.costs_not_read", "warning")
    assert entry.facts["reason"] == "the store cannot be read; limits of cost count from now on"
