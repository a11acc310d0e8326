"""The trace: what happened to every request, in a SQLite file of its own.

Recording never waits and never raises. One thread writes what has gathered, drops what is too old
or too much, and when it cannot, counts what was lost and goes on.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from antiphon.errors import StoreError
from antiphon.store.redact import Redactor
from antiphon.store.sqlite_file import connect, transaction
from antiphon.store.trace.payload import counted, emptied, kept
from antiphon.store.trace.queue import Entry, TraceQueue
from antiphon.store.trace.rows import TraceLoss, TraceRow, TraceStream, decode_row
from antiphon.store.trace.table import SCHEMA, Record, insert, retain

RETAIN_EVERY_MS = 60_000
BATCH = 500
LINGER_S = 0.5  # how long rows may gather before they are written
IDLE_S = 60.0

_log = logging.getLogger("antiphon.trace")


class TraceOptions(Struct, frozen=True, kw_only=True):
    """What is kept, and for how long. None is no limit."""

    payloads: bool = False
    """Whether the bytes of streams are stored; without it only how many there were."""
    payload_max_bytes: int = 1024 * 1024
    max_age_s: int | None = 7 * 24 * 3600
    max_bytes: int | None = 512 * 1024 * 1024
    queue_rows: int = 10_000
    queue_bytes: int = 64 * 1024 * 1024


class TraceStore:
    """Opened once, recorded to from anywhere. `now_ms` may be called from any thread."""

    def __init__(
        self,
        path: Path,
        *,
        now_ms: Callable[[], int],
        redactor: Redactor,
        options: TraceOptions | None = None,
    ) -> None:
        self.options = options or TraceOptions()
        self.lost = TraceLoss()
        """All that was dropped or could not be written, so far."""
        self._path = path
        self._now_ms = now_ms
        self._redactor = redactor
        self._queue = TraceQueue(
            max_rows=self.options.queue_rows, max_bytes=self.options.queue_bytes, batch=BATCH
        )
        self._closing = Event()
        self._thread: Thread | None = None
        self._connection: sqlite3.Connection | None = None  # the thread's own
        self._untold = TraceLoss()  # losses that no row tells of yet
        self._retained_at_ms: int | None = None

    def open(self) -> None:
        """Start writing; a file that cannot be used is a `StoreError`. What waits is kept."""
        self._connect().close()
        self._thread = Thread(target=self._main, name="antiphon-trace", daemon=True)
        self._thread.start()

    def record(self, row: TraceRow) -> None:
        """Take note. It costs a moment, whatever the disk is doing."""
        if isinstance(row, TraceStream):
            row = counted(row) if self.options.payloads else emptied(row)
        self._queue.put((self._now_ms(), row))

    def close(self, timeout_s: float = 5.0) -> None:
        """Write what is left, for so long at most. Blocks: not for the event loop."""
        self._closing.set()
        self._queue.hurry()
        if self._thread is not None:
            self._thread.join(timeout_s)

    # --- in the thread ----------------------------------------------------------------------------

    def _main(self) -> None:
        busy = True
        while True:
            closing = self._closing.is_set()
            if not (busy or closing):
                self._queue.wait(IDLE_S, LINGER_S)
            self._flush()
            busy = self._keep_house()
            if closing:
                break
        self._disconnect()

    def _flush(self) -> None:
        """Write everything that has gathered, in one transaction."""
        entries, dropped = self._queue.take()
        self._lose(dropped, "the queue was full")
        if not (entries or self._untold.total):
            return
        counted_before = self.lost.failed
        try:
            records = self._records(entries)
            connection = self._connection = self._connection or self._connect()
            with transaction(connection):
                insert(connection, records)
        except Exception as error:  # whatever it is, the next flush may fare better
            self._disconnect()
            told = self.lost.failed - counted_before
            self._lose(TraceLoss(failed=len(entries) - told), str(error))
        else:
            self._untold = TraceLoss()

    def _records(self, entries: list[Entry]) -> list[Record]:
        """Rows as they are stored: encoded and without secrets, with one for what was lost."""
        records: list[Record] = []
        reason = ""
        for at_ms, row in entries:
            try:
                records.append(self._record(at_ms, row))
            except (TypeError, ValueError) as error:  # not even text
                reason = str(error)
        self._lose(TraceLoss(failed=len(entries) - len(records)), reason)
        if self._untold.total:
            records.append(self._record(self._now_ms(), self._untold))
        # Together: looking once at many rows costs a third of looking at each.
        bodies = self._redactor.data(b"\n".join(record.body for record in records)).split(b"\n")
        if len(bodies) != len(records):  # a secret with a line end in it
            bodies = [self._redactor.data(record.body) for record in records]
        return [
            record
            if body == record.body
            else Record(record.at_ms, decode_row(body), body, record.blob)
            for record, body in zip(records, bodies, strict=True)
        ]

    def _record(self, at_ms: int, row: TraceRow) -> Record:
        if not (isinstance(row, TraceStream) and row.blob):
            return Record(at_ms, row, msgspec.json.encode(row))
        row = kept(row, self._redactor, self.options.payload_max_bytes)
        return Record(at_ms, row, msgspec.json.encode(replace(row, blob=b"")), row.blob)

    def _lose(self, loss: TraceLoss, why: str) -> None:
        if loss.total:
            self.lost += loss
            self._untold += loss
            counts = "%s: %d streams and %d other rows dropped, %d not written: %s"
            _log.warning(counts, self._path, loss.low, loss.high, loss.failed, why)

    def _keep_house(self) -> bool:
        """Drop some of what is too old or too much; True when there may be more."""
        now_ms = self._now_ms()
        if self._retained_at_ms is not None and now_ms - self._retained_at_ms < RETAIN_EVERY_MS:
            return False
        try:
            connection = self._connection = self._connection or self._connect()
            if retain(connection, now_ms, self.options.max_age_s, self.options.max_bytes):
                return True
        except (sqlite3.Error, StoreError) as error:
            self._disconnect()
            _log.warning("%s: old rows stay for now: %s", self._path, error)
        self._retained_at_ms = now_ms
        return False

    def _connect(self) -> sqlite3.Connection:
        return connect(self._path, SCHEMA, synchronous="NORMAL")

    def _disconnect(self) -> None:
        """After a failure a fresh connection has the better chances."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
