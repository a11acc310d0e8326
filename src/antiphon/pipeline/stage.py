"""A stage takes a batch of events and gives a batch of events. Six of them make a pipeline.

A terminal event is always the last of its batch, and is seen exactly once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from antiphon.core.faults.fault import ProviderFault, internal_fault
from antiphon.core.faults.messages import describe
from antiphon.wire.events import Completed, Event, Failed, Incomplete, Terminal
from antiphon.wire.response import Response, ResponseError


class Stage(Protocol):
    def feed(self, events: list[Event]) -> list[Event]: ...


_TERMINAL = (Completed, Incomplete, Failed)


def terminal(events: Sequence[Event]) -> Terminal | None:
    """The terminal event of a batch, if it has one."""
    last = events[-1] if events else None
    return last if isinstance(last, _TERMINAL) else None


def failed(response: Response, *, code: str, message: str) -> Failed:
    """The same response, but failed."""
    error = ResponseError(code, message)
    return Failed(
        msgspec.structs.replace(
            response, status="failed", error=error, completed_at=None, incomplete_details=None
        )
    )


class Stages:
    """Stages in a row. One that breaks leaves the row, and the response fails for it."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = list(stages)
        self.fault: ProviderFault | None = None

    def feed(self, events: list[Event]) -> list[Event]:
        for stage in tuple(self._stages):
            try:
                events = stage.feed(events)
            except Exception as error:  # whoever drives us ends the response with this fault
                self._stages.remove(stage)
                self.fault = internal_fault(error)
                events = self._spoiled(events, self.fault)
        return events

    @staticmethod
    def _spoiled(events: list[Event], fault: ProviderFault) -> list[Event]:
        """A response that would have ended well must not, if a stage could not see it end."""
        ending = terminal(events)
        if ending is None:
            return events
        rewritten = failed(ending.response, code=fault.public_code, message=describe(fault))
        return [*events[:-1], rewritten]
