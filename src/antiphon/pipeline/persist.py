"""The turn to be kept, made at the terminal event; the engine saves it before the event leaves."""

from __future__ import annotations

from antiphon.pipeline.stage import terminal
from antiphon.wire.events import Event
from antiphon.wire.response import Response


class PersistStage:
    """Hands the finished response over, once."""

    def __init__(self) -> None:
        self._finished: Response | None = None
        self._taken = False

    def feed(self, events: list[Event]) -> list[Event]:
        ending = terminal(events)
        if ending is not None and not self._taken:
            self._finished = ending.response
        return events

    def take(self) -> Response | None:
        """The response to save now, if there is one: one attempt, whatever becomes of it."""
        finished, self._finished = self._finished, None
        self._taken = self._taken or finished is not None
        return finished
