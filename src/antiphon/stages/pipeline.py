"""Stages between the state machine and the client, and the pipeline that calls them in order.

A stage takes a `Batch` and returns one. Facts reach a stage as fields of the batch. The terminal
event is the last event of the last batch: a stage may replace it, and must not drop it.

A stage sees every batch: first `feed`, if it overrides that, then `on_terminal` for the last one. A
stage that raises, or that drops the terminal event, is removed, and the response fails. If it
overrides `feed`, it may be there to change the output: what it has not passed is not sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from antiphon.core.diagnostic import Diagnostic
from antiphon.core.events import (
    TERMINAL_EVENTS,
    TERMINAL_TYPES,
    Created,
    Event,
    Failed,
    InProgress,
    Queued,
    Terminal,
)
from antiphon.core.faults.fault import ProviderFault, internal_fault
from antiphon.core.faults.messages import describe
from antiphon.core.response import Response, ResponseError
from antiphon.core.stream.sequencer import join_output_text

_START_EVENTS = (Created, Queued, InProgress)


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

    __slots__ = ()

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


class Pipeline:
    """The stages of one response, in their order."""

    __slots__ = (
        "_closing",
        "_describe",
        "_feeding",
        "_stages",
        "_withholds",
        "fault",
        "sees_every_batch",
    )

    def __init__(
        self, stages: Sequence[Stage], describe: Callable[[ProviderFault], str] = describe
    ) -> None:
        self._describe = describe
        self._stages = list(stages)
        self._feeding = [stage for stage in stages if type(stage).feed is not Stage.feed]
        """Stages that override `feed`."""
        self._closing = [stage for stage in stages if type(stage).close is not Stage.close]
        """Stages that override `close`."""
        self.sees_every_batch = bool(self._feeding)
        """Whether a stage does: the others see the batch with the terminal event alone."""
        self.fault: ProviderFault | None = None
        """Why a stage raised, once one has."""
        self._withholds = False

    def feed(self, batch: Batch) -> Batch:
        if batch.events and type(batch.events[-1]) in TERMINAL_TYPES:
            return self._end(batch)
        for stage in tuple(self._feeding):
            try:
                batch = stage.feed(batch)
            except Exception as error:  # the run ends the response with it
                self._remove(stage, error)
                batch = without_output(batch)
        return batch

    def _end(self, batch: Batch) -> Batch:
        if self._withholds:
            batch = without_output(batch)
        for stage in tuple(self._stages):
            try:
                passed = stage.feed(batch) if stage in self._feeding else batch
                passed = stage.on_terminal(passed)
                if not passed.events or type(passed.events[-1]) not in TERMINAL_TYPES:
                    raise TypeError(f"{type(stage).__name__} dropped the terminal event")
                batch = passed
            except Exception as error:
                fault = self._remove(stage, error)
                if self._withholds:
                    batch = without_output(batch)
                batch = self._fail(batch, fault)
        return batch

    def _remove(self, stage: Stage, error: Exception) -> ProviderFault:
        self._stages.remove(stage)
        if stage in self._closing:
            self._closing.remove(stage)
        if stage in self._feeding:
            self._feeding.remove(stage)
            self._withholds = True
        self.fault = internal_fault(error)
        return self.fault

    def _fail(self, batch: Batch, fault: ProviderFault) -> Batch:
        """Return the batch with a failed response."""
        ending = terminal(batch.events)
        assert ending is not None
        event = failed(ending.response, code=fault.public_code, message=self._describe(fault))
        to_save = None if batch.to_save is None else event.response
        return msgspec.structs.replace(with_terminal(batch, event), fault=fault, to_save=to_save)

    def close(self, batch: Batch) -> None:
        """Let every stage report; the response is over or the client has disconnected."""
        for stage in self._closing:
            stage.close(batch)


def without_output(batch: Batch) -> Batch:
    """Return a batch with the events that start and end a response, without any output."""
    events: list[Event] = [event for event in batch.events if isinstance(event, _START_EVENTS)]
    if (ending := terminal(batch.events)) is not None:
        response = msgspec.structs.replace(ending.response, output=(), output_text="")
        events.append(msgspec.structs.replace(ending, response=response))
    return msgspec.structs.replace(batch, events=events)
