"""Reasoning of Cohere models, and the state that the next request sends back.

Reasoning models send thinking blocks; other models write a tool plan before their calls. Both are
emitted as reasoning, and each is kept under its own scheme: it is sent back in the same form.
"""

from __future__ import annotations

from antiphon.core.deltas import Delta, Reasoning, ReasoningState

THINKING = "cohere.thinking"
TOOL_PLAN = "cohere.tool_plan"


class ReasoningBlocks:
    """Reasoning, one block after another; the state of a block follows when it has ended."""

    def __init__(self) -> None:
        self._scheme = ""
        self._index = -1
        self._part = 0
        self._pieces: list[str] = []

    def add(self, scheme: str, index: int, text: str) -> list[Delta]:
        """Add text to the open block. Another scheme or index starts another block."""
        if not text:
            return []
        ended = [] if (scheme, index) == (self._scheme, self._index) else self.end()
        self._scheme = scheme
        self._index = index
        self._pieces.append(text)
        return [*ended, Reasoning(text, part=self._part)]

    def end(self) -> list[Delta]:
        """End the open block, if there is one, and return its state."""
        if not self._pieces:
            return []
        state = ReasoningState(self._scheme, "".join(self._pieces), "block")
        self._part += 1
        self._pieces.clear()
        return [state]
