"""A call as far as it was heard, for a desk that does not know yet whose call it is.

A name may come whole, in pieces, or again with every piece: the tools that were declared tell
which. The machine reads names by the same rule.
"""

from __future__ import annotations

from collections.abc import Container

from antiphon.core.stream.deltas import ToolCall, ToolEnd, ToolRevision


class PartialCall:
    def __init__(self, tools: Container[str]) -> None:
        """`tools` are the names that the provider knows."""
        self.name = ""
        self.call_id: str | None = None
        self.deltas: list[ToolCall | ToolEnd | ToolRevision] = []
        self._tools = tools

    def add(self, delta: ToolCall | ToolEnd | ToolRevision) -> None:
        self.deltas.append(delta)
        if isinstance(delta, ToolCall):
            self.call_id = self.call_id or delta.call_id or None
            self.name = learned(self.name, delta.name or "", self._tools)

    @property
    def arguments(self) -> str:
        return "".join(delta.arguments for delta in self.deltas if isinstance(delta, ToolCall))


def learned(known: str, name: str, tools: Container[str]) -> str:
    """The name of a call as far as it was known, and with what is said next."""
    joined = known + name
    if known in tools and name == known:
        return known
    if joined in tools:
        return joined
    if name.startswith(known) and (name in tools or known not in tools):
        return name
    return known if known in tools else joined
