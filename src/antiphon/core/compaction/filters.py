"""Filters for compactions: a response that is a summary, and a context that was compacted before.

A turn that compacts gives exactly one item: a compaction, and nothing beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from antiphon.core.compaction.request_summary import SummaryTask
from antiphon.core.compaction.summary import read_summary
from antiphon.core.deltas import (
    Delta,
    EmptyReasoning,
    Failure,
    Finish,
    RawItem,
    RawItemEvent,
    RawItemStarted,
    Reasoning,
    ReasoningState,
    Refusal,
    SearchStarted,
    Text,
    ToolCall,
)
from antiphon.core.faults.fault import protocol_fault
from antiphon.core.filters.filter import DeltaFilter, FinishReason, RoundEnd
from antiphon.core.stream.compaction_item import COMPACTION, STATE

_NO_SUMMARY = "The model wrote no summary of the conversation."
_NUMBER = -1  # providers number their items from 0
_COMPACTING = "response.compaction.compacting"


class SummaryFilter(DeltaFilter):
    """Turns the response to the request for a summary into a compaction item.

    The filter before it has checked the format and, if necessary, has asked once more."""

    def __init__(self, task: SummaryTask) -> None:
        self._task = task
        self._texts: list[str] = []
        self._finish = FinishReason()

    def feed(self, delta: Delta) -> list[Delta]:
        if isinstance(delta, Text):
            self._texts.append(delta.text)
        elif isinstance(delta, Finish):
            self._finish.feed(delta)
            return [delta]
        return [delta] if isinstance(delta, Failure) else []

    def close(self, *, final: bool) -> RoundEnd:
        if not final or not self._finish.is_complete:  # what was cut off is no summary
            return RoundEnd()
        summary = read_summary("".join(self._texts), self._task.open_calls)
        if summary.is_empty:
            return RoundEnd([Failure(protocol_fault(_NO_SUMMARY))])
        return RoundEnd([RawItem({"type": COMPACTION, STATE: summary.to_state()})])


class CompactedContextFilter(DeltaFilter):
    """Puts the compaction that was made for this response before its first output."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        item = {"type": COMPACTION, "encrypted_content": ""}
        self._waiting: Sequence[Delta] = (
            RawItemStarted(_NUMBER, item),
            RawItemEvent(_NUMBER, _COMPACTING, {"item_id": ""}),
            RawItem({**item, STATE: state}, _NUMBER),
        )

    def feed(self, delta: Delta) -> list[Delta]:
        if not self._waiting or not _is_output(delta):
            return [delta]
        before, self._waiting = self._waiting, ()
        return [*before, delta]

    def passes(self, delta: Delta) -> bool:
        return not self._waiting


def _is_output(delta: Delta) -> bool:
    """Whether a delta is output. Until there is some, another provider may be tried."""
    if isinstance(delta, Text | Reasoning | Refusal):
        return bool(delta.text)
    return isinstance(delta, _OUTPUT)


_OUTPUT = (ReasoningState, ToolCall, RawItem, RawItemStarted, EmptyReasoning, SearchStarted)
