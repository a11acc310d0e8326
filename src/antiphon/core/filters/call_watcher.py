"""Calls whose name is not complete yet: their deltas wait until it is known whose call it is.

A name may arrive whole, in pieces, cumulatively or again with every chunk. The state machine reads
names by the same rule (`merge_name`).
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TypeAlias

from antiphon.core.deltas import ToolCall, ToolEnd, ToolRevision
from antiphon.core.stream.call_block import merge_name

CallDelta: TypeAlias = ToolCall | ToolEnd | ToolRevision


class PartialCall:
    """The deltas of one call, and the name, id and arguments they give so far."""

    def __init__(self, tools: Container[str]) -> None:
        """`tools` are the provider names of the declared tools."""
        self.name = ""
        self.call_id: str | None = None
        self.deltas: list[CallDelta] = []
        self._tools = tools

    def add(self, delta: CallDelta) -> None:
        self.deltas.append(delta)
        if isinstance(delta, ToolCall):
            self.call_id = self.call_id or delta.call_id or None
            self.name = merge_name(self.name, delta.name or "", self._tools)

    @property
    def arguments(self) -> str:
        return "".join(delta.arguments for delta in self.deltas if isinstance(delta, ToolCall))


class CallWatcher:
    """Watches the calls of one round: some belong to a filter, the others pass it."""

    def __init__(self, tools: Container[str], is_decided: Callable[[PartialCall], bool]) -> None:
        """`tools` are the provider names of the declared tools. `is_decided` says whether a call
        has enough of its name to know whose it is."""
        self._tools = tools
        self._is_decided = is_decided
        self._waiting: dict[int, PartialCall] = {}
        self.passed: set[int] = set()
        """Indices of the calls that pass the filter."""

    def __contains__(self, index: int) -> bool:
        """Whether a call waits."""
        return index in self._waiting

    def add(self, delta: CallDelta) -> PartialCall | None:
        """Add a delta to its call. Return the call, which waits no longer, if it is decided now."""
        call = self._waiting.get(delta.index)
        if call is None:
            call = self._waiting[delta.index] = PartialCall(self._tools)
        call.add(delta)
        return self.take(delta.index) if self._is_decided(call) else None

    def take(self, index: int) -> PartialCall:
        """Return a call that waits: nothing more comes of its name."""
        return self._waiting.pop(index)

    def take_all(self) -> list[PartialCall]:
        """Return all calls that wait: the round is over."""
        return [self.take(index) for index in list(self._waiting)]
