"""Setups of several configurations in one process: what each has, and what they share."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.config import (
    AttemptConfig,
    ClientConfig,
    ClientLimitConfig,
    Config,
    LimitConfig,
    McpConfig,
    McpServerConfig,
    ProviderConfig,
    ServerConfig,
    SharedConfig,
    VisionConfig,
)
from antiphon.engine.connections import open_session
from antiphon.engine.discovery.discovered_models import DiscoveredModels
from antiphon.engine.shared.facts import Fact, digest_key
from antiphon.engine.shared.sharing import Sharing
from antiphon.errors import ConfigError, LimitExceeded
from antiphon.observe.accounting import make_counters
from antiphon.observe.recorder import UsageRecorder
from antiphon.providers.registry import build_providers
from antiphon.server.wiring import Resources, list_secrets, open_setup
from antiphon.stages.log import Entry
from tests.support.applications import echo_config
from tests.support.gateways import replaced
from tests.support.stores import OpenMemory, UnreadableUsage


def lab(url: str = "http://lab.test/v1", key: str = "sk-first-key") -> ProviderConfig:
    return ProviderConfig(kind="chat", base_url=url, api_keys=[key])


def configure(provider: ProviderConfig, **more: Any) -> Config:
    return replaced(echo_config(), providers={"lab": provider}, **more)


async def test_another_configuration_has_an_engine_of_its_own() -> None:
    first = configure(lab(), models={"alias": "lab/one"})
    second = configure(lab("http://other.test/v1", "sk-second-key"), models={"alias": "lab/two"})
    async with open_setup(first, {}, lambda entry: None) as before:
        after = await before.follow(second)
        for setup, url, model in (
            (before, "http://lab.test/v1", "one"),
            (after, "http://other.test/v1", "two"),
        ):
            target = setup.engine.router.resolve("alias")
            assert (target.provider.base_url, target.model) == (url, model)
        for shared in ("store", "tracer", "http", "active", "worker", "redactor", "rejected"):
            assert getattr(before.engine.services, shared) is getattr(after.engine.services, shared)


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
    async with open_setup(configure(lab()), {}, lambda entry: None) as before:
        target = before.engine.router.resolve("lab/m")
        before.engine.services.health.of(target.provider).keyring.cool_down("sk-first-key", 60.0)
        before.engine.services.rejected.learn("lab", "m", "top_p")
        before.engine.services.rejected_modes.learn(("lab", "m"), "json_schema", 0.0)
        after = await before.follow(configure(changed))
        health = after.engine.services.health.of(after.engine.router.resolve("lab/m").provider)
        assert (health.pick_key("m") is None) is is_kept
        assert (("lab", "m") in after.engine.services.rejected.known) is is_kept
        assert (("lab", "m") in after.engine.services.rejected_modes.known) is is_kept


async def test_secrets_of_both_configurations_are_redacted() -> None:
    async with open_setup(configure(lab()), {}, lambda entry: None) as before:
        server = ServerConfig(admin_key="the-admin-key-of-mine")
        await before.follow(configure(lab(key="a-second-secret-of-mine"), server=server))
        text = "sk-first-key a-second-secret-of-mine the-admin-key-of-mine"
        shown = before.engine.services.redactor.redact_text(text)
    assert shown == "«redacted» «redacted» «redacted»"


async def test_limits_change_and_what_clients_have_used_is_kept() -> None:
    def limited(requests: int) -> Config:
        limits = {"*": ClientLimitConfig(requests_per_minute=requests)}
        return configure(lab(), limits=LimitConfig(clients=limits))

    async with open_setup(limited(2), {}, lambda entry: None) as before:
        old = before.engine.services.accounting
        await old.admit("me", "request-1")
        new = (await before.follow(limited(1))).engine.services.accounting
        with pytest.raises(LimitExceeded, match="requests_per_minute = 1"):
            await new.admit("me", "request-2")
        await old.admit("me", "request-3")
        without = (await before.follow(configure(lab()))).engine.services.accounting
        assert await without.admit("me", "request-4") == {}
        assert new.ended is old.ended
        assert new.observers is without.observers


async def test_what_others_learn_is_applied_to_the_engine_in_effect() -> None:
    log: list[Entry] = []
    async with (
        open_setup(configure(lab()), {}, lambda entry: None) as before,
        open_session() as session,
    ):
        counters = make_counters(Config(), before.engine.services.runtime, lambda entry: None)
        services = before.engine.services
        usage = UsageRecorder(services.store.usage, services.accounting, services.emit)
        discovered = DiscoveredModels(session, services.runtime.monotonic, services.emit)
        sharing = Sharing(SharedConfig(), services.runtime, log.append)
        resources = Resources(services, session, {}, counters, usage, discovered, sharing)
        after = await resources.follow(before, configure(lab(key="sk-second-key")))
        with pytest.raises(ConfigError):
            await resources.follow(after, configure(ProviderConfig(kind="chat")))
        sharing.apply(Fact("key", "lab", digest_key("lab", "sk-second-key")), 60.0)
        engine = after.engine
        keyring = engine.services.health.of(engine.router.providers["lab"]).keyring
        assert not keyring.is_ready("sk-second-key")


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
    async with open_setup(configure(lab()), {}, lambda entry: None) as before:
        known = before.engine.services.rejected.known
        before.engine.services.rejected.learn("lab", "m", "top_p")
        with pytest.raises(ConfigError):
            await before.follow(broken)
        assert before.engine.router.resolve("lab/m").provider.base_url == "http://lab.test/v1"
        assert before.engine.services.rejected.known is known
        assert known


async def test_other_settings_of_circuit_breakers_begin_anew_and_keys_go_on_resting() -> None:
    async with open_setup(configure(lab()), {}, lambda entry: None) as before:
        health = before.engine.services.health.of(before.engine.router.resolve("lab/m").provider)
        health.keyring.cool_down("sk-first-key", 60.0)
        config = configure(lab(), attempts=AttemptConfig(breaker_threshold=1))
        after = await before.follow(config)
        following = after.engine.services.health.of(after.engine.router.resolve("lab/m").provider)
    assert following.keyring is health.keyring
    assert following.breaker is not health.breaker


async def test_limits_of_cost_can_be_added_while_the_store_cannot_be_read(
    open_memory: OpenMemory,
) -> None:
    log: list[Entry] = []
    store = await open_memory(now=lambda: 0)
    store.usage = UnreadableUsage()
    async with open_setup(configure(lab()), {}, log.append, store=store) as setup:
        await setup.follow(configure(lab()))
        assert log == []
        limits = LimitConfig(clients={"*": ClientLimitConfig(cost_per_day=1.0)})
        await setup.follow(configure(lab(), limits=limits))
    [entry] = log
    assert (entry.event, entry.level) == ("limits.costs_not_read", "warning")
    assert entry.facts["reason"] == "the store cannot be read; limits of cost count from now on"


def test_passwords_in_addresses_and_values_of_the_query_are_secrets() -> None:
    provider = ProviderConfig(
        kind="chat",
        base_url="https://me:a%20private%20word@lab.test/v1",
        query={"code": "a-function-key", "api-version": "2024-10-21", "v": "2.1", "alt": "sse"},
    )
    config = configure(provider)
    secrets = list_secrets(config, build_providers(config, {}))
    assert {"a%20private%20word", "a private word", "a-function-key"} <= {*secrets}
    assert {"2024-10-21", "2.1", "sse"}.isdisjoint(secrets)


def test_headers_of_mcp_servers_are_secrets() -> None:
    server = McpServerConfig(url="https://a.example/", headers={"authorization": "Bearer private"})
    config = configure(lab(), mcp=McpConfig(servers={"a": server}))
    secrets = list_secrets(config, build_providers(config, {}))
    assert {"Bearer private", "private"} <= {*secrets}
    assert "Bearer" not in secrets
