"""Usage recorder: adds ended requests to the usage table, many at a time.

A request that ends is put into a queue (`Accounting.record`); the first one schedules a flush. A
flush adds up the queue and writes one row for each hour, client, model and provider. What cannot be
written is kept and written with the next flush.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter

from antiphon.core.response import ResponseUsage
from antiphon.dialects.validate import MAX_MODEL_NAME
from antiphon.engine.accounting import Accounting
from antiphon.engine.report import RunReport
from antiphon.errors import StoreError
from antiphon.observe.label_values import OTHER, LabelValues
from antiphon.stages.log import Entry
from antiphon.store.usage.histogram import find_bucket
from antiphon.store.usage.usage_table import (
    COUNTS,
    FIRST_BUCKET,
    HOUR_S,
    Counts,
    UsageKey,
    UsageTable,
    merge_counts,
)

FLUSH_AFTER_S = 1.0
CLOSE_S = 5.0
KEEP_HOURS = 400 * 24
"""Rows are kept for thirteen months."""
_MAX_PENDING = 10_000  # rows that wait for a store that cannot be written
_MAX_MODELS = 1000  # names of models in the rows of one process
_UNKNOWN_MODEL = "model_not_found"

_REQUESTS = COUNTS.index("requests")
_FAILURES = COUNTS.index("failures")
_INPUT = COUNTS.index("input_tokens")
_CACHED = COUNTS.index("cached_tokens")
_CACHE_WRITE = COUNTS.index("cache_write_tokens")
_OUTPUT = COUNTS.index("output_tokens")
_REASONING = COUNTS.index("reasoning_tokens")
_COST = COUNTS.index("cost")
_UNPRICED = COUNTS.index("unpriced")


class UsageRecorder:
    """Writes the ended requests of an engine to the usage table of its store."""

    def __init__(
        self,
        table: UsageTable,
        accounting: Accounting,
        emit: Callable[[Entry], None],
        *,
        close_s: float = CLOSE_S,
    ) -> None:
        self._table = table
        self.accounting = accounting
        self._emit = emit
        self._close_s = close_s
        self._pending: dict[UsageKey, Counts] = {}
        self._flushing: dict[asyncio.Task[None], None] = {}  # in the order in which they began
        self._lock = asyncio.Lock()
        self._cleaned_hour = 0
        self._models = LabelValues(_MAX_MODELS, MAX_MODEL_NAME)
        self._is_closed = False

    def start(self) -> None:
        """Count requests from now on."""
        self.accounting.observers.append(self._add)
        self.accounting.queue_observers.append(self._schedule_flush)

    async def close(self) -> None:
        """Write the queue, within a few seconds, and count nothing any more."""
        self._is_closed = True
        if self._schedule_flush in self.accounting.queue_observers:
            self.accounting.queue_observers.remove(self._schedule_flush)
        try:
            async with asyncio.timeout(self._close_s):
                await self.flush()
        except TimeoutError:
            reason = "the store took too long; the usage of the last requests is lost"
            self._emit(Entry("usage.not_written", "warning", {"reason": reason}))
        for flushing in self._flushing:
            flushing.cancel()

    def _schedule_flush(self) -> None:
        asyncio.get_running_loop().call_later(FLUSH_AFTER_S, self._begin_flush)

    def _begin_flush(self) -> None:
        if self._is_closed:
            return
        _ = self._start_flush()

    def _start_flush(self) -> asyncio.Task[None]:
        flushing = asyncio.get_running_loop().create_task(self._flush())
        self._flushing[flushing] = None
        flushing.add_done_callback(self._flushing.pop)
        return flushing

    async def flush(self) -> None:
        """Write all requests that have ended; a failure of the store is logged. They are also
        written if the caller is cancelled: whether a write was interrupted in time is not known."""
        await asyncio.shield(self._start_flush())

    async def _flush(self) -> None:
        async with self._lock:
            self.accounting.drain()
            if not self._pending:
                return
            rows, self._pending = self._pending, {}
            try:
                await self._table.add(rows)
            except StoreError as error:
                self._keep(rows)
                reason = f"{error.message}; usage is written when the store works again"
                self._emit(Entry("usage.not_written", "warning", {"reason": reason}))
            else:
                await self._delete_old_rows(max(key.hour for key in rows))

    def _add(self, ended: Sequence[RunReport]) -> None:
        """Add up requests that have ended, to be written with the next flush."""
        rows = count_requests(ended, self._model_name)
        merge_counts(self._pending, ((key, tuple(counts)) for key, counts in rows.items()))

    def _model_name(self, request: RunReport) -> str:
        """Return the model under which a request is counted. Clients choose names, and each would
        be rows for thirteen months: one that no provider has is not kept, and all of them are
        bounded in number."""
        if request.code == _UNKNOWN_MODEL and request.usage is None:
            return OTHER
        return self._models.bound(request.model)

    def _keep(self, rows: dict[UsageKey, Counts]) -> None:
        for key in list(rows)[: max(0, _MAX_PENDING - len(self._pending))]:
            merge_counts(self._pending, [(key, rows[key])])

    async def _delete_old_rows(self, hour: int) -> None:
        if hour == self._cleaned_hour:
            return
        try:
            await self._table.delete_before(hour - KEEP_HOURS)
            self._cleaned_hour = hour
        except StoreError as error:
            reason = f"{error.message}; old usage is deleted when the store works again"
            self._emit(Entry("usage.not_deleted", "warning", {"reason": reason}))


def count_requests(
    ended: Iterable[RunReport],
    model_name: Callable[[RunReport], str] = attrgetter("model"),
) -> dict[UsageKey, list[int]]:
    """Add up the counts of requests, one row for each hour, client, model and provider.
    `model_name` is the name under which a request is counted."""
    rows: defaultdict[UsageKey, list[int]] = defaultdict(lambda: [0] * len(COUNTS))
    for request in ended:
        hour = request.received_at_ms // (HOUR_S * 1000)
        model = model_name(request)
        counts = rows[UsageKey(hour, request.client, model, request.provider)]
        counts[_REQUESTS] += 1
        counts[_FAILURES] += request.is_failed
        if request.usage is not None:
            _add_tokens(counts, request.usage)
        counts[_COST] += request.cost or 0
        counts[_UNPRICED] += request.cost is None
        if request.first_event_ms is not None:
            counts[FIRST_BUCKET + find_bucket(request.first_event_ms)] += 1
    return rows


def _add_tokens(counts: list[int], usage: ResponseUsage) -> None:
    details = usage.input_tokens_details
    counts[_INPUT] += usage.input_tokens
    counts[_CACHED] += details.cached_tokens
    counts[_CACHE_WRITE] += details.cache_write_tokens
    counts[_OUTPUT] += usage.output_tokens
    counts[_REASONING] += usage.output_tokens_details.reasoning_tokens
