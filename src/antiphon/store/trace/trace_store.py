"""Request trace: a log of every request in its own SQLite file.

Recording never blocks and never raises. One thread writes queued rows in batches and deletes rows
beyond the retention limits; on a failure it counts the lost rows and continues. A damaged file is
renamed, and a new one is created: a trace must not keep the gateway from running.
"""

from __future__ import annotations

import logging
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from antiphon.errors import StoreDamaged, StoreError
from antiphon.store.redact import Redactor
from antiphon.store.sqlite.file import (
    WatchedConnection,
    connect,
    create_directory,
    is_damage,
    is_damaged,
    set_aside,
    transaction,
)
from antiphon.store.trace.rows import (
    TraceLoss,
    TraceRow,
    TraceStream,
    collect_texts,
    replace_texts,
)
from antiphon.store.trace.table import SCHEMA, EncodedRow, delete_excess_rows, insert_rows

RETAIN_EVERY_MS = 60_000
BATCH = 500
LINGER_S = 0.5  # how long rows may wait for a full batch
IDLE_S = 60.0
WINDOW_READ_MS = 1000  # how often the window of another process is looked for

_log = logging.getLogger("antiphon.trace")
_encode_json = msgspec.json.Encoder().encode


class TraceOptions(Struct, frozen=True, kw_only=True):
    """Which facts are recorded, and retention limits. None is no limit."""

    payloads: bool = False
    """Whether the bytes of streams are stored; if not, only their size."""
    payload_max_bytes: int = 1024 * 1024
    max_age_s: int | None = 7 * 24 * 3600
    max_bytes: int | None = 512 * 1024 * 1024
    queue_rows: int = 10_000
    queue_bytes: int = 64 * 1024 * 1024


class PayloadWindow:
    """A time during which payloads are kept although the configuration does not say so. It is a
    file beside the trace, so that all processes of a gateway see it."""

    def __init__(self, path: Path, epoch_s: Callable[[], float]) -> None:
        self._path = path
        self._epoch_s = epoch_s
        self._until_ms = 0
        self._read_at_ms: int | None = None
        self.was_open = False
        """Whether this process has seen it open."""

    @property
    def until_ms(self) -> int:
        """The end of the window in milliseconds since the epoch; 0: it is closed."""
        now_ms = int(self._epoch_s() * 1000)
        if self._read_at_ms is None or now_ms - self._read_at_ms >= WINDOW_READ_MS:
            self._read_at_ms = now_ms
            self._until_ms = self._read()
        is_open = self._until_ms > now_ms
        self.was_open = self.was_open or is_open
        return self._until_ms if is_open else 0

    def set(self, until_ms: int) -> None:
        """Open the window until a time, or close it with 0. Raises `OSError`."""
        self._path.write_text(str(until_ms))
        self._until_ms = until_ms
        self._read_at_ms = int(self._epoch_s() * 1000)

    def _read(self) -> int:
        try:
            text = self._path.read_text()
        except (OSError, UnicodeDecodeError):
            return 0
        return int(text) if text.isascii() and text.isdigit() else 0


TimedRow: TypeAlias = tuple[float, TraceRow]
"""A row and when it was recorded, in seconds since the epoch."""


class TraceQueue:
    """Bounded queue between requests and the thread that writes: filled from any thread, drained by
    one, which takes all rows at once. Adding a row never blocks.

    When it is full, the oldest streams (low priority) are dropped first, then the oldest other rows
    (high priority): requests, usage and errors are worth more than a copy of the bytes.

    A row is added without a lock: `deque.append` is atomic. Counting and dropping rows is not, so
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


class TraceStore:
    """Opened once; rows are recorded from any thread. `epoch_s` may be called from any thread."""

    def __init__(
        self,
        path: Path,
        *,
        epoch_s: Callable[[], float],
        redactor: Redactor,
        options: TraceOptions | None = None,
    ) -> None:
        self.options = options or TraceOptions()
        self.lost = TraceLoss()
        """Rows dropped or not written so far."""
        self._path = path
        self._epoch_s = epoch_s
        self._redactor = redactor
        self._queue = TraceQueue(
            max_rows=self.options.queue_rows, max_bytes=self.options.queue_bytes, batch=BATCH
        )
        self.window = PayloadWindow(path.with_name(f"{path.name}-payloads"), epoch_s)
        self._closing = Event()
        self._thread: Thread | None = None
        self._file = WatchedConnection(path, self._connect)  # used by the thread only
        self._unreported_loss = TraceLoss()  # losses not yet recorded in a row
        self._retained_at_ms: int | None = None

    @property
    def path(self) -> Path:
        return self._path

    def open(self) -> None:
        """Start writing queued rows; raises `StoreError` if the file cannot be used."""
        create_directory(self._path)
        self._connect().close()
        self._thread = Thread(target=self._main, name="antiphon-trace", daemon=True)
        self._thread.start()

    @property
    def keeps_payloads(self) -> bool:
        """Whether the payloads of a request that begins now are kept."""
        return self.options.payloads or self.window.until_ms > 0

    def record(self, *rows: TraceRow) -> None:
        """Queue rows. Fast, whatever the state of the disk. A request that began within the window
        of payloads may end after it."""
        at_s = self._epoch_s()
        for row in rows:
            if type(row) is TraceStream:
                kept = self.options.payloads or self.window.was_open
                row = add_counts(row) if kept else drop_payload(row)
            self._queue.put((at_s, row))

    @property
    def queued_rows(self) -> int:
        """Rows that wait to be written."""
        return len(self._queue)

    def close(self, timeout_s: float = 5.0) -> None:
        """Write queued rows, for at most `timeout_s`. Blocks: do not call on the event loop."""
        self._closing.set()
        self._queue.wake()
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
            busy = self._delete_old_rows()
            if closing:
                break
        self._file.close()

    def _write(self, records: Sequence[EncodedRow]) -> None:
        try:
            self._insert(records)
        except sqlite3.DatabaseError as error:
            if not (is_damage(error) and self._set_aside(error)):
                raise
            self._insert(records)

    def _insert(self, records: Sequence[EncodedRow]) -> None:
        connection = self._file.get()
        with transaction(connection):
            insert_rows(connection, records)

    def _flush(self) -> None:
        """Write all queued rows in one transaction."""
        entries, dropped = self._queue.take()
        self._count_loss(dropped, "the queue was full")
        if not (entries or self._unreported_loss.total):
            return
        failed_before = self.lost.failed
        try:
            self._write(self._encode_rows(entries))
        except Exception as error:  # any error: count the loss, the next flush may succeed
            self._file.close()
            already_counted = self.lost.failed - failed_before
            self._count_loss(TraceLoss(failed=len(entries) - already_counted), str(error))
        else:
            self._unreported_loss = TraceLoss()

    def _encode_rows(self, entries: list[TimedRow]) -> list[EncodedRow]:
        """Encode and redact rows for storage, and add one for rows lost."""
        records: list[EncodedRow] = []
        reason = ""
        for at_s, row in entries:
            try:
                records.append(self._encode_row(at_s, row))
            except (TypeError, ValueError) as error:  # not encodable as JSON
                reason = str(error)
        self._count_loss(TraceLoss(failed=len(entries) - len(records)), reason)
        if self._unreported_loss.total:
            records.append(self._encode_row(self._epoch_s(), self._unreported_loss))
        return [*map(self._redact_row, records)] if self._has_secret(records) else records

    def _has_secret(self, records: list[EncodedRow]) -> bool:
        """Whether there is something to redact. Most batches have no secret, and looking for one in
        all texts at once costs a tenth of redacting each."""
        texts = "\n".join(collect_texts(record.row for record in records))
        return self._redactor.redact_text(texts) != texts

    def _encode_row(self, at_s: float, row: TraceRow) -> EncodedRow:
        at_ms = int(at_s * 1000)
        if not (type(row) is TraceStream and row.blob):
            return EncodedRow(at_ms, row, _encode_json(row))
        row = redact_and_truncate(row, self._redactor, self.options.payload_max_bytes)
        return EncodedRow(at_ms, row, _encode_json(replace(row, blob=b"")), row.blob)

    def _redact_row(self, record: EncodedRow) -> EncodedRow:
        row = replace_texts(record.row, self._redactor.redact_text)
        stored = replace(row, blob=b"") if isinstance(row, TraceStream) else row
        return EncodedRow(record.at_ms, row, _encode_json(stored), record.blob)

    def _count_loss(self, loss: TraceLoss, why: str) -> None:
        if loss.total:
            self.lost += loss
            self._unreported_loss += loss
            counts = "%s: trace rows lost: %d streams and %d other rows dropped, %d not written: %s"
            _log.warning(counts, self._path, loss.low, loss.high, loss.failed, why)

    def _delete_old_rows(self) -> bool:
        """Delete some rows beyond the retention limits; True if there may be more."""
        now_ms = int(self._epoch_s() * 1000)
        if self._retained_at_ms is not None and now_ms - self._retained_at_ms < RETAIN_EVERY_MS:
            return False
        try:
            limits = self.options.max_age_s, self.options.max_bytes
            if delete_excess_rows(self._file.get(), now_ms, *limits):
                return True
        except (sqlite3.Error, StoreError) as error:
            self._file.close()
            if is_damage(error) and self._set_aside(error):
                return False
            _log.warning(
                "%s: old trace rows could not be deleted, will be retried: %s", self._path, error
            )
        self._retained_at_ms = now_ms
        return False

    def _connect(self) -> sqlite3.Connection:
        try:
            return connect(self._path, SCHEMA, synchronous="NORMAL")
        except StoreDamaged as error:
            if not self._set_aside(error.__cause__ or error):
                raise
            return connect(self._path, SCHEMA, synchronous="NORMAL")

    def _set_aside(self, error: BaseException) -> bool:
        """Rename the file if it is damaged; False if it could only not be read."""
        self._file.close()
        if not is_damaged(self._path):
            return False
        aside = set_aside(self._path, f"damaged-{int(self._epoch_s() * 1000)}")
        _log.warning(
            "%s: the trace file is damaged (%s). It was renamed to %s; a new trace begins.",
            self._path,
            error,
            aside.name,
        )
        return True


# --- payloads: counted, redacted and truncated at the end of a frame ------------------------------

_MARGIN = 16 * 1024  # longer than any secret: one that is cut in two cannot be recognised
_FRAME_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")


def add_counts(stream: TraceStream) -> TraceStream:
    """Return the stream with `size` and `chunks` set from its payload."""
    return replace(stream, size=len(stream.blob), chunks=len(stream.offsets))


def drop_payload(stream: TraceStream) -> TraceStream:
    """Return the stream with its counts but without its payload."""
    return replace(add_counts(stream), blob=b"", offsets=())


def redact_and_truncate(stream: TraceStream, redactor: Redactor, max_bytes: int) -> TraceStream:
    """Return the stream without secrets and with at most `max_bytes` of payload."""
    head = stream.blob[: max_bytes + 2 * _MARGIN]  # the rest is dropped unread
    blob, offsets = redactor.redact_blob(head, stream.offsets)
    if len(head) < len(stream.blob):
        max_bytes = max(0, min(max_bytes, len(blob) - _MARGIN))
    stored = truncate_blob(blob, max_bytes)
    return replace(
        stream,
        blob=stored,
        offsets=[(offset, at_ms) for offset, at_ms in offsets if offset < len(stored)],
        truncated=len(stored) < len(blob),
    )


def truncate_blob(blob: bytes, max_bytes: int) -> bytes:
    """Truncate to the last whole SSE frame or, if there is none, to a whole UTF-8 character."""
    if len(blob) <= max_bytes:
        return blob
    head = blob[:max_bytes]
    frame = max(head.rfind(end) + len(end) if end in head else 0 for end in _FRAME_ENDS)
    if frame:
        return head[:frame]
    end = max_bytes
    while end and max_bytes - end < 3 and blob[end] & 0xC0 == 0x80:  # inside a UTF-8 sequence
        end -= 1
    return blob[:end]
