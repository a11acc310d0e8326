"""One line per answer: how it ended, what it used, how long it took. Never what was said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from antiphon.core.plan.plan import Diagnostic
from antiphon.pipeline.stage import terminal
from antiphon.wire.events import Event


class Entry(Struct, frozen=True):
    """A log entry: a stable name and facts that are safe to keep."""

    event: str
    level: str
    facts: dict[str, Any]


class LogStage:
    """Counts events and reports the end."""

    def __init__(
        self,
        emit: Callable[[Entry], None],
        *,
        elapsed_ms: Callable[[], float],
        facts: dict[str, Any],
    ) -> None:
        self._emit = emit
        self._elapsed_ms = elapsed_ms
        self.upstream_latency_ms: float | None = None
        self._facts = facts
        self._count = 0
        self._ended = False

    def feed(self, events: list[Event]) -> list[Event]:
        self._count += len(events)
        ending = terminal(events)
        if ending is not None:
            self._ended = True
            response = ending.response
            usage = response.usage
            self._emit(
                Entry(
                    "response.finished",
                    "warning" if response.status == "failed" else "info",
                    {
                        **self._facts,
                        "status": response.status,
                        "error": response.error.code if response.error else None,
                        "items": len(response.output),
                        "events": self._count,
                        "input_tokens": usage.input_tokens if usage else 0,
                        "cached_tokens": usage.input_tokens_details.cached_tokens if usage else 0,
                        "output_tokens": usage.output_tokens if usage else 0,
                        "duration_ms": round(self._elapsed_ms(), 1),
                        "upstream_latency_ms": self.upstream_latency_ms,
                    },
                )
            )
        return events

    def close(self) -> None:
        """Nothing more will come. If it has not ended by now, its client has gone."""
        if not self._ended:
            self._emit(
                Entry(
                    "response.cancelled",
                    "info",
                    {
                        **self._facts,
                        "events": self._count,
                        "duration_ms": round(self._elapsed_ms(), 1),
                        "upstream_latency_ms": self.upstream_latency_ms,
                    },
                )
            )


class DiagnosticsStage:
    """Reports, once and at the end, what was degraded, ignored or rejected."""

    def __init__(self, emit: Callable[[Entry], None], facts: dict[str, Any]) -> None:
        self._emit = emit
        self._facts = facts
        self._decided: tuple[Diagnostic, ...] = ()
        self._noted: list[Diagnostic] = []
        self._untold = False

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All there are so far, told or not."""
        return (*self._decided, *self._noted)

    def adopt(self, decided: tuple[Diagnostic, ...]) -> None:
        """What a plan says, in place of what another one said."""
        self._decided = decided
        self._untold = True

    def note(self, diagnostics: list[Diagnostic]) -> None:
        """What became of the answer itself; the list is emptied."""
        if diagnostics:
            self._noted += diagnostics
            diagnostics.clear()
            self._untold = True

    def feed(self, events: list[Event]) -> list[Event]:
        if terminal(events) is not None:
            self.close()
        return events

    def close(self) -> None:
        """Report even if no terminal event came by: a client may have left."""
        if self._untold and (diagnostics := self.diagnostics):
            found = [f"{each.code}:{each.param}" for each in diagnostics]
            self._emit(Entry("response.diagnostics", "info", {**self._facts, "diagnostics": found}))
        self._untold = False
