"""Incremental scanner for markup: generators that wait for text that has not come yet.

A scan is a generator that yields when it needs more text, and returns what it read, so that a
format of calls (`formats.py`) reads like its grammar. Every character is looked at a bounded number
of times, and only an unfinished mark or name is kept from one fragment to the next. Where the text
does not match, `FormatMismatch` is raised, and the scanner stands before what did not match,
wherever the text was cut.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import TypeAlias, TypeVar

from antiphon.errors import FormatMismatch

T = TypeVar("T")
Scan: TypeAlias = Generator[None, None, T]

_SPACES = re.compile(r"\s*")
_MAX_NAME_CHARS = 128
_NAME = re.compile(rf"[\w.:/-]{{0,{_MAX_NAME_CHARS + 1}}}", re.ASCII)
_MAX_MARK_CHARS = 40

# JSON tokens outside of strings and inside. Whether they are valid JSON is left to a parser.
_PLAIN = re.compile(r'[-+.,:\w\s]+|["{}\[\]]', re.ASCII)
_QUOTED = re.compile(r'[^"\\]+|\\.|"', re.DOTALL)
_DEPTHS = {"{": 1, "[": 1, "}": -1, "]": -1}


class MarkupScanner:
    """Scanner of one block, from just after the mark that opened it."""

    def __init__(self, text: str, position: int) -> None:
        self._text = text
        self._position = position
        self._passed = -position

    @property
    def length(self) -> int:
        """How many characters have been read."""
        return self._passed + self._position

    def extend(self, fragment: str) -> None:
        self._passed += self._position
        self._text = self._text[self._position :] + fragment
        self._position = 0

    def spaces(self) -> Scan[str]:
        """Read white space, perhaps none."""
        skipped: list[str] = []
        while True:
            skipped.append(self._match(_SPACES))
            self._position += len(skipped[-1])
            if self._position < len(self._text):
                return "".join(skipped)
            yield

    def mark(self, *options: str) -> Scan[str | None]:
        """Read one of these marks; None if none of them comes next."""
        while True:
            ahead = self._text[self._position : self._position + _MAX_MARK_CHARS]
            for option in options:
                if ahead.startswith(option):
                    self._position += len(option)
                    return option
            if not any(option.startswith(ahead) for option in options):
                return None
            yield

    def expect(self, *options: str) -> Scan[str]:
        """Read white space, then one of these marks."""
        yield from self.spaces()
        found = yield from self.mark(*options)
        if found is None:
            raise FormatMismatch
        return found

    def until(self, mark: str) -> Scan[str]:
        """Read everything up to and including the mark; return the text before it."""
        passed: list[str] = []
        while (end := self._text.find(mark, self._position)) < 0:
            last = self._text.rfind(mark[0], self._position)
            if last < 0 or not mark.startswith(self._text[last:]):
                last = len(self._text)
            passed.append(self._text[self._position : last])
            self._position = last
            yield
        passed.append(self._text[self._position : end])
        self._position = end + len(mark)
        return "".join(passed)

    def name(self) -> Scan[str]:
        """Read white space, then a name as tools have them."""
        yield from self.spaces()
        while True:
            name = self._match(_NAME)
            if not name or len(name) > _MAX_NAME_CHARS:
                raise FormatMismatch
            if self._position + len(name) < len(self._text):
                self._position += len(name)
                return name
            yield

    def json(self, bracket: str) -> Scan[str]:
        """Read the rest of an object or array whose opening bracket has been read."""
        tokens = [bracket]
        depth = 1
        quoted = False
        while depth:
            found = (_QUOTED if quoted else _PLAIN).match(self._text, self._position)
            if found:
                tokens.append(found[0])
                self._position = found.end()
                if found[0] == '"':
                    quoted = not quoted
                elif not quoted:
                    depth += _DEPTHS.get(found[0], 0)
            elif quoted or self._position == len(self._text):
                yield
            else:
                raise FormatMismatch
        return "".join(tokens)

    def _match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._position)
        return found[0] if found else ""
