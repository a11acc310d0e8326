"""Metrics of the gateway for Prometheus.

Requests are counted when they have ended, together with others, never while they stream. Gauges are
read when the metrics are. Processes that share the directory of `PROMETHEUS_MULTIPROC_DIR`, as
workers do, write their figures to files in it, and each answers with the sums of all (the
multiprocess mode of `prometheus-client`). Any other process counts on its own.
"""

from __future__ import annotations

import os
from collections import Counter as Counts
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest, values
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from antiphon.core.response import ResponseUsage
from antiphon.engine.accounting import DOLLAR
from antiphon.engine.report import RunReport
from antiphon.observe.gauges import Gauges, GaugeValues
from antiphon.observe.label_values import LabelValues

_LATENCY_S = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300)
_STORE_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)
_NO_CODE = "none"  # of a run that could not be entered
_TARGET = ("provider", "model")
_SERVER = ("server", "operation", "error")
_SENDER = ("client", *_TARGET)
_Sender: TypeAlias = tuple[str, str, str]
"""Client, provider and model, as they are labels."""


class Metrics:
    """All series of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.is_shared = values.ValueClass is not values.MutexValue  # see the module
        self._clients = LabelValues()
        self._models = LabelValues()
        self._codes = LabelValues()
        self._requests = self._counter(
            "requests", "Requests that have ended, by outcome.", *_SENDER, "format", "status"
        )
        self._rejected = self._counter(
            "rejected_requests", "Requests rejected before a provider was chosen.", "code"
        )
        self._failed = self._counter(
            "failed_responses", "Responses that failed, by the code of the log.", *_TARGET, "code"
        )
        self._events = self._counter("events", "Events of ended responses.", *_TARGET)
        self._tokens = self._counter(
            "tokens", "Tokens of ended responses; each token has one kind.", *_SENDER, "kind"
        )
        self._cost = self._counter("cost_dollars", "Known cost in US dollars.", *_SENDER)
        self._unpriced = self._counter(
            "unpriced_requests", "Requests whose cost is unknown.", *_TARGET
        )
        self._attempts = self._counter(
            "attempts", "Attempts at providers, by the fault that ended them.", *_TARGET, "fault"
        )
        self._servers = LabelValues()
        self._server_calls = self._histogram(
            "mcp_call_seconds", "Calls of MCP servers, by their error.", _LATENCY_S, *_SERVER
        )
        self._first_event = self._histogram(
            "first_event_seconds", "Time to the first event of a response.", _LATENCY_S, *_TARGET
        )
        self._duration = self._histogram(
            "request_seconds", "Duration of requests.", _LATENCY_S, *_TARGET
        )
        self._store = self._histogram(
            "store_seconds", "Time to load a history or save a response.", _STORE_S, "operation"
        )
        self._gauges = Gauges(self.registry)

    def _counter(self, name: str, description: str, *labels: str) -> Counter:
        return Counter(f"antiphon_{name}", description, labels, registry=self.registry)

    def _histogram(
        self, name: str, description: str, buckets: Sequence[float], *labels: str
    ) -> Histogram:
        name = f"antiphon_{name}"
        return Histogram(name, description, labels, registry=self.registry, buckets=buckets)

    def count(self, ended: Iterable[RunReport]) -> None:
        """Count requests that have ended; those that share their labels, all at once."""
        senders: dict[tuple[str, str, str], list[RunReport]] = {}
        attempts: Counts[tuple[str, str, str]] = Counts()
        for request in ended:
            sender = request.client, request.provider, request.model
            senders.setdefault(sender, []).append(request)
            for attempt in request.attempts:
                fault = attempt.fault_type or "none"
                attempts[attempt.provider, attempt.model, fault] += 1
        for (client, provider, model), requests in senders.items():
            target = provider, self._models.bound(model)
            self._count_requests((self._clients.bound(client), *target), requests)
            self._observe_times(target, requests)
            self._observe_server_calls(requests)
        for (provider, model, fault), number in attempts.items():
            self._attempts.labels(provider, self._models.bound(model), fault).inc(number)

    def count_rejection(self, code: str) -> None:
        """Count a request that was rejected before it had a run."""
        self._rejected.labels(self._codes.bound(code)).inc()

    def _count_requests(self, sender: _Sender, requests: Sequence[RunReport]) -> None:
        outcomes = Counts((request.format, request.status) for request in requests)
        for outcome, number in outcomes.items():
            self._requests.labels(*sender, *outcome).inc(number)
        codes = Counts(request.code or _NO_CODE for request in requests if request.is_failed)
        for code, number in codes.items():
            self._failed.labels(*sender[1:], self._codes.bound(code)).inc(number)
        self._events.labels(*sender[1:]).inc(sum(request.events for request in requests))
        used = [request.usage for request in requests if request.usage is not None]
        if used:
            for kind, tokens in split_tokens(used).items():
                self._tokens.labels(*sender, kind).inc(tokens)
        costs = [request.cost for request in requests if request.cost is not None]
        if costs:
            self._cost.labels(*sender).inc(sum(costs) / DOLLAR)
        if len(costs) < len(requests):
            self._unpriced.labels(*sender[1:]).inc(len(requests) - len(costs))

    def _observe_times(self, target: tuple[str, str], requests: Sequence[RunReport]) -> None:
        duration = self._duration.labels(*target)
        for request in requests:
            duration.observe(request.duration_ms / 1000)
        _observe(self._first_event, target, (request.first_event_ms for request in requests))
        _observe(self._store, ("load",), (request.load_ms for request in requests))
        _observe(self._store, ("save",), (request.save_ms for request in requests))

    def _observe_server_calls(self, requests: Sequence[RunReport]) -> None:
        for call in (call for request in requests for call in request.server_calls):
            operation = "list" if call.tool is None else "call"
            labels = self._servers.bound(call.server), operation, call.error or "none"
            self._server_calls.labels(*labels).observe(call.duration_ms / 1000)

    def set_gauges(self, values: GaugeValues) -> None:
        """Set the gauges to what was read just now."""
        self._gauges.set(values)

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


def _observe(
    histogram: Histogram, labels: Sequence[str], durations_ms: Iterable[float | None]
) -> None:
    """Observe durations; without any, there is no series."""
    known = [duration for duration in durations_ms if duration is not None]
    if known:
        series = histogram.labels(*labels)
        for duration in known:
            series.observe(duration / 1000)


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
