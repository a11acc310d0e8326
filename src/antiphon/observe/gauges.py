"""Gauges: running streams, provider health and queues as they are at this moment; losses so far."""

from __future__ import annotations

from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter, Gauge

from antiphon.engine.engine import Engine
from antiphon.engine.health import ProviderHealth
from antiphon.store.trace.rows import TraceLoss


class GaugeValues(Struct, frozen=True, kw_only=True):
    """What the gauges show."""

    running: int = 0
    resting_keys: dict[str, int]
    """API keys that cool down or were rejected, by provider."""
    open_breakers: dict[str, bool]
    trace_queue: int = 0
    usage_queue: int = 0
    lost: TraceLoss = TraceLoss()


def read_engine(engine: Engine) -> GaugeValues:
    """Read the state of an engine."""
    services = engine.services
    health = services.health.by_name
    trace = services.tracer.store
    return GaugeValues(
        running=len(services.active),
        resting_keys={name: _count_resting(each) for name, each in health.items()},
        open_breakers={name: not each.breaker.is_closed for name, each in health.items()},
        trace_queue=0 if trace is None else trace.queued_rows,
        usage_queue=len(services.accounting.ended),
        lost=TraceLoss() if trace is None else trace.lost,
    )


def _count_resting(health: ProviderHealth) -> int:
    return len({number for number, _, _ in health.keyring.resting()})


class Gauges:
    """The gauges of one process. Those of several are added up while the processes live."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._running = self._add("running_streams", "Responses that are being generated.")
        self._keys = self._add(
            "keys_resting", "API keys that cool down or were rejected.", "provider"
        )
        self._breakers = self._add(
            "breakers_open", "Circuit breakers that are open or half-open.", "provider"
        )
        self._queued = self._add("queued_rows", "Rows that wait to be written.", "queue")
        self._lost = Counter(
            "antiphon_trace_lost_rows", "Trace rows that were lost.", ("reason",), registry=registry
        )
        self._counted = TraceLoss()
        self._providers: set[str] = set()

    def _add(self, name: str, description: str, *labels: str) -> Gauge:
        return Gauge(
            f"antiphon_{name}",
            description,
            labels,
            registry=self._registry,
            multiprocess_mode="livesum",
        )

    def set(self, values: GaugeValues) -> None:
        """Show these values from now on."""
        self._running.set(values.running)
        for provider in self._providers | values.resting_keys.keys():
            # One that a reload has removed stays a series, with nothing that rests.
            self._keys.labels(provider).set(values.resting_keys.get(provider, 0))
            self._breakers.labels(provider).set(values.open_breakers.get(provider, False))
        self._providers |= values.resting_keys.keys()
        self._queued.labels("trace").set(values.trace_queue)
        self._queued.labels("usage").set(values.usage_queue)
        self._count_lost(values.lost)

    def _count_lost(self, lost: TraceLoss) -> None:
        """Count the rows that were lost since the last reading."""
        before, self._counted = self._counted, lost
        dropped = lost.low + lost.high - before.low - before.high
        self._lost.labels("queue_full").inc(dropped)
        self._lost.labels("not_written").inc(lost.failed - before.failed)
