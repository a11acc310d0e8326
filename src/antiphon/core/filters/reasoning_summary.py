"""Filter that shows raw reasoning as a summary.

Many clients show reasoning summaries only, and most models give raw reasoning only. A client that
requests a summary gets raw reasoning as one. The sealed state still says what it was, so that the
provider gets its own reasoning back in the next turn.
"""

from __future__ import annotations

from msgspec import structs

from antiphon.core.filters.filter import DeltaFilter
from antiphon.core.stream.deltas import Delta, Reasoning


class ReasoningSummaryFilter(DeltaFilter):
    """For requests with `reasoning.summary`."""

    def feed(self, delta: Delta) -> list[Delta]:
        if isinstance(delta, Reasoning) and delta.kind == "raw":
            return [structs.replace(delta, kind="raw_as_summary")]
        return [delta]
