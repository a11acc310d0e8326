"""Gauges: the state of an engine at one moment."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from antiphon.core.faults.classify import classify
from antiphon.engine.health import KeyLease
from antiphon.observe.gauges import Gauges, GaugeValues, read_engine
from antiphon.providers.registry import build_providers
from antiphon.store.trace.rows import TraceLoss
from tests.support.applications import echo_config, open_application


async def test_resting_keys_and_open_breakers_are_read_by_provider() -> None:
    async with open_application() as opened:
        engine = opened.engine
        provider = build_providers(echo_config(), {})["echo"]
        health = engine.services.health.of(provider)
        lease = KeyLease(health, "")
        busy = classify(429, {"retry-after": "9"}, b"{}")
        lease.fail(busy, "echo", has_other_targets=False)
        for _ in range(engine.services.attempts.breaker_threshold):
            health.breaker.record_failure()
        values = read_engine(engine)
    assert values.resting_keys == {"echo": 1}
    assert values.open_breakers == {"echo": True}
    assert (values.running, values.trace_queue, values.usage_queue) == (0, 0, 0)


def test_losses_are_counted_once() -> None:
    registry = CollectorRegistry()
    gauges = Gauges(registry)
    first, second = TraceLoss(low=1, high=2), TraceLoss(low=2, high=3, failed=5)
    for lost in (first, first, second):
        gauges.set(GaugeValues(resting_keys={}, open_breakers={}, lost=lost))

    def value(reason: str) -> float | None:
        return registry.get_sample_value("antiphon_trace_lost_rows_total", {"reason": reason})

    assert (value("queue_full"), value("not_written")) == (5.0, 5.0)


def test_gauges_show_the_last_reading() -> None:
    registry = CollectorRegistry()
    gauges = Gauges(registry)
    for running, is_open in ((3, True), (1, False)):
        gauges.set(
            GaugeValues(
                running=running, resting_keys={"up": running}, open_breakers={"up": is_open}
            )
        )
    assert registry.get_sample_value("antiphon_running_streams") == 1
    assert registry.get_sample_value("antiphon_keys_resting", {"provider": "up"}) == 1
    assert registry.get_sample_value("antiphon_breakers_open", {"provider": "up"}) == 0


def test_a_provider_that_a_reload_has_removed_has_nothing_that_rests() -> None:
    registry = CollectorRegistry()
    gauges = Gauges(registry)
    for resting, is_open in (({"old": 2}, {"old": True}), ({"new": 1}, {"new": True})):
        gauges.set(GaugeValues(resting_keys=resting, open_breakers=is_open))

    def value(name: str, provider: str) -> float | None:
        return registry.get_sample_value(f"antiphon_{name}", {"provider": provider})

    assert (value("keys_resting", "old"), value("breakers_open", "old")) == (0, 0)
    assert (value("keys_resting", "new"), value("breakers_open", "new")) == (1, 1)
