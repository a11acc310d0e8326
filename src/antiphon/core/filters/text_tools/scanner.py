"""Markup while it is being written: small readers that wait where the text has not come yet.

A reader is a generator that yields when it needs more text, and returns what it read, so that a
form of calls (`dialects.call_form`) is written down as its grammar. Every character is looked at a
bounded number of times, and only an unfinished mark or name is kept from one fragment to the next.
Where the text does not fit, `FormatMismatch` is raised, and the source stands before what did not
fit, wherever the text was cut.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import TypeAlias, TypeVar

from antiphon.errors import FormatMismatch

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]

_SPACES = re.compile(r"\s*")
_LONGEST_WORD = 128
_WORD = re.compile(rf"[\w.:/-]{{0,{_LONGEST_WORD + 1}}}", re.ASCII)
_LONGEST_MARK = 40

# JSON in tokens, outside of strings and inside; whether they make sense is for a parser to say.
_PLAIN = re.compile(r'[-+.,:\w\s]+|["{}\[\]]', re.ASCII)
_QUOTED = re.compile(r'[^"\\]+|\\.|"', re.DOTALL)
_DEPTHS = {"{": 1, "[": 1, "}": -1, "]": -1}


class Source:
    """The text of one block, from just after the mark that opened it."""

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

    def spaces(self) -> Steps[str]:
        """White space, perhaps none."""
        skipped: list[str] = []
        while True:
            skipped.append(self._run(_SPACES))
            self._position += len(skipped[-1])
            if self._position < len(self._text):
                return "".join(skipped)
            yield

    def mark(self, *options: str) -> Steps[str | None]:
        """The one that stands here, if one of them does."""
        while True:
            ahead = self._text[self._position : self._position + _LONGEST_MARK]
            for option in options:
                if ahead.startswith(option):
                    self._position += len(option)
                    return option
            if not any(option.startswith(ahead) for option in options):
                return None
            yield

    def expect(self, *options: str) -> Steps[str]:
        """White space, and then one of these."""
        yield from self.spaces()
        found = yield from self.mark(*options)
        if found is None:
            raise FormatMismatch
        return found

    def until(self, mark: str) -> Steps[str]:
        """Everything before the mark, which is read, too."""
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

    def word(self) -> Steps[str]:
        """White space, and then a name as tools have them."""
        yield from self.spaces()
        while True:
            word = self._run(_WORD)
            if not word or len(word) > _LONGEST_WORD:
                raise FormatMismatch
            if self._position + len(word) < len(self._text):
                self._position += len(word)
                return word
            yield

    def json(self, bracket: str) -> Steps[str]:
        """An object or array whose opening bracket has been read, as it stands."""
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

    def _run(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._position)
        return found[0] if found else ""
