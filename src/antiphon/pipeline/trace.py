"""What went through, for somebody who looks later: bytes with their times, written once."""

from __future__ import annotations

from collections.abc import Callable

from antiphon.pipeline.stage import terminal
from antiphon.wire.events import Event
from antiphon.wire.response import Response


class RawTap:
    """The provider's bytes as they came: one blob, with the offset and time of every read."""

    def __init__(self, *, keep: bool, elapsed_ms: Callable[[], float]) -> None:
        self._keep = keep
        self._elapsed_ms = elapsed_ms
        self._pieces: list[bytes] = []
        self.size = 0
        self.offsets: list[tuple[int, float]] = []
        self._kept = (0, 0)

    def keep(self) -> None:
        """What has come so far stays, whatever becomes of the rest."""
        self._kept = (len(self._pieces), self.size)

    def rewind(self) -> None:
        """Forget what has come since: nobody will be told of it."""
        pieces, self.size = self._kept
        del self._pieces[pieces:], self.offsets[pieces:]

    def feed(self, chunk: bytes) -> bytes:
        if self._keep:
            self.offsets.append((self.size, self._elapsed_ms()))
            self._pieces.append(chunk)
        self.size += len(chunk)
        return chunk

    @property
    def blob(self) -> bytes:
        return b"".join(self._pieces)


class TraceStage:
    """The events as they leave, in batches; encoded only when the trace is written."""

    def __init__(self, *, keep: bool, elapsed_ms: Callable[[], float]) -> None:
        self._keep = keep
        self._elapsed_ms = elapsed_ms
        self.count = 0
        self.response: Response | None = None
        """How it ended, once it has."""
        self.batches: list[tuple[float, list[Event]]] = []

    def feed(self, events: list[Event]) -> list[Event]:
        self.count += len(events)
        if self._keep and events:
            self.batches.append((self._elapsed_ms(), events))
        if (ending := terminal(events)) is not None:
            self.response = ending.response
        return events
