"""Tool calls that a server left in the text, as the markup in which the model wrote them.

1. A block that is a call in one of the guard's forms leaves the text, and the call is told when the
   answer ends: only then is it certain which calls the server has told itself. A call that it told
   as well is told once, for a client would run it twice.
2. A block that is anything else is text, unchanged; so is one that is cut off, by the end of the
   answer or by another delta. Nothing is mended, for what a client runs must be what was written.
3. Text is held only from the opening mark on, and only while it fits a form. Where it no longer
   does, reading goes on, so that a broken block does not hide the next one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from antiphon.core.filters.text_scan import Fate, Piece, TextScanFilter
from antiphon.core.filters.text_tools.formats import Call, Form
from antiphon.core.filters.text_tools.scanner import Source
from antiphon.core.stream.deltas import Delta, Extra, Failure, Finish, ToolCall
from antiphon.errors import FormatMismatch

_UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)


class _Reader:
    """One form's attempt at a block."""

    def __init__(self, form: Form, text: str, position: int) -> None:
        self.source = Source(text, position)
        self.calls: Sequence[Call] = ()
        self.waiting = True
        self._steps = form(self.source)
        self._step()

    def feed(self, fragment: str) -> None:
        if self.waiting:
            self.source.extend(fragment)
            self._step()

    def _step(self) -> None:
        try:
            next(self._steps)
        except StopIteration as end:
            self.calls = end.value
            self.waiting = False
        except (FormatMismatch, *_UNREADABLE):
            self.waiting = False


class _Block:
    """What began with an opening mark, and every form that it may have."""

    def __init__(self, forms: Iterable[Form], text: str, opener: re.Match[str]) -> None:
        self.start = opener.start()
        self._text = text
        self._opener = opener
        self._later: list[str] = []
        self._readers = [_Reader(form, text, opener.end()) for form in forms]

    @property
    def waiting(self) -> bool:
        return not self.calls and any(reader.waiting for reader in self._readers)

    @property
    def calls(self) -> Sequence[Call]:
        return next((reader.calls for reader in self._readers if reader.calls), ())

    @property
    def end(self) -> int:
        """Where in the text the block ends; if it is none, how far it looked like one."""
        # The forms of one mark differ in what follows it: those that do not match stop early.
        length = max(reader.source.length for reader in self._readers)
        return self.start + len(self._opener[0]) + length

    def feed(self, fragment: str) -> None:
        self._later.append(fragment)
        for reader in self._readers:
            reader.feed(fragment)

    def text(self) -> str:
        """The block and all that came after it; from now on it starts where this starts."""
        self._text = "".join([self._text[self.start :], *self._later])
        self._later.clear()
        self.start = 0
        return self._text


class TextToolCallFilter(TextScanFilter):
    """Turns blocks of the given forms into calls."""

    def __init__(self, forms: Iterable[Mapping[str, Form]]) -> None:
        super().__init__()
        self._forms: dict[str, list[Form]] = {}
        for form in forms:
            for opener, read in form.items():
                self._forms.setdefault(opener, []).append(read)
        self._opener = re.compile("|".join(map(re.escape, self._forms)))
        self._firsts = {opener[0] for opener in self._forms}
        self._held = ""  # perhaps an opening mark
        self._block: _Block | None = None
        self._found: list[Call] = []
        self._told_by_server: dict[int, list[ToolCall]] = {}
        self._next_index = 0

    def feed(self, delta: Delta) -> list[Delta]:
        if isinstance(delta, ToolCall):
            self._told_by_server.setdefault(delta.index, []).append(delta)
            self._next_index = max(self._next_index, delta.index + 1)
        deltas = super().feed(delta)
        if isinstance(delta, Finish | Failure):
            deltas[-1:] = [*self._release(), delta]
        return deltas

    def close(self) -> list[Delta]:
        return super().close() + self._release()

    # Text

    def _harmless(self, text: str) -> bool:
        return (
            not self._held
            and self._block is None
            and not any(first in text for first in self._firsts)
        )

    def _read(self, fragment: str) -> list[Piece]:
        pieces: list[Piece] = []
        block = self._block
        if block is None:
            text, self._held = self._held + fragment, ""
            block = self._look(text, 0, pieces)
        else:
            block.feed(fragment)
            text = "" if block.waiting else block.text()
        while block is not None and not block.waiting:
            block = self._look(text, self._settle(block, text, pieces), pieces)
        self._block = block
        return pieces

    def _flush(self) -> list[Piece]:
        text, self._held = self._held, ""
        if self._block is not None:
            text = self._block.text()
            self._block = None
        return [(Fate.TEXT, text)]

    def _look(self, text: str, position: int, pieces: list[Piece]) -> _Block | None:
        """Let the text pass up to where a block begins, or may be about to."""
        opener = self._opener.search(text, position)
        if opener:
            pieces.append((Fate.TEXT, text[position : opener.start()]))
            return _Block(self._forms[opener[0]], text, opener)
        last = max(text.rfind(first, position) for first in self._firsts)
        if last < 0 or not any(mark.startswith(text[last:]) for mark in self._forms):
            last = len(text)
        pieces.append((Fate.TEXT, text[position:last]))
        self._held = text[last:]
        return None

    def _settle(self, block: _Block, text: str, pieces: list[Piece]) -> int:
        self._found += block.calls
        fate = Fate.GONE if block.calls else Fate.TEXT
        pieces.append((fate, text[block.start : block.end]))
        return block.end

    # Calls

    def _release(self) -> list[Delta]:
        """The calls that were found, without those that the server has told itself."""
        if not self._found:
            return []
        told = Counter(map(_meaning, self._told_by_server.values()))
        deltas: list[Delta] = []
        for found in self._found:
            call = ToolCall(self._next_index, name=found.name, arguments=found.arguments)
            meaning = _meaning([call])
            if told[meaning]:
                told[meaning] -= 1
                deltas.append(Extra("call_told_twice", found.name))
            else:
                self._next_index += 1
                deltas.append(call)
        self._found.clear()
        return deltas


def _meaning(pieces: Sequence[ToolCall]) -> tuple[str, str]:
    """What a call says, however it is spelled."""
    name = next((piece.name for piece in pieces if piece.name), "")
    arguments = "".join(piece.arguments for piece in pieces)
    try:
        value = msgspec.json.decode(arguments)
        return name, msgspec.json.encode(value, order="sorted").decode()
    except _UNREADABLE:
        return name, arguments
