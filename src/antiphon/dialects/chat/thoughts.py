"""Reasoning that Gemini's Chat endpoint puts into the content, in tags and with a mark.

Every chunk of a thought is marked; the closing tag comes with the answer, as in
`{"content": "<thought>Plan", "extra_content": {"google": {"thought": true}}}` and
`{"content": "</thought>Yes"}`.
"""

from __future__ import annotations

from typing import Any

_OPENING, _CLOSING = "<thought>", "</thought>"


class ThoughtSplitter:
    """Separates the thought of one response from its answer."""

    def __init__(self) -> None:
        self.is_open = False
        """The last content was a thought: the closing tag may follow."""

    def split(self, content: Any, extra: Any) -> tuple[str, Any]:
        """Return the thought in a content, and the rest of the content."""
        if not isinstance(content, str) or not content:
            return "", content
        is_inside = self.is_open
        self.is_open = _is_thought(extra)
        if self.is_open:
            thought, closed, answer = content.removeprefix(_OPENING).partition(_CLOSING)
            self.is_open = not closed
            return thought, answer
        return "", content.removeprefix(_CLOSING) if is_inside else content


def _is_thought(extra: Any) -> bool:
    match extra:
        case {"google": {"thought": True}}:
            return True
    return False
