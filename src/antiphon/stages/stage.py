"""Stages: steps between the state machine and the wire, each with one responsibility.

A stage takes a `Batch` and returns one. The terminal event is the last event of the last batch: a
stage may replace it, and must not drop it. Facts reach a stage as fields of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from antiphon.core.diagnostic import Diagnostic
from antiphon.core.events import TERMINAL_EVENTS, Event, Failed, Terminal
from antiphon.core.faults.fault import ProviderFault
from antiphon.core.response import Response, ResponseError
from antiphon.core.stream.sequencer import join_output_text


class Batch(Struct, frozen=True):
    """The events of one network read, and the state of the response after them."""

    events: list[Event]
    fault: ProviderFault | None = None
    """Why the response failed, if a fault is why."""
    refused: bool = False
    """Whether the model refused, however the client is shown that."""
    diagnostics: tuple[Diagnostic, ...] = ()
    """All diagnostics of the response so far."""
    facts: Mapping[str, Any] = {}
    """Names and numbers of the request and the current attempt; safe to log."""
    upstream_latency_ms: float | None = None
    event_count: int = 0
    """Events of the response up to the end of this batch."""
    to_save: Response | None = None
    """The response to store before the terminal event is sent."""
    failure_code: str | None = None
    """Our own code of why the response failed, if a stage has found that."""
    finish_reason: str | None = None
    """Why the model stopped, in the provider's own word; safe to log."""


class Stage:
    """A step of the pipeline. A subclass overrides the methods it needs."""

    def feed(self, batch: Batch) -> Batch:
        """Process a batch. Every batch is fed, the one with the terminal event, too."""
        return batch

    def on_terminal(self, batch: Batch) -> Batch:
        """Process the batch that ends with the terminal event, after `feed`."""
        return batch

    def close(self, batch: Batch) -> None:
        """End without a terminal event, or after it: report what has not been reported."""


StageFactory: TypeAlias = Callable[[], Stage]
"""Makes the stage of one response."""


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
