"""What a Cohere model thinks before it answers, and the state it is reminded of next turn.

Reasoning models think in blocks of content; others write a plan before they call tools. Both are
shown as reasoning, and both are kept as they came: as the one or the other they go back.
"""

from __future__ import annotations

from antiphon.core.stream.deltas import Delta, Reasoning, ReasoningState

THINKING = "cohere.thinking"
TOOL_PLAN = "cohere.tool_plan"


class Thoughts:
    """One thought after the other; each is kept when it has ended."""

    def __init__(self) -> None:
        self._scheme = ""
        self._index = -1
        self._part = 0
        self._pieces: list[str] = []

    def grow(self, scheme: str, index: int, text: str) -> list[Delta]:
        """More of a thought. Another scheme or index is another thought."""
        if not text:
            return []
        ended = [] if (scheme, index) == (self._scheme, self._index) else self.end()
        self._scheme, self._index = scheme, index
        self._pieces.append(text)
        return [*ended, Reasoning(text, part=self._part)]

    def end(self) -> list[Delta]:
        """The state of the thought that was on the way, if there was one."""
        if not self._pieces:
            return []
        state = ReasoningState(self._scheme, "".join(self._pieces), "block")
        self._part += 1
        self._pieces.clear()
        return [state]
