"""Bounded queue between requests and the trace's writer thread. Adding a row never blocks.

When it is full, the oldest streams (low priority) are dropped first, then the oldest other rows
(high priority): requests, usage and errors are worth more than a copy of the bytes.
"""

from __future__ import annotations

from collections import deque
from threading import Event, Lock
from typing import TypeAlias

from antiphon.store.trace.rows import TraceLoss, TraceRow, TraceStream

TimedRow: TypeAlias = tuple[int, TraceRow]
"""A row and when it was recorded, in ms since the epoch."""


class TraceQueue:
    """Filled from any thread, drained by one, which takes all rows at once.

    A row is added without a lock: `deque.append` is atomic. What is counted or dropped is not, so
    that streams and a full queue take the lock."""

    def __init__(self, *, max_rows: int, max_bytes: int, batch: int) -> None:
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._batch = batch
        self._lock = Lock()
        self._not_empty = Event()
        self._batch_ready = Event()
        self._is_awake = False
        """Whether the reader was told that there is a row."""
        self._has_batch = False
        """Whether it was told that there is a batch."""
        self._low: deque[TimedRow] = deque()
        self._high: deque[TimedRow] = deque()
        self._bytes = 0  # of stream payloads; other rows are small
        self._lost = TraceLoss()
        """Rows dropped since `take`."""

    def __len__(self) -> int:
        return len(self._low) + len(self._high)

    def put(self, entry: TimedRow) -> None:
        if type(entry[1]) is TraceStream:
            with self._lock:
                self._low.append(entry)
                self._bytes += len(entry[1].blob)
        else:
            self._high.append(entry)
        rows = len(self._low) + len(self._high)
        if rows > self._max_rows or self._bytes > self._max_bytes:
            with self._lock:
                self._make_room()
        # Waking a thread costs more than all of the above: it is done with the first row, and with
        # the one that completes a batch.
        if not self._is_awake:
            self._is_awake = True
            self._not_empty.set()
        if rows >= self._batch and not self._has_batch:
            self._has_batch = True
            self._batch_ready.set()

    def take(self) -> tuple[list[TimedRow], TraceLoss]:
        """Remove and return all rows, and the number of rows dropped since the last call."""
        self._not_empty.clear()
        self._batch_ready.clear()
        # Rows that come from here on wake the reader again; those that did not are taken below.
        self._is_awake = False
        self._has_batch = False
        with self._lock:
            entries = [self._high.popleft() for _ in range(len(self._high))]
            entries += self._low
            self._low.clear()
            self._bytes = 0
            lost, self._lost = self._lost, TraceLoss()
        return entries, lost

    def wait(self, idle_s: float, linger_s: float) -> None:
        """Wait up to `idle_s` for a first row, then up to `linger_s` for a full batch."""
        if self._not_empty.wait(idle_s):
            self._batch_ready.wait(linger_s)

    def wake(self) -> None:
        """End a pending `wait`."""
        self._batch_ready.set()
        self._not_empty.set()

    def _make_room(self) -> None:
        while self._low and (
            len(self._low) + len(self._high) > self._max_rows or self._bytes > self._max_bytes
        ):
            _, row = self._low.popleft()
            if isinstance(row, TraceStream):
                self._bytes -= len(row.blob)
            self._lost += TraceLoss(low=1)
        while len(self._high) > self._max_rows:
            self._high.popleft()
            self._lost += TraceLoss(high=1)
