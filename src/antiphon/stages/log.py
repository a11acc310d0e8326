"""Log stage: one entry for each answer, with status, usage and duration; never its content."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from antiphon.core.response import Response, ResponseUsage
from antiphon.stages.stage import Batch, Stage, terminal


class Entry(Struct, frozen=True):
    """A log entry: a stable event name, a level, and facts that are safe to keep."""

    event: str
    level: str
    facts: Mapping[str, Any]


class LogStage(Stage):
    """Logs `response.finished`, or `response.cancelled` for a response that nobody waits for."""

    def __init__(
        self,
        emit: Callable[[Entry], None],
        *,
        elapsed_ms: Callable[[], float],
        cost_usd: Callable[[ResponseUsage | None], float | None],
    ) -> None:
        """`cost_usd` returns the cost of a response; None: the price is unknown."""
        self._emit = emit
        self._elapsed_ms = elapsed_ms
        self._cost_usd = cost_usd
        self._ended = False

    def on_terminal(self, batch: Batch) -> Batch:
        ending = terminal(batch.events)
        if ending is not None and ending.response.status != "cancelled":
            self._ended = True
            level = "warning" if ending.response.status == "failed" else "info"
            outcome = _outcome(ending.response)
            cost = {"cost_usd": self._cost_usd(ending.response.usage)}
            facts = {**batch.facts, **outcome, **cost, **self._figures(batch)}
            self._emit(Entry("response.finished", level, facts))
        return batch

    def close(self, batch: Batch) -> None:
        if not self._ended and batch.fault is None:
            facts = {**batch.facts, **self._figures(batch)}
            self._emit(Entry("response.cancelled", "info", facts))

    def _figures(self, batch: Batch) -> dict[str, Any]:
        return {
            "events": batch.event_count,
            "duration_ms": round(self._elapsed_ms(), 1),
            "upstream_latency_ms": batch.upstream_latency_ms,
        }


def _outcome(response: Response) -> dict[str, Any]:
    usage = response.usage
    return {
        "status": response.status,
        "error": response.error.code if response.error else None,
        "items": len(response.output),
        "input_tokens": usage.input_tokens if usage else 0,
        "cached_tokens": usage.input_tokens_details.cached_tokens if usage else 0,
        "output_tokens": usage.output_tokens if usage else 0,
    }
