"""Thought that a server left in the text, between tags: `<think>…</think>` and its kin.

1. Only the beginning of the text counts: white space, then a tag. Later tags are text, for a model
   may well write about them. Blocks that follow one another, with white space or nothing between
   them, all count: some servers wrap every piece of the thought in tags of its own.
2. A block ends at its own closing tag, and if that never comes, at the end of the answer.
3. Where the prompt has opened the block (`opened`), the text begins as thought and any tag of the
   family closes it; unless the server sends thought apart, for then it has taken the block out.
4. Nothing is dropped but the tags. White space before a block and line breaks after it belong to
   the thought, so that no message begins, or consists of, the blank lines that a template puts
   around a tag. What stands on the first line of the answer, indented or not, is the answer's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from antiphon.core.filters.text_scan import Fate, Piece, TextScanFilter
from antiphon.core.stream.deltas import Delta, Reasoning

_NAMES = ("think", "thinking", "reasoning")
_PREFIX = r"[A-Za-z][\w.-]{0,31}"  # of a namespace, as in `<mm:think>`
_NAME = rf"(?:{_PREFIX}:)?(?:{'|'.join(_NAMES)})>"
_OPENER = re.compile(rf"<({_NAME})", re.ASCII)
_NAME_BEGUN = re.compile(rf"{_PREFIX}(?::(?P<name>[a-z]*))?", re.ASCII)
_SPACES = re.compile(r"\s+")


def _could_become(tag: str, text: str) -> bool:
    """The text, cut off where it is, could still become a tag that begins like this."""
    if len(text) <= len(tag):
        return tag.startswith(text)
    begun = _NAME_BEGUN.fullmatch(text, len(tag)) if text.startswith(tag) else None
    return begun is not None and any(name.startswith(begun["name"] or "") for name in _NAMES)


# What ends a block, and whether a text that is cut off could still become that.
_Closer: TypeAlias = tuple[re.Pattern[str], Callable[[str], bool]]
_ANY: _Closer = (re.compile(rf"</{_NAME}", re.ASCII), partial(_could_become, "</"))


def _closer_of(name: str) -> _Closer:
    tag = f"</{name}"
    return re.compile(re.escape(tag)), tag.startswith


class ThinkTagFilter(TextScanFilter):
    """Turns the tagged thought at the beginning of the text into reasoning."""

    def __init__(self, *, opened: bool = False) -> None:
        super().__init__()
        self._opened = opened
        self._closer: _Closer | None = None  # inside of a block
        self._after_block = False
        self._answering = False  # the beginning is over
        self._margin: list[str] = []  # white space between the blocks
        self._held = ""  # perhaps a tag

    def feed(self, delta: Delta) -> list[Delta]:
        deltas = super().feed(delta)
        if isinstance(delta, Reasoning):
            self._opened = False
        return deltas

    def _harmless(self, text: str) -> bool:
        return self._answering

    def _read(self, fragment: str) -> list[Piece]:
        text, self._held = self._held + fragment, ""
        pieces: list[Piece] = []
        position = 0
        while position < len(text):
            if self._answering:
                pieces.append((Fate.TEXT, text[position:]))
                break
            if self._closer is None:
                position = self._read_between(text, position, pieces)
            else:
                position = self._read_inside(self._closer, text, position, pieces)
        return pieces

    def _flush(self) -> list[Piece]:
        held, self._held = self._held, ""
        if self._closer is not None:
            return [(Fate.THOUGHT, held)]
        if held:
            return [*self._no_tag(), (Fate.TEXT if self._answering else Fate.THOUGHT, held)]
        is_thought = self._after_block or self._opened
        return [(Fate.THOUGHT if is_thought else Fate.TEXT, self._take_margin())]

    def _read_between(self, text: str, position: int, pieces: list[Piece]) -> int:
        """Before the first block, or after one: where a tag may stand."""
        if spaces := _SPACES.match(text, position):
            self._margin.append(spaces[0])
            return spaces.end()
        if opener := _OPENER.match(text, position):
            pieces += [(Fate.THOUGHT, self._take_margin()), (Fate.GONE, opener[0])]
            self._closer = _closer_of(opener[1])
            return opener.end()
        if _could_become("<", text[position:]):
            self._held = text[position:]
            return len(text)
        pieces += self._no_tag()
        return position

    def _no_tag(self) -> list[Piece]:
        """No block begins here, unless the prompt has begun it."""
        margin = self._take_margin()
        if self._opened:
            self._closer = _ANY
            return [(Fate.THOUGHT, margin)]
        self._answering = True
        first_line = margin.rfind("\n") + 1 if self._after_block else 0
        return [(Fate.THOUGHT, margin[:first_line]), (Fate.TEXT, margin[first_line:])]

    def _read_inside(self, closer: _Closer, text: str, position: int, pieces: list[Piece]) -> int:
        pattern, could_become = closer
        if found := pattern.search(text, position):
            pieces += [(Fate.THOUGHT, text[position : found.start()]), (Fate.GONE, found[0])]
            self._closer = None
            self._opened = False
            self._after_block = True
            return found.end()
        last = text.rfind("<", position)
        if last < 0 or not could_become(text[last:]):
            last = len(text)
        pieces.append((Fate.THOUGHT, text[position:last]))
        self._held = text[last:]
        return len(text)

    def _take_margin(self) -> str:
        margin = "".join(self._margin)
        self._margin.clear()
        return margin
