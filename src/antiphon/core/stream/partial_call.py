"""Partial tool calls: the deltas of one call, collected until it is known whose call it is.

A name may arrive whole, in pieces, cumulatively or again with every chunk; `merge_name` tells these
apart by the declared tools. The state machine reads names by the same rule.
"""

from __future__ import annotations

from collections.abc import Container

from antiphon.core.stream.deltas import ToolCall, ToolEnd, ToolRevision


class PartialCall:
    """The deltas of one call, and the name, id and arguments they give so far."""

    def __init__(self, tools: Container[str]) -> None:
        """`tools` are the provider names of the declared tools."""
        self.name = ""
        self.call_id: str | None = None
        self.deltas: list[ToolCall | ToolEnd | ToolRevision] = []
        self._tools = tools

    def add(self, delta: ToolCall | ToolEnd | ToolRevision) -> None:
        self.deltas.append(delta)
        if isinstance(delta, ToolCall):
            self.call_id = self.call_id or delta.call_id or None
            self.name = merge_name(self.name, delta.name or "", self._tools)

    @property
    def arguments(self) -> str:
        return "".join(delta.arguments for delta in self.deltas if isinstance(delta, ToolCall))


def merge_name(known: str, name: str, tools: Container[str]) -> str:
    """Merge the name in the next chunk of a call into the name known so far.

    The samples are successive values of `tool_calls[0].function.name`.
    """
    known_is_declared = known in tools
    joined = known + name
    if known_is_declared and name == known:
        # Repeated with every chunk: "get_weather", "get_weather". This case comes first, because
        # "get_weatherget_weather" may be a declared tool as well.
        return known
    if joined in tools:
        # In pieces: "get_", "weather". Also the first chunk, and a chunk without a name.
        return joined
    if name.startswith(known) and (name in tools or not known_is_declared):
        # Cumulative: "get", "get_weather". Also the first chunk of a tool nobody declared.
        return name
    # A declared name is final, whatever follows it: "get_weather", "x". Pieces of a name that
    # nobody declared are joined: "look_", "up".
    return known if known_is_declared else joined
