"""Unwrapping of freeform input: removes fences, heredocs, commands and JSON around it.

A custom tool gets text as it is, but models put it into the wrappers that they are used to:

    {"patch": "…"}   {"command": ["bash", "-lc", "…"]}   "…"      JSON, decoded
    ```diff … ```                                                  a code fence
    apply_patch <<'EOF' … EOF    cat <<EOF | apply_patch … EOF     a heredoc
    apply_patch …                                                  a command

1. Text without a wrapper is passed on at once, unchanged.
2. Within a wrapper, only what could be its closing is held back.
3. The result does not depend on how the text is split into pieces.
4. Wrappers may be nested. Text that has to begin like a wrapper by its grammar is not one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from antiphon.core.stream.json_field import FieldState, JSONStringField

NAMES = frozenset("input patch text content code script command cmd diff arguments".split())
"""JSON fields that models put the input into."""

_COMMAND = "apply_patch"
_COMMAND_WORDS = frozenset([_COMMAND, "bash", "/bin/bash", "sh", "/bin/sh", "zsh", "-lc", "-c"])
"""Elements before the input, where JSON has it as the last argument of a command."""
_MAX_HELD = 256
"""The maximum of characters that are held back to find out whether a wrapper opens or closes."""
_MAX_DEPTH = 3

Keep: TypeAlias = Callable[[str], bool]


class Unwrapper:
    """Removes the wrappers from one text."""

    def __init__(
        self, keep: Keep = lambda _: False, *, declared: bool = False, depth: int = _MAX_DEPTH
    ) -> None:
        """`keep` decides whether the text has to begin like this. `declared`: the tool was declared
        with the argument `input`, so `{"input": "…"}` is expected and not reported."""
        self._keep: Keep = (lambda _: False) if declared else keep
        self._openers = (_match_json,) if declared else _OPENERS
        self._inner = Unwrapper(keep, depth=depth - 1) if depth else None
        self._declared = declared
        self._head = ""
        self._body: _Body | None = None if depth else _PlainText()

    @property
    def wrapped(self) -> bool:
        """A wrapper was removed that was not expected."""
        own = self._body is not None and self._body.removed and not self._is_expected
        return own or (self._inner is not None and self._inner.wrapped)

    @property
    def ended(self) -> bool:
        """The JSON string with the input is closed: nothing that follows is part of the input."""
        return isinstance(self._body, _JSONString) and self._body.ended

    @property
    def unterminated(self) -> bool:
        """The JSON string with the input was not closed."""
        return isinstance(self._body, _JSONString) and not self._body.ended

    @property
    def _is_expected(self) -> bool:
        return self._declared and _DECLARED_OBJECT.match(self._head) is not None

    def feed(self, text: str) -> str:
        if self._body is None:
            text = self._find_opening(text)
        if self._body is None:
            return ""
        inside = self._body.feed(text)
        return inside if self._inner is None else self._inner.feed(inside)

    def close(self) -> str:
        if self._body is None:  # too short to decide: a JSON value, or text
            self._body = _WholeJSON(self._keep)
            self._body.feed(self._head)
        inside = self._body.close()
        return inside if self._inner is None else self._inner.feed(inside) + self._inner.close()

    def _find_opening(self, text: str) -> str:
        """Decide how the text is wrapped, if it is; return the rest of it to read."""
        text = self._head + text
        self._head = text[:_MAX_HELD]
        matches = [match_opening(self._head) for match_opening in self._openers]
        for match in matches:
            if isinstance(match, _Opening) and not self._keep(text[: match.end]):
                self._body = match.body
                return text[match.end :]
        if _Match.PENDING in matches and len(text) <= _MAX_HELD:
            return ""
        if matches[0] in (_Match.PENDING, _Match.WHOLE):  # of `_match_json`
            self._body = _WholeJSON(self._keep)
        else:
            self._body = _PlainText()
            self._inner = self._inner if self._declared else None
        return text


# The content of each wrapper


class _PlainText:
    def __init__(self, *, removed: bool = False) -> None:
        self.removed = removed  # whether a command stood before it

    def feed(self, text: str) -> str:
        return text

    def close(self) -> str:
        return ""


class _JSONString:
    """The content of a JSON string, decoded; what follows the string is dropped."""

    removed = True

    def __init__(self) -> None:
        self._field = JSONStringField("input")
        self._field.feed('{"input":"')

    @property
    def ended(self) -> bool:
        return self._field.state is FieldState.CLOSED

    def feed(self, text: str) -> str:
        return self._field.feed(text)

    def close(self) -> str:
        return ""


class _WholeJSON:
    """JSON in which the input cannot be located by its beginning; held back until it ends."""

    def __init__(self, keep: Keep) -> None:
        self.removed = False
        self._keep = keep
        self._pieces: list[str] = []

    def feed(self, text: str) -> str:
        self._pieces.append(text)
        return ""

    def close(self) -> str:
        text = "".join(self._pieces)
        try:
            found = _find_input(msgspec.json.decode(text))
        except (msgspec.DecodeError, RecursionError):
            found = None
        if found is None or self._keep(text):
            return text
        self.removed = True
        return found


def _find_input(value: Any) -> str | None:
    match value:
        case str():  # "…"
            return value
        case [*_, last]:  # ["bash", "-lc", "…"]
            return _find_input(last)
        case dict():  # {"command": "apply_patch", "input": "…"}: the longest of the known fields
            known = [each for name, each in value.items() if name in NAMES]
            found = filter(None, map(_find_input, known or value.values()))
            return max(found, key=len, default=None)
    return None


class _LinesUntil:
    """Lines up to a closing one, which has to be the last: `` ``` `` of a fence, `EOF`."""

    removed = True

    def __init__(self, closing: str) -> None:
        atoms = (*map(re.escape, closing), r"\s*\Z")
        self._closing = re.compile("^" + _prefix_pattern(*atoms), re.MULTILINE)
        self._before = ""  # the last character that was passed on
        self._held = ""

    def feed(self, text: str) -> str:
        text = self._held + text
        found = self._closing.search(self._before + text, len(self._before))
        self._held = found[0] if found and len(found[0]) <= _MAX_HELD else ""
        text = text[: len(text) - len(self._held)]
        self._before = text[-1:] or self._before
        return text

    def close(self) -> str:
        found = self._closing.match(self._held)
        return "" if found and found["complete"] is not None else self._held


_Body: TypeAlias = _PlainText | _JSONString | _WholeJSON | _LinesUntil


# The beginning of each wrapper


class _Opening(Struct):
    """A wrapper has opened."""

    end: int
    """Where its inside begins."""
    body: _Body


class _Match(Enum):
    NONE = 0
    PENDING = 1
    """What there is so far may become an opening."""
    WHOLE = 2
    """JSON in which the input can be located only when it is complete."""


_Result: TypeAlias = _Opening | _Match


def _prefix_pattern(*atoms: str) -> str:
    """A pattern of a sequence, and of every prefix of it at the end of the text.

    A prefix of an atom has to match it, or be empty. The group `complete` is set if the whole
    sequence has matched.
    """
    pattern = "(?P<complete>)"
    for atom in reversed(atoms):
        pattern = rf"(?:{atom}{pattern}|\Z)"
    return pattern


def _match_pattern(
    pattern: re.Pattern[str], body: Callable[[re.Match[str]], _Body], head: str
) -> _Result:
    found = pattern.match(head)
    if found is None:
        return _Match.NONE
    return _Match.PENDING if found["complete"] is None else _Opening(found.end(), body(found))


# ```diff
_FENCE = re.compile(_prefix_pattern(r"\s*", *"```", r"`*[\w.+ -]*\r?", r"\n"))
# apply_patch *** Begin Patch     but neither `apply_patch <<EOF` nor `apply_patch = 3`
_CALLED = re.compile(_prefix_pattern(r"\s*", *_COMMAND, r"\s", r"\s*", r"(?=[^\s<'\"=(.])"))


def _heredoc(command: str, reader: str) -> re.Pattern[str]:
    """`command <<'EOF' | reader`, each of both optional."""
    end = (r"(?P<quote>['\"]?)", r"(?P<end>\w+)", "(?P=quote)", r"[ \t]*")
    pipe = (r"\|", r"[ \t]*", *reader, r"[ \t]*") if reader else ()
    return re.compile(
        _prefix_pattern(r"\s*", *command, r"[ \t]*", *"<<", r"-?[ \t]*", *end, *pipe, r"\n")
    )


# JSON: the tokens up to the string that is the input

_TOKEN = re.compile(
    r"""\s*(?: (?P<mark> [{[:,] )
      | "(?P<string> (?: [^"\\] | \\. )* )(?P<end> "? )
      | (?P<else> \S ) )""",
    re.VERBOSE | re.DOTALL,
)
_DECLARED_OBJECT = re.compile(r'\s*\{\s*"input"\s*:\s*"')


class _Token(Enum):
    """What was read last, on the way to the input."""

    START = auto()
    OBJECT = auto()  # {
    NAME = auto()  # "patch", one of `NAMES`
    COLON = auto()
    ARRAY = auto()  # [
    WORD = auto()  # "bash", one of `_COMMAND_WORDS`
    COMMA = auto()
    TEXT = auto()  # a string outside of objects and arrays


_NEXT_MARKS = {_Token.START: "{", _Token.NAME: ":", _Token.COLON: "{[", _Token.WORD: ","}
_MARKS = {"{": _Token.OBJECT, ":": _Token.COLON, "[": _Token.ARRAY, ",": _Token.COMMA}


def _match_json(head: str) -> _Result:
    """Read tokens until the input begins, or it is clear that it does not begin like this."""
    last = _Token.START
    for token in _TOKEN.finditer(head):
        step = _read_mark(token, last) if token["string"] is None else _read_string(token, last)
        if not isinstance(step, _Token):
            return step
        last = step
    return _Match.PENDING


def _read_mark(token: re.Match[str], last: _Token) -> _Result | _Token:
    mark = token["mark"] or token["else"]
    if mark in _NEXT_MARKS.get(last, ""):
        return _MARKS[mark]
    # `{ const a` or `"use strict";`: not JSON. `{"input": 3`: JSON, but not as expected.
    is_json = last not in (_Token.START, _Token.OBJECT, _Token.TEXT)
    return _Match.WHOLE if is_json else _Match.NONE


def _read_string(token: re.Match[str], last: _Token) -> _Result | _Token:
    text = token["string"]
    whole = bool(token["end"])
    match last:
        case _Token.COLON | _Token.ARRAY | _Token.COMMA:
            return _read_value(token, last)
        case _Token.OBJECT if whole:  # {"patch"     {"why"
            return _Token.NAME if text in NAMES else _Match.WHOLE
        case _Token.START | _Token.OBJECT:  # "use strict"     {"pat
            return _Token.TEXT if whole else _Match.PENDING
        case _:  # {"input" "b"
            return _Match.WHOLE


def _read_value(token: re.Match[str], last: _Token) -> _Result | _Token:
    text = token["string"]
    whole = bool(token["end"])
    if whole and text in _COMMAND_WORDS:
        # {"command": "apply_patch", "input": …     {"command": ["bash", "-lc", …
        return _Match.WHOLE if last is _Token.COLON else _Token.WORD
    if not whole and any(word.startswith(text) for word in _COMMAND_WORDS):
        return _Match.PENDING  # {"command": ["ba
    return _Opening(token.start("string"), _JSONString())  # {"patch": "*** Begin


_OPENERS: tuple[Callable[[str], _Result], ...] = (
    _match_json,
    partial(_match_pattern, _FENCE, lambda found: _LinesUntil("`" * found[0].count("`"))),
    partial(_match_pattern, _CALLED, lambda _: _PlainText(removed=True)),
    *(
        partial(_match_pattern, _heredoc(command, reader), lambda found: _LinesUntil(found["end"]))
        for command in ("", _COMMAND, "cat")
        for reader in ("", _COMMAND)
    ),
)
