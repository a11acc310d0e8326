"""Diagnostics stage: logs once what was degraded, ignored or rejected."""

from __future__ import annotations

from collections.abc import Callable

from antiphon.stages.log import Entry
from antiphon.stages.stage import Batch, Stage


class DiagnosticsStage(Stage):
    def __init__(self, emit: Callable[[Entry], None]) -> None:
        self._emit = emit
        self._reported = 0

    def on_terminal(self, batch: Batch) -> Batch:
        self.close(batch)
        return batch

    def close(self, batch: Batch) -> None:
        """Report, also where no terminal event came because the client disconnected."""
        if len(batch.diagnostics) > self._reported:
            self._reported = len(batch.diagnostics)
            found = [f"{each.code}:{each.param}" for each in batch.diagnostics]
            self._emit(Entry("response.diagnostics", "info", {**batch.facts, "diagnostics": found}))
