"""One call at a time: where a client allows no parallel calls, it never gets two.

Some providers cannot be told, and some models do not listen. The first call stands; the model makes
the others again when it has seen the first one's answer.
"""

from __future__ import annotations

from antiphon.core.diagnostic import Code
from antiphon.core.filters.filter import DeltaFilter
from antiphon.core.stream.deltas import Delta, ToolCall, ToolEnd, ToolRevision

_DROPPED = "The model made several calls at once: only the first one is told."


class SingleCallFilter(DeltaFilter):
    """Behind the desks that make calls of their own out of what a model says."""

    def __init__(self) -> None:
        super().__init__()
        self._first: int | None = None

    def feed(self, delta: Delta) -> list[Delta]:
        if not isinstance(delta, ToolCall | ToolEnd | ToolRevision):
            return [delta]
        if self._first is None:
            self._first = delta.index
        if delta.index == self._first:
            return [delta]
        if not self.diagnostics:
            self._note(Code.CALL_DROPPED, "parallel_tool_calls", _DROPPED)
        return []
