"""Stages: steps between the state machine and the wire, each with one responsibility.

A stage takes a `Batch` and returns one. The terminal event is the last event of its batch and is
seen exactly once. Facts reach a stage as fields of the batch, never from the side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from antiphon.core.diagnostic import Diagnostic
from antiphon.core.faults.fault import ProviderFault
from antiphon.core.stream.sequencer import join_output_text
from antiphon.wire.events import TERMINAL_EVENTS, Event, Failed, Terminal
from antiphon.wire.response import Response, ResponseError


class Batch(Struct, frozen=True):
    """The events of one network read, and what is known of the answer with them."""

    events: list[Event]
    fault: ProviderFault | None = None
    """Why the answer failed, if a fault is why."""
    refused: bool = False
    """Whether the model refused, however the client is shown that."""
    diagnostics: tuple[Diagnostic, ...] = ()
    """All diagnostics of the answer so far."""
    facts: Mapping[str, Any] = {}
    """Names and numbers of the request and the current attempt; safe to log."""
    upstream_latency_ms: float | None = None
    event_count: int = 0
    """Events of the answer up to the end of this batch."""
    to_save: Response | None = None
    """The response to store before the terminal event is sent."""


class Stage:
    """A step of the pipeline. A subclass overrides the methods it needs."""

    def feed(self, batch: Batch) -> Batch:
        """Process a batch without a terminal event. Called only where it is overridden."""
        return batch

    def on_terminal(self, batch: Batch) -> Batch:
        """Process the batch that ends with the terminal event."""
        return batch

    def close(self, batch: Batch) -> None:
        """End without a terminal event, or after it: report what has not been reported."""


StageFactory: TypeAlias = Callable[[], Stage]
"""Makes the stage of one answer."""


def terminal(events: Sequence[Event]) -> Terminal | None:
    """Return the terminal event of a batch, if it has one."""
    last = events[-1] if events else None
    return last if isinstance(last, TERMINAL_EVENTS) else None


def failed(response: Response, *, code: str, message: str) -> Failed:
    """Return the terminal event of the same response, failed."""
    error = ResponseError(code, message)
    return Failed(
        msgspec.structs.replace(
            response,
            status="failed",
            error=error,
            completed_at=None,
            incomplete_details=None,
            output_text=join_output_text(response.output),
        )
    )


def with_terminal(batch: Batch, event: Event) -> Batch:
    """Return the batch with another terminal event."""
    return msgspec.structs.replace(batch, events=[*batch.events[:-1], event])
