"""Thought that a client will see: many read summaries only, and most models give raw thought.

A client that asks for a summary is told raw thought as one. It is sealed as what it was, so the
provider gets its own words back.
"""

from __future__ import annotations

from msgspec import structs

from antiphon.core.filters.filter import DeltaFilter
from antiphon.core.stream.deltas import Delta, Reasoning


class ReasoningSummaryFilter(DeltaFilter):
    def feed(self, delta: Delta) -> list[Delta]:
        if isinstance(delta, Reasoning) and delta.kind == "raw":
            return [structs.replace(delta, kind="raw_as_summary")]
        return [delta]
