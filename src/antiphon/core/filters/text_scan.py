"""What the guards have in common: text goes in, and each stretch of it meets one of three fates.

1. The stretches of all fates, joined, are the text that came: nothing is lost, moved or invented.
2. Text is held back only while its fate is open. Before a delta that has a place in the answer,
   and at the end, what is held is let go.
3. Log probabilities follow their tokens: those of text stay with it, the others go with the rest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from enum import Enum
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias

from antiphon.core.stream.deltas import Delta, Extra, Reasoning, Start, Text, Usage
from antiphon.wire.items import Document


class Fate(Enum):
    TEXT = "text"
    THOUGHT = "thought"
    GONE = "gone"  # markup: the reader's business, not the client's


Piece: TypeAlias = tuple[Fate, str]

# Counts and notes have no place among the items. Some servers send them with every chunk, so they
# must not end what is held.
_PLACELESS = (Usage, Start, Extra)


class _Scores:
    """Which log probabilities belong to which stretch of the text."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Document]] = deque()
        self._written = 0
        self._read = 0

    def add(self, text: str, logprobs: Sequence[Document]) -> None:
        start = self._written
        self._written += len(text)
        for token in logprobs:  # tokens that do not spell the text stay with its end
            self._waiting.append((min(start, self._written - 1), token))
            start += len(token["token"])

    def take(self, length: int) -> tuple[Document, ...]:
        """Those of the next characters."""
        self._read += length
        taken: list[Document] = []
        while self._waiting and self._waiting[0][0] < self._read:
            taken.append(self._waiting.popleft()[1])
        return tuple(taken)


class TextScanFilter(ABC):
    """A filter over deltas that looks into the text and leaves the rest alone."""

    def __init__(self) -> None:
        self._scores = _Scores()

    def feed(self, delta: Delta) -> list[Delta]:
        if isinstance(delta, Text):
            if self._harmless(delta.text):
                return [delta]
            self._scores.add(delta.text, delta.logprobs)
            return self._told(self._read(delta.text))
        if isinstance(delta, _PLACELESS):
            return [delta]
        return [*self._told(self._flush()), delta]

    def close(self) -> list[Delta]:
        return self._told(self._flush())

    @abstractmethod
    def _harmless(self, text: str) -> bool:
        """Nothing is held, and nothing in this text could be what we look for."""

    @abstractmethod
    def _read(self, fragment: str) -> list[Piece]:
        """What is decided now, in order: of what was held, and of this."""

    @abstractmethod
    def _flush(self) -> list[Piece]:
        """Decide what is held as if nothing more came."""

    def _told(self, pieces: Sequence[Piece]) -> list[Delta]:
        deltas: list[Delta] = []
        for fate, run in groupby(pieces, key=itemgetter(0)):
            text = "".join(stretch for _, stretch in run)
            logprobs = self._scores.take(len(text))
            if text and fate is Fate.TEXT:
                deltas.append(Text(text, logprobs))
            elif text and fate is Fate.THOUGHT:
                deltas.append(Reasoning(text))
        return deltas
