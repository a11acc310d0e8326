"""Facts about providers: what one engine learns, another one knows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from antiphon.config import AttemptConfig
from antiphon.core.faults.fault import ProviderFault, fault_of_kind
from antiphon.core.faults.kinds import FaultKind
from antiphon.engine.engine import Engine
from antiphon.engine.health import HealthRegistry, KeyLease, ProviderHealth
from antiphon.engine.rejections import RejectedModes, RejectedParameters
from antiphon.engine.shared.facts import MAX_S, Fact, SharedFacts, digest_key
from antiphon.server.wiring import open_engine
from tests.support.gateways import settings

KEY = "sk-upstream"
Sent = list[tuple[Fact, float]]


class Pair:
    """Two engines; `sent` is what the first has sent, which the second has applied."""

    def __init__(self, first: Engine, second: Engine) -> None:
        self.first = first
        self.second = second
        self.sent: Sent = []
        receiver = SharedFacts(lambda fact, seconds: None)
        receiver.attach(second)

        def publish(fact: Fact, seconds: float) -> None:
            self.sent.append((fact, seconds))
            receiver.apply(msgspec.json.decode(msgspec.json.encode(fact), type=Fact), seconds)

        facts = SharedFacts(publish)
        services = first.services
        health = HealthRegistry(AttemptConfig(), services.runtime.monotonic, facts.send_health)
        first.services = replace(
            services,
            health=health,
            rejected=RejectedParameters(facts.send_parameter),
            rejected_modes=RejectedModes(facts.send_mode),
        )

    def fail(self, fault: ProviderFault, model: str = "m") -> None:
        lease = KeyLease(health_of(self.first), KEY)
        lease.acquire()
        lease.fail(fault, model, has_other_targets=True)


def health_of(engine: Engine) -> ProviderHealth:
    return engine.services.health.of(engine.router.providers["up"])


def fault(kind: FaultKind) -> ProviderFault:
    return fault_of_kind(kind, "as scripted")


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    async with AsyncExitStack() as stack:
        engines = []
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
            config = settings(tmp_path / name, "http://127.0.0.1:1/v1")
            opened = open_engine(config, {}, lambda entry: None)
            engines.append(await stack.enter_async_context(opened))
        yield Pair(*engines)


async def test_a_key_that_cools_down_is_not_used_by_others(pair: Pair) -> None:
    pair.fail(fault(FaultKind.RATE_LIMIT))
    assert not health_of(pair.second).keyring.is_ready(KEY)
    assert pair.sent == [(Fact("key", "up", digest_key("up", KEY)), 60.0)]
    assert KEY not in repr(pair.sent)


async def test_a_key_that_was_rejected_is_avoided_for_an_hour(pair: Pair) -> None:
    pair.fail(fault(FaultKind.AUTH))
    assert [seconds for _, seconds in pair.sent] == [MAX_S]
    assert not health_of(pair.second).keyring.is_ready(KEY)


async def test_a_key_may_be_barred_from_one_model(pair: Pair) -> None:
    pair.fail(fault(FaultKind.PERMISSION), "large")
    keyring = health_of(pair.second).keyring
    assert not keyring.is_ready(KEY, "large")
    assert keyring.is_ready(KEY, "small")


async def test_a_missing_model_is_not_requested_by_others(pair: Pair) -> None:
    pair.fail(fault(FaultKind.MODEL), "gone")
    assert health_of(pair.second).pick_key("gone") is None
    assert health_of(pair.second).pick_key("other") == KEY


async def test_an_open_circuit_is_open_for_others_until_one_succeeds(pair: Pair) -> None:
    for _ in range(4):
        pair.fail(fault(FaultKind.SERVER_ERROR))
    assert pair.sent == []
    pair.fail(fault(FaultKind.SERVER_ERROR))
    assert not health_of(pair.second).breaker.is_closed
    assert health_of(pair.second).pick_key("m") is None
    lease = KeyLease(health_of(pair.first), KEY)
    lease.acquire()
    lease.succeed()
    assert health_of(pair.second).breaker.is_closed
    assert [(each.kind, seconds) for each, seconds in pair.sent] == [
        ("breaker", 30.0),
        ("breaker", 0.0),
    ]


async def test_a_success_at_a_closed_circuit_is_not_sent(pair: Pair) -> None:
    lease = KeyLease(health_of(pair.first), KEY)
    lease.acquire()
    lease.succeed()
    assert pair.sent == []


async def test_rejected_parameters_and_modes_are_known_to_others(pair: Pair) -> None:
    services, others = pair.first.services, pair.second.services
    services.rejected.learn("up", "m", "top_k")
    services.rejected_modes.learn(("up", "m"), "json_schema", services.runtime.monotonic())
    assert others.rejected.known == {("up", "m"): {"top_k": None}}
    assert others.rejected_modes.of(("up", "m"), others.runtime.monotonic()) == {"json_schema"}


async def test_what_concerns_nobody_here_is_ignored(pair: Pair) -> None:
    receiver = SharedFacts(lambda fact, seconds: None)
    receiver.attach(pair.second)
    receiver.apply(Fact("key", "elsewhere", "0123"), 60.0)
    receiver.apply(Fact("key", "up", "0123"), 60.0)
    assert health_of(pair.second).pick_key("m") == KEY
