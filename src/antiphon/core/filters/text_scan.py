"""Common part of the filters for leaked markup: split text into text, reasoning and markup.

1. The pieces, joined, are the text that came: nothing is lost, moved or invented.
2. Text is held back only while it is undecided. Before any other delta, and at the end, what is
   held back is released.
3. Log probabilities follow their tokens: those of text stay with it, the others are dropped with
   the piece that they belong to.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from enum import Enum
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias

from antiphon.core.deltas import Delta, Reasoning, Text
from antiphon.core.filters.filter import DeltaFilter, RoundEnd
from antiphon.core.items import Document


class PieceKind(Enum):
    """What a piece of text is to the client."""

    TEXT = "text"
    REASONING = "reasoning"
    MARKUP = "markup"  # removed


Piece: TypeAlias = tuple[PieceKind, str]


class _LogprobQueue:
    """Log probabilities, by the position of their tokens in the text."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Document]] = deque()
        self._added = 0
        self._taken = 0

    def add(self, text: str, logprobs: Sequence[Document]) -> None:
        start = self._added
        self._added += len(text)
        for token in logprobs:  # tokens that do not spell the text stay with its end
            self._waiting.append((min(start, self._added - 1), token))
            start += len(token["token"])

    def take(self, length: int) -> tuple[Document, ...]:
        """Return those of the next characters."""
        self._taken += length
        taken: list[Document] = []
        while self._waiting and self._waiting[0][0] < self._taken:
            taken.append(self._waiting.popleft()[1])
        return tuple(taken)


class TextScanFilter(DeltaFilter):
    """A filter that reads the text and passes all other deltas."""

    def __init__(self) -> None:
        self._logprobs = _LogprobQueue()

    def feed(self, delta: Delta) -> list[Delta]:
        if isinstance(delta, Text):
            if self._is_plain(delta.text):
                return [delta]
            self._logprobs.add(delta.text, delta.logprobs)
            return self._make_deltas(self._scan(delta.text))
        return [*self._make_deltas(self._flush()), delta]

    def close(self, *, final: bool) -> RoundEnd:
        return RoundEnd(self._make_deltas(self._flush()))

    @abstractmethod
    def _is_plain(self, text: str) -> bool:
        """Whether nothing is held back, and no markup can begin in this text."""

    @abstractmethod
    def _scan(self, fragment: str) -> list[Piece]:
        """Return the pieces that are decided now, in order: of what was held back, and of this."""

    @abstractmethod
    def _flush(self) -> list[Piece]:
        """Decide about the text held back as if nothing more came."""

    def _make_deltas(self, pieces: Sequence[Piece]) -> list[Delta]:
        deltas: list[Delta] = []
        for kind, run in groupby(pieces, key=itemgetter(0)):
            text = "".join(piece for _, piece in run)
            logprobs = self._logprobs.take(len(text))
            if text and kind is PieceKind.TEXT:
                deltas.append(Text(text, logprobs))
            elif text and kind is PieceKind.REASONING:
                deltas.append(Reasoning(text))
        return deltas
