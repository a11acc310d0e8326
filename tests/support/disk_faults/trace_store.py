"""A scenario for the trace store under faults, and what must be true of it afterwards."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

from antiphon.errors import StoreError
from antiphon.store.redact import Redactor
from antiphon.store.trace.reader import list_requests, read_detail
from antiphon.store.trace.rows import TraceRow
from antiphon.store.trace.trace_store import RETAIN_EVERY_MS, TraceOptions, TraceStore
from tests.support.traces import NOW_MS, finish, request, stream

_PAYLOAD = bytes(range(256)) * 200


class TraceScenario:
    """Records rows in several sessions; remembers how many may be missing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._now_ms = NOW_MS
        self._recorded: Counter[str] = Counter()
        self._lost = 0

    def prepare(self) -> None:
        """Create the file with some rows, without faults."""
        self._record("old", request("old"), stream("old", _PAYLOAD), finish("old"))

    def run(self) -> None:
        """Record and read. Recording never raises; opening and reading raise `StoreError`."""
        for number in range(3):
            id = f"q{number}"
            with suppress(StoreError):
                self._record(id, request(id), stream(id, _PAYLOAD), finish(id))
            with suppress(StoreError):
                self._read(id)
            self._now_ms += RETAIN_EVERY_MS + 1

    def check(self) -> None:
        """Open the trace again, without faults: what was not counted as lost is there."""
        lost = self._lost
        self._record("after", request("after"), finish("after"))
        assert self._lost == lost
        present = self._count_rows()
        assert present["after"] == 2
        assert not present - self._recorded, f"rows that were not recorded: {present}"
        missing = self._recorded - present
        assert missing.total() <= lost, f"{missing} are missing, {lost} counted as lost"
        assert not [*self.path.parent.glob("*damaged*")], "a sound file was set aside"

    def _record(self, id: str, *rows: TraceRow) -> None:
        options = TraceOptions(payloads=True)
        trace = TraceStore(self.path, epoch_s=self._clock, redactor=Redactor(), options=options)
        try:
            trace.open()
        except StoreError:
            trace.close()
            raise
        for row in rows:
            trace.record(row)
        trace.close(timeout_s=60)
        self._recorded[id] += len(rows)
        self._lost += trace.lost.total

    def _clock(self) -> float:
        return self._now_ms / 1000

    def _read(self, id: str) -> None:
        for summary in list_requests(self.path):
            assert summary.request.request_id in self._recorded
        detail = read_detail(self.path, id)
        if detail is not None:
            assert [each.blob for each in detail.streams] in ([], [_PAYLOAD])

    def _count_rows(self) -> Counter[str]:
        with closing(sqlite3.connect(self.path)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            rows = "SELECT request_id, count(*) FROM fact WHERE kind != 'loss' GROUP BY 1"
            return Counter(dict(connection.execute(rows).fetchall()))
