"""Metrics of the gateway for Prometheus.

Requests are counted when they have ended, together with others, never while they stream. Gauges are
read when the metrics are. Processes that share the directory of `PROMETHEUS_MULTIPROC_DIR`, as
workers do, write their figures to files in it, and each responds with the sums of all (the
multiprocess mode of `prometheus-client`). Any other process counts on its own.
"""

from __future__ import annotations

import asyncio
import os
from bisect import bisect_left
from collections import Counter as Counts
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeAlias, TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest, values
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from antiphon.core.response import ResponseUsage
from antiphon.engine.accounting import DOLLAR
from antiphon.engine.engine import Engine
from antiphon.engine.report import RunReport
from antiphon.observe.gauges import Gauges, GaugeValues, read_engine
from antiphon.observe.label_values import LabelValues

REFRESH_S = 5.0
"""How often a process shows its gauges to the others that share its figures."""
_LATENCY_S = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300)
_STORE_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)
_NO_CODE = "none"  # of a run that could not be entered
_TARGET = ("provider", "model")
_SENDER = ("client", *_TARGET)
_Sender: TypeAlias = tuple[str, str, str]
"""Client, provider and model, as a report or the labels have them."""


class BatchHistogram(Histogram):
    """A histogram that takes many values at once. One by one, they were the largest part of what
    counting a request takes."""

    def observe_all(self, amounts: Sequence[float]) -> None:
        self._sum.inc(sum(amounts))
        buckets = Counts(bisect_left(self._upper_bounds, amount) for amount in amounts)
        for bucket, number in buckets.items():
            self._buckets[bucket].inc(number)


_M = TypeVar("_M", Counter, BatchHistogram)


class _Series(Generic[_M]):
    """The series of a metric by the values of its labels. Each is looked up in the metric once:
    that takes longer than to count."""

    def __init__(self, metric: _M) -> None:
        self._metric: _M = metric
        self._found: dict[tuple[str, ...], _M] = {}

    def of(self, *labels: str) -> _M:
        series = self._found.get(labels)
        if series is None:
            series = self._found[labels] = self._metric.labels(*labels)
        return series


class RequestCounters:
    """Counters of requests: how they ended, and what they have used."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._codes = LabelValues()
        self._requests = _counter(
            registry,
            "requests",
            "Requests that have ended, by outcome.",
            *_SENDER,
            "format",
            "status",
        )
        self._rejected = _counter(
            registry, "rejected_requests", "Requests rejected before a provider was chosen.", "code"
        )
        self._failed = _counter(
            registry,
            "failed_responses",
            "Responses that failed, by the code of the log.",
            *_TARGET,
            "code",
        )
        self._events = _counter(registry, "events", "Events of ended responses.", *_TARGET)
        self._tokens = _counter(
            registry,
            "tokens",
            "Tokens of ended responses; each token has one kind.",
            *_SENDER,
            "kind",
        )
        self._cost = _counter(registry, "cost_dollars", "Known cost in US dollars.", *_SENDER)
        self._unpriced = _counter(
            registry, "unpriced_requests", "Requests whose cost is unknown.", *_TARGET
        )

    def count(self, sender: _Sender, requests: Sequence[RunReport]) -> None:
        """Count requests that share their sender."""
        outcomes = Counts((request.format, request.status) for request in requests)
        for outcome, number in outcomes.items():
            self._requests.of(*sender, *outcome).inc(number)
        codes = Counts(request.code or _NO_CODE for request in requests if request.is_failed)
        for code, number in codes.items():
            self._failed.of(*sender[1:], self._codes.bound(code)).inc(number)
        self._events.of(*sender[1:]).inc(sum(request.events for request in requests))
        used = [request.usage for request in requests if request.usage is not None]
        if used:
            for kind, tokens in split_tokens(used).items():
                self._tokens.of(*sender, kind).inc(tokens)
        costs = [request.cost for request in requests if request.cost is not None]
        if costs:
            self._cost.of(*sender).inc(sum(costs) / DOLLAR)
        if len(costs) < len(requests):
            self._unpriced.of(*sender[1:]).inc(len(requests) - len(costs))

    def count_rejection(self, code: str) -> None:
        self._rejected.of(self._codes.bound(code)).inc()


class DurationHistograms:
    """Histograms of the times of requests."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._first_event = _histogram(
            registry,
            "first_event_seconds",
            "Time to the first event of a response.",
            _LATENCY_S,
            *_TARGET,
        )
        self._duration = _histogram(
            registry, "request_seconds", "Duration of requests.", _LATENCY_S, *_TARGET
        )
        self._store = _histogram(
            registry,
            "store_seconds",
            "Time to load a history or save a response.",
            _STORE_S,
            "operation",
        )
        self._servers = LabelValues()
        self._server_calls = _histogram(
            registry,
            "mcp_call_seconds",
            "Calls of MCP servers, by their error.",
            _LATENCY_S,
            "server",
            "operation",
            "error",
        )

    def observe(self, target: tuple[str, str], requests: Sequence[RunReport]) -> None:
        _observe(self._duration, target, (request.duration_ms for request in requests))
        _observe(self._first_event, target, (request.first_event_ms for request in requests))
        _observe(self._store, ("load",), (request.load_ms for request in requests))
        _observe(self._store, ("save",), (request.save_ms for request in requests))
        for call in (call for request in requests for call in request.server_calls):
            operation = "list" if call.tool is None else "call"
            labels = self._servers.bound(call.server), operation, call.error or "none"
            self._server_calls.of(*labels).observe(call.duration_ms / 1000)


class Metrics:
    """All series of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        """Shows the series in the order in which they are made."""
        self.is_shared = values.ValueClass is not values.MutexValue
        """Whether other processes show these series, too: the multiprocess mode of the library."""
        self._clients = LabelValues()
        self._models = LabelValues()
        self._requests = RequestCounters(self.registry)
        self._attempts = _counter(
            self.registry,
            "attempts",
            "Attempts at providers, by the fault that ended them.",
            *_TARGET,
            "fault",
        )
        self._durations = DurationHistograms(self.registry)
        self._gauges = Gauges(self.registry)

    def count(self, ended: Iterable[RunReport]) -> None:
        """Count requests that have ended; those that share their labels, all at once."""
        senders: dict[_Sender, list[RunReport]] = {}
        attempts: Counts[tuple[str, str, str]] = Counts()
        for request in ended:
            sender = request.client, request.provider, request.model
            senders.setdefault(sender, []).append(request)
            for attempt in request.attempts:
                fault = attempt.fault_type or "none"
                attempts[attempt.provider, attempt.model, fault] += 1
        for (client, provider, model), requests in senders.items():
            target = provider, self._models.bound(model)
            self._requests.count((self._clients.bound(client), *target), requests)
            self._durations.observe(target, requests)
        for (provider, model, fault), number in attempts.items():
            self._attempts.of(provider, self._models.bound(model), fault).inc(number)

    def count_rejection(self, code: str) -> None:
        """Count a request that was rejected before it had a run."""
        self._requests.count_rejection(code)

    def set_gauges(self, read: GaugeValues) -> None:
        """Set the gauges to what was read just now."""
        self._gauges.set(read)

    def render(self) -> bytes:
        """Return all series in the text format; those of all processes if they are shared."""
        registry = self.registry
        if self.is_shared:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)

    def close(self) -> None:
        """Take the gauges of this process out of the sums; what it has counted stays."""
        if self.is_shared:
            mark_process_dead(os.getpid())  # type: ignore[no-untyped-call]


class EngineMetrics:
    """Counts the requests of an engine from `start` on."""

    def __init__(self, find_engine: Callable[[], Engine], refresh_s: float = REFRESH_S) -> None:
        """`find_engine` returns that of the configuration in effect: its gauges are shown."""
        self._find_engine = find_engine
        self._refresh_s = refresh_s
        self._accounting = find_engine().services.accounting
        self._metrics = Metrics()
        self._refreshing: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._accounting.observers.append(self._metrics.count)
        self._accounting.rejection_observers.append(self._metrics.count_rejection)
        if self._metrics.is_shared:
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh())

    async def scrape(self) -> bytes:
        """Return all series, up to date. A thread writes them: there may be thousands."""
        self._update()
        return await asyncio.to_thread(self._metrics.render)

    def close(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
        self._accounting.drain()
        self._metrics.close()

    def _update(self) -> None:
        read = read_engine(self._find_engine())
        self._accounting.drain()
        self._metrics.set_gauges(read)

    async def _refresh(self) -> None:
        while True:
            self._update()
            await asyncio.sleep(self._refresh_s)


def _counter(
    registry: CollectorRegistry, name: str, description: str, *labels: str
) -> _Series[Counter]:
    return _Series(Counter(f"antiphon_{name}", description, labels, registry=registry))


def _histogram(
    registry: CollectorRegistry,
    name: str,
    description: str,
    buckets: Sequence[float],
    *labels: str,
) -> _Series[BatchHistogram]:
    name = f"antiphon_{name}"
    return _Series(BatchHistogram(name, description, labels, registry=registry, buckets=buckets))


def _observe(
    histogram: _Series[BatchHistogram],
    labels: Sequence[str],
    durations_ms: Iterable[float | None],
) -> None:
    """Observe durations; without any, there is no series."""
    known = [duration / 1000 for duration in durations_ms if duration is not None]
    if known:
        histogram.of(*labels).observe_all(known)


def split_tokens(used: Iterable[ResponseUsage]) -> dict[str, int]:
    """Split the tokens of responses into kinds that add up to the total."""
    plain = cached = written = output = reasoning = 0
    for usage in used:
        details = usage.input_tokens_details
        thought = usage.output_tokens_details.reasoning_tokens
        cached += details.cached_tokens
        written += details.cache_write_tokens
        plain += max(0, usage.input_tokens - details.cached_tokens - details.cache_write_tokens)
        output += max(0, usage.output_tokens - thought)
        reasoning += thought
    return {
        "input": plain,
        "cached_input": cached,
        "cache_write": written,
        "output": output,
        "reasoning": reasoning,
    }
