"""The way from a request to the trace's writer: bounded, and it never waits.

When it is full, the oldest streams give way first, then the oldest of the rest: what was asked,
what it cost and what went wrong is worth more than a copy of the bytes.
"""

from __future__ import annotations

from collections import deque
from threading import Event, Lock
from typing import TypeAlias

from antiphon.store.trace.rows import TraceLoss, TraceRow, TraceStream

Entry: TypeAlias = tuple[int, TraceRow]
"""When it was recorded, and what."""


class TraceQueue:
    """Filled from any thread, emptied by one, which finds everything of a moment together."""

    def __init__(self, *, max_rows: int, max_bytes: int, batch: int) -> None:
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._batch = batch
        self._lock = Lock()
        self._some = Event()
        self._many = Event()
        self._low: deque[Entry] = deque()
        self._high: deque[Entry] = deque()
        self._bytes = 0  # in blobs; the other rows are small
        self._lost_low = self._lost_high = 0

    def put(self, entry: Entry) -> None:
        with self._lock:
            if isinstance(entry[1], TraceStream):
                self._low.append(entry)
                self._bytes += len(entry[1].blob)
            else:
                self._high.append(entry)
            self._make_room()
            rows = len(self._low) + len(self._high)
        if rows >= self._batch:
            self._many.set()
        # Waking a thread costs more than all of the above, so it is done once a batch.
        if not self._some.is_set():
            self._some.set()

    def take(self) -> tuple[list[Entry], TraceLoss]:
        """Everything there is, and what was lost on the way since the last time."""
        with self._lock:
            entries = [*self._high, *self._low]
            loss = TraceLoss(low=self._lost_low, high=self._lost_high)
            self._high.clear()
            self._low.clear()
            self._bytes = self._lost_low = self._lost_high = 0
            self._some.clear()
            self._many.clear()
        return entries, loss

    def wait(self, idle_s: float, linger_s: float) -> None:
        """Wait for something, then a moment for more; at most `idle_s` if nothing comes."""
        if self._some.wait(idle_s):
            self._many.wait(linger_s)

    def hurry(self) -> None:
        """End any waiting."""
        self._many.set()
        self._some.set()

    def _make_room(self) -> None:
        while self._low and (
            len(self._low) + len(self._high) > self._max_rows or self._bytes > self._max_bytes
        ):
            _, row = self._low.popleft()
            if isinstance(row, TraceStream):
                self._bytes -= len(row.blob)
            self._lost_low += 1
        while len(self._high) > self._max_rows:
            self._high.popleft()
            self._lost_high += 1
