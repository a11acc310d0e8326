"""Filter for tool calls that a server left in the text, as the markup that the model wrote.

1. A block that is a call in one of the given formats is removed from the text, and the call is sent
   when the response ends: only then is it certain which calls the server has sent itself. A call
   that the server sent as well is sent once, because a client would run it twice.
2. A block that is anything else is text, unchanged; so is one that is cut off, by the end of the
   answer or by another delta. Nothing is repaired: a client must run what was written.
3. Text is held back only from the opening mark on, and only while it matches a format. Where it no
   longer does, scanning goes on behind it, so that a broken block does not hide the next one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from antiphon.core.deltas import Delta, Extra, Failure, Finish, ToolCall
from antiphon.core.filters.filter import RoundEnd
from antiphon.core.filters.text_scan import Piece, PieceKind, TextScanFilter
from antiphon.core.filters.text_tools.formats import CallFormat, WrittenToolCall
from antiphon.core.filters.text_tools.scanner import MarkupScanner
from antiphon.errors import FormatMismatch

_UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)


class _FormatParser:
    """The attempt to read one block in one format."""

    def __init__(self, call_format: CallFormat, text: str, position: int) -> None:
        self.scanner = MarkupScanner(text, position)
        self.calls: Sequence[WrittenToolCall] = ()
        self.waiting = True
        self._scan = call_format(self.scanner)
        self._advance()

    def feed(self, fragment: str) -> None:
        if self.waiting:
            self.scanner.extend(fragment)
            self._advance()

    def _advance(self) -> None:
        try:
            next(self._scan)
        except StopIteration as end:
            self.calls = end.value
            self.waiting = False
        except (FormatMismatch, *_UNREADABLE):
            self.waiting = False


class _MarkupBlock:
    """The text from an opening mark on, read in every format that has this mark."""

    def __init__(self, formats: Iterable[CallFormat], text: str, opener: re.Match[str]) -> None:
        self.start = opener.start()
        self._text = text
        self._opener = opener
        self._later: list[str] = []
        self._parsers = [_FormatParser(each, text, opener.end()) for each in formats]

    @property
    def waiting(self) -> bool:
        return not self.calls and any(parser.waiting for parser in self._parsers)

    @property
    def calls(self) -> Sequence[WrittenToolCall]:
        return next((parser.calls for parser in self._parsers if parser.calls), ())

    @property
    def end(self) -> int:
        """Where the block ends in the text; if it has no call, how far it matched a format."""
        # The formats of one mark differ in what follows it: those that do not match stop early.
        length = max(parser.scanner.length for parser in self._parsers)
        return self.start + len(self._opener[0]) + length

    def feed(self, fragment: str) -> None:
        self._later.append(fragment)
        for parser in self._parsers:
            parser.feed(fragment)

    def take_text(self) -> str:
        """Return the block and all that came after it; from now on the block starts at 0."""
        self._text = "".join([self._text[self.start :], *self._later])
        self._later.clear()
        self.start = 0
        return self._text


class TextToolCallFilter(TextScanFilter):
    """Turns blocks of the given formats into calls."""

    def __init__(self, formats: Iterable[Mapping[str, CallFormat]]) -> None:
        """Each format is a mapping from its opening marks to their readers."""
        super().__init__()
        self._formats: dict[str, list[CallFormat]] = {}
        for each in formats:
            for mark, read in each.items():
                self._formats.setdefault(mark, []).append(read)
        self._opener = re.compile("|".join(map(re.escape, self._formats)))
        self._first_characters = {mark[0] for mark in self._formats}
        self._held = ""  # may become an opening mark
        self._block: _MarkupBlock | None = None
        self._found: list[WrittenToolCall] = []
        self._sent_by_server: dict[int, list[ToolCall]] = {}
        self._next_index = 0

    def feed(self, delta: Delta) -> list[Delta]:
        if isinstance(delta, ToolCall):
            self._sent_by_server.setdefault(delta.index, []).append(delta)
            self._next_index = max(self._next_index, delta.index + 1)
        deltas = super().feed(delta)
        if isinstance(delta, Finish | Failure):
            deltas[-1:] = [*self._release_calls(), delta]
        return deltas

    def close(self, *, final: bool) -> RoundEnd:
        return RoundEnd([*super().close(final=final).deltas, *self._release_calls()])

    # Text

    def _is_plain(self, text: str) -> bool:
        return (
            not self._held
            and self._block is None
            and not any(first in text for first in self._first_characters)
        )

    def _scan(self, fragment: str) -> list[Piece]:
        pieces: list[Piece] = []
        block = self._block
        if block is None:
            text, self._held = self._held + fragment, ""
            block = self._find_block(text, 0, pieces)
        else:
            block.feed(fragment)
            text = "" if block.waiting else block.take_text()
        while block is not None and not block.waiting:
            block = self._find_block(text, self._end_block(block, text, pieces), pieces)
        self._block = block
        return pieces

    def _flush(self) -> list[Piece]:
        text, self._held = self._held, ""
        if self._block is not None:
            text = self._block.take_text()
            self._block = None
        return [(PieceKind.TEXT, text)]

    def _find_block(self, text: str, position: int, pieces: list[Piece]) -> _MarkupBlock | None:
        """Pass the text up to where a block begins; hold back what may become an opening mark."""
        opener = self._opener.search(text, position)
        if opener:
            pieces.append((PieceKind.TEXT, text[position : opener.start()]))
            return _MarkupBlock(self._formats[opener[0]], text, opener)
        last = max(text.rfind(first, position) for first in self._first_characters)
        if last < 0 or not any(mark.startswith(text[last:]) for mark in self._formats):
            last = len(text)
        pieces.append((PieceKind.TEXT, text[position:last]))
        self._held = text[last:]
        return None

    def _end_block(self, block: _MarkupBlock, text: str, pieces: list[Piece]) -> int:
        """Keep the calls of a block that is complete; return where it ends."""
        self._found += block.calls
        kind = PieceKind.MARKUP if block.calls else PieceKind.TEXT
        pieces.append((kind, text[block.start : block.end]))
        return block.end

    # Calls

    def _release_calls(self) -> list[Delta]:
        """Return the calls that were found, without those that the server has sent itself."""
        if not self._found:
            return []
        sent = Counter(map(_comparable, self._sent_by_server.values()))
        deltas: list[Delta] = []
        for found in self._found:
            call = ToolCall(self._next_index, name=found.name, arguments=found.arguments)
            key = _comparable([call])
            if sent[key]:
                sent[key] -= 1
                deltas.append(Extra("duplicate_call", found.name))
            else:
                self._next_index += 1
                deltas.append(call)
        self._found.clear()
        return deltas


def _comparable(pieces: Sequence[ToolCall]) -> tuple[str, str]:
    """The name and the arguments of a call, the same however its JSON is formatted."""
    name = next((piece.name for piece in pieces if piece.name), "")
    arguments = "".join(piece.arguments for piece in pieces)
    try:
        value = msgspec.json.decode(arguments)
        return name, msgspec.json.encode(value, order="sorted").decode()
    except _UNREADABLE:
        return name, arguments
