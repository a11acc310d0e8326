"""Filter for `parallel_tool_calls: false`: the client gets one call at most.

Some providers have no such parameter, and some models ignore it. The first call is kept; the model
makes the others again when it has seen the output of the first.
"""

from __future__ import annotations

from antiphon.core.diagnostic import Code
from antiphon.core.filters.filter import DeltaFilter
from antiphon.core.stream.deltas import Delta, ToolCall, ToolEnd, ToolRevision

_DROPPED = (
    "The model made several calls at once, which `parallel_tool_calls: false` forbids; only the"
    " first one is kept."
)


class SingleCallFilter(DeltaFilter):
    """Stands behind the filters that take calls out of the stream or put calls into it."""

    def __init__(self) -> None:
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
