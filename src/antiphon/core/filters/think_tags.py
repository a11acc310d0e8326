"""Filter for reasoning that a server left in the text between tags: `<think>…</think>` and others,
such as `[THINK]…[/THINK]`.

1. Only the beginning of the text counts: white space, then a tag. Later tags are text, because a
   model may write about them. Blocks that follow one another, with white space or nothing between
   them, all count: some servers wrap every piece of the reasoning in tags of its own.
2. A block ends at its own closing tag, and if that never comes, at the end of the response.
3. If the prompt ends with the opening tag (`opened`), the text begins as reasoning and any closing
   tag ends it; unless the server sends reasoning separately, for then it has removed the block.
4. Nothing is dropped but the tags. White space before a block and line breaks after it belong to
   the reasoning, so that no message begins with, or consists of, the blank lines that a template
   puts around a tag. The first line of the text keeps its indentation.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from antiphon.core.deltas import Delta, Reasoning
from antiphon.core.filters.text_scan import Piece, PieceKind, TextScanFilter

_NAMES = ("think", "thinking", "reasoning")
_PREFIX = r"[A-Za-z][\w.-]{0,31}"  # a namespace, as in `<mm:think>`
_NAME = rf"(?:{_PREFIX}:)?(?:{'|'.join(_NAMES)})>"
_BRACKET_OPENER = "[THINK]"
_BRACKET_CLOSER = "[/THINK]"
_OPENER = re.compile(rf"<({_NAME})|{re.escape(_BRACKET_OPENER)}", re.ASCII)
_NAME_BEGUN = re.compile(rf"{_PREFIX}(?::(?P<name>[a-z]*))?", re.ASCII)
_SPACES = re.compile(r"\s+")


def _could_become(tag: str, text: str) -> bool:
    """Whether more text could still complete a tag that begins like this: `<mm:thi`."""
    if len(text) <= len(tag):
        return tag.startswith(text)
    begun = _NAME_BEGUN.fullmatch(text, len(tag)) if text.startswith(tag) else None
    return begun is not None and any(name.startswith(begun["name"] or "") for name in _NAMES)


# The pattern that ends a block, and whether text that ends here could still become a match.
_Closer: TypeAlias = tuple[re.Pattern[str], Callable[[str], bool]]
_ANY_CLOSER: _Closer = (re.compile(rf"</{_NAME}", re.ASCII), partial(_could_become, "</"))


def _make_closer(opener: re.Match[str]) -> _Closer:
    tag = _BRACKET_CLOSER if opener[1] is None else f"</{opener[1]}"
    return re.compile(re.escape(tag)), tag.startswith


class ThinkTagFilter(TextScanFilter):
    """Turns tagged reasoning at the beginning of the text into `Reasoning`."""

    def __init__(self, *, opened: bool = False) -> None:
        super().__init__()
        self._opened = opened
        self._closer: _Closer | None = None  # inside a block
        self._after_block = False
        self._answering = False  # the beginning of the text is over
        self._margin: list[str] = []  # white space between the blocks
        self._held = ""  # may become a tag

    def feed(self, delta: Delta) -> list[Delta]:
        deltas = super().feed(delta)
        if isinstance(delta, Reasoning):
            self._opened = False
        return deltas

    def _is_plain(self, text: str) -> bool:
        return self._answering

    def _scan(self, fragment: str) -> list[Piece]:
        text, self._held = self._held + fragment, ""
        pieces: list[Piece] = []
        position = 0
        while position < len(text):
            if self._answering:
                pieces.append((PieceKind.TEXT, text[position:]))
                break
            if self._closer is None:
                position = self._scan_between(text, position, pieces)
            else:
                position = self._scan_inside(self._closer, text, position, pieces)
        return pieces

    def _flush(self) -> list[Piece]:
        held, self._held = self._held, ""
        if self._closer is not None:
            return [(PieceKind.REASONING, held)]
        if held:
            pieces = self._begin_without_tag()
            kind = PieceKind.TEXT if self._answering else PieceKind.REASONING
            return [*pieces, (kind, held)]
        is_reasoning = self._after_block or self._opened
        return [(PieceKind.REASONING if is_reasoning else PieceKind.TEXT, self._take_margin())]

    def _scan_between(self, text: str, position: int, pieces: list[Piece]) -> int:
        """Read before the first block or after one, where a tag may stand."""
        if spaces := _SPACES.match(text, position):
            self._margin.append(spaces[0])
            return spaces.end()
        if opener := _OPENER.match(text, position):
            pieces += [(PieceKind.REASONING, self._take_margin()), (PieceKind.MARKUP, opener[0])]
            self._closer = _make_closer(opener)
            return opener.end()
        rest = text[position:]
        if _could_become("<", rest) or _BRACKET_OPENER.startswith(rest):
            self._held = rest
            return len(text)
        pieces += self._begin_without_tag()
        return position

    def _begin_without_tag(self) -> list[Piece]:
        """Begin the text, or the reasoning whose opening tag is in the prompt."""
        margin = self._take_margin()
        if self._opened:
            self._closer = _ANY_CLOSER
            return [(PieceKind.REASONING, margin)]
        self._answering = True
        first_line = margin.rfind("\n") + 1 if self._after_block else 0
        return [(PieceKind.REASONING, margin[:first_line]), (PieceKind.TEXT, margin[first_line:])]

    def _scan_inside(self, closer: _Closer, text: str, position: int, pieces: list[Piece]) -> int:
        pattern, could_become = closer
        if found := pattern.search(text, position):
            reasoning = text[position : found.start()]
            pieces += [(PieceKind.REASONING, reasoning), (PieceKind.MARKUP, found[0])]
            self._closer = None
            self._opened = False
            self._after_block = True
            return found.end()
        last = max(text.rfind("<", position), text.rfind("[", position))
        if last < 0 or not could_become(text[last:]):
            last = len(text)
        pieces.append((PieceKind.REASONING, text[position:last]))
        self._held = text[last:]
        return len(text)

    def _take_margin(self) -> str:
        margin = "".join(self._margin)
        self._margin.clear()
        return margin
