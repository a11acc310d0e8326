"""Models and providers of the page's API, and the reason behind every light."""

from __future__ import annotations

import asyncio
from math import inf

import pytest

from antiphon.config import Config, ModelConfig, ProviderConfig
from antiphon.core.faults.classify import classify
from antiphon.engine.health import CircuitBreaker, KeyLease, Keyring, ProviderHealth
from antiphon.server.ui.catalog import describe_light
from tests.support.applications import echo_config, open_application
from tests.support.gateways import replaced
from tests.support.model_lists import ListServer, list_server
from tests.support.pages.api import ask_json
from tests.support.waiting import until


def configured() -> Config:
    return replaced(
        echo_config(),
        providers={"up": ProviderConfig(kind="deepseek", api_keys=["a", "b"])},
        models={"fast": "up/deepseek-flash"},
        fallbacks={"fast": ["echo/echo"]},
        default_provider="up",
    )


async def test_models_are_listed_with_their_capabilities() -> None:
    async with open_application(configured()) as opened:
        listed = await ask_json(opened, "models")
    assert listed["default"] == listed["models"][0]["name"]
    by_name = {model["name"]: model for model in listed["models"]}
    alias = by_name["fast"]
    assert alias["alias_of"] == "up/deepseek-flash"
    assert alias["fallbacks"] == ["echo/echo"]
    assert alias["context_window"] > 100_000
    assert alias["inputs"][0] == "text"
    assert "price" in alias
    assert "high" in alias["efforts"]
    assert "echo/echo" not in by_name


async def test_models_of_the_providers_own_lists_are_last_and_marked() -> None:
    served = b'{"data": [{"id": "known"}, {"id": "brand-new"}]}'
    gate = asyncio.Event()
    async with list_server(ListServer(served, gate=gate)) as server:
        lab = ProviderConfig(kind="chat", base_url=server.url, models={"known": ModelConfig()})
        async with open_application(replaced(echo_config(), providers={"lab": lab})) as opened:
            without = (await ask_json(opened, "models"))["models"]
            gate.set()
            setup = opened.application.process.setup
            await until(setup.discovered_models, "the list has arrived")
            models = (await ask_json(opened, "models"))["models"]
    assert [each["name"] for each in models if each["discovered"]] == ["lab/brand-new"]
    assert models[-1]["name"] == "lab/brand-new"
    assert models[:-1] == without


async def test_a_provider_that_was_not_used_is_idle_and_the_test_provider_is_last() -> None:
    async with open_application(configured()) as opened:
        up, echo = (await ask_json(opened, "providers"))["providers"]
    assert (up["name"], up["keys"], up["light"]) == ("up", 2, "idle")
    assert up["reason"] == "not used since the gateway started"
    assert up["address"] == "api.deepseek.com:443"
    assert (echo["name"], echo["test"], echo["address"]) == ("echo", True, "in this process")


async def test_a_provider_that_answered_has_its_health() -> None:
    config = replaced(
        echo_config(), providers={"up": ProviderConfig(kind="deepseek", api_keys=["a"])}
    )
    async with open_application(config) as opened:
        engine = opened.application.process.setup.engine
        lease = KeyLease(engine.services.health.of(engine.router.providers["up"]), "a")
        lease.acquire()
        lease.succeed()
        up = (await ask_json(opened, "providers"))["providers"][0]
    assert (up["light"], up["breaker"], up["resting"], up["active"]) == ("ok", "closed", [], 0)
    assert up["last_success_s"] >= 0
    assert (up["last_fault_s"], up["last_fault"], up["missing"]) == (None, [], [])


async def test_a_test_model_that_fails_on_purpose_leaves_the_test_provider_green() -> None:
    async with open_application() as opened:
        assert (await opened.create(model="echo/error-401")).status == 502
        [echo] = (await ask_json(opened, "providers"))["providers"]
    assert (echo["light"], echo["reason"]) == ("ok", "built in, for tests")
    assert "resting" not in echo


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def health(clock: Clock) -> ProviderHealth:
    return ProviderHealth(Keyring(["a", "b"], clock), CircuitBreaker(clock, threshold=2), clock)


def fail(health: ProviderHealth, status: int, key: str = "a") -> None:
    lease = KeyLease(health, key)
    lease.acquire()
    lease.fail(classify(status, {}, b""), "m", has_other_targets=False)


def test_a_fault_is_shown_until_a_success_or_for_five_minutes(
    health: ProviderHealth, clock: Clock
) -> None:
    assert describe_light(health) == ("idle", "no recent answer")
    fail(health, 500)
    light, reason = describe_light(health)
    assert (light, reason.startswith("the last attempt failed: ")) == ("warn", True)
    clock.now += 301
    assert describe_light(health)[0] == "idle"
    KeyLease(health, "a").succeed()
    assert describe_light(health) == ("ok", "the last attempt succeeded")


def test_an_open_circuit_is_down_until_its_trial(health: ProviderHealth, clock: Clock) -> None:
    fail(health, 500)
    fail(health, 500)
    expected = "circuit breaker open after repeated faults; next attempt in 30 s"
    assert describe_light(health) == ("down", expected)
    clock.now += 30
    expected = "circuit breaker half-open after repeated faults; the next request is a trial"
    assert describe_light(health) == ("down", expected)


def test_resting_keys_are_named(health: ProviderHealth) -> None:
    health.keyring.cool_down("b", inf)
    assert describe_light(health) == ("warn", "key 2 cannot be used now")
    health.keyring.cool_down("a", 30)
    assert describe_light(health) == ("down", "key 1, key 2 cannot be used now")
