"""Incremental JSON: one string field of an object while it arrives, and whether a value has ended.

Arguments of tool calls arrive in fragments cut anywhere, even inside an escape. Both readers look
at every character once, hold back no more than one unfinished escape, and never raise: a model may
write broken JSON, and the caller decides what follows from that.
"""

from __future__ import annotations

import json
import re
from enum import StrEnum

import msgspec

_SPACE = " \t\n\r"  # the white space of JSON

_HEX = "[0-9a-fA-F]"
_HIGH = f"[dD][89abAB]{_HEX}{{2}}"
_LOW = f"[dD][c-fC-F]{_HEX}{{2}}"
_LOW_BEGUN = rf"\\ (?: u (?: [dD] (?: [c-fC-F] {_HEX}? )? )? )?"

# The tokens inside a string; the first alternative that matches counts, and any text matches.
_TOKEN = re.compile(
    rf"""
      (?P<plain> [^"\\]+ )
    | (?P<end> " )
    | \\ (?P<simple> ["\\/bfnrt] )
    | \\u (?P<high> {_HIGH} ) \\u (?P<low> {_LOW} )
      # Cut off where it could still become one of the above or below: the next fragment decides.
    | (?P<unfinished> \\ (?: u (?: {_HEX}{{0,3}} | {_HIGH} (?: {_LOW_BEGUN} )? ) )? \Z )
    | (?P<lone> \\u [dD][89a-fA-F]{_HEX}{{2}} )
    | \\u (?P<code> {_HEX}{{4}} )
      # No escape that JSON knows: the backslash stands for itself, and reading goes on after it.
    | (?P<stray> \\ )
    """,
    re.VERBOSE,
)
_MARK = re.compile(r'["{}\[\]]')
_STRING_MARK = re.compile(r'"|\\.?', re.DOTALL)
_SIMPLE = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class _StringReader:
    """Decodes the content of a JSON string as it arrives, from after the opening quote."""

    def __init__(self) -> None:
        self.closed = False
        self.rest = ""  # what follows the closing quote
        self._unfinished = ""

    def feed(self, fragment: str) -> str:
        if not self._unfinished and '"' not in fragment and "\\" not in fragment:
            return fragment
        text = self._unfinished + fragment
        self._unfinished = ""
        pieces: list[str] = []
        for token in _TOKEN.finditer(text):
            match token.lastgroup:
                case "plain" | "stray":
                    pieces.append(token[0])
                case "simple":
                    pieces.append(_SIMPLE[token["simple"]])
                case "code":
                    pieces.append(chr(int(token["code"], 16)))
                case "low":
                    pieces.append(_join_surrogates(token["high"], token["low"]))
                case "lone":
                    pieces.append("\ufffd")
                case "unfinished":
                    self._unfinished = token[0]
                case _:
                    self.closed = True
                    self.rest = text[token.end() :]
                    break
        return "".join(pieces)


def _join_surrogates(high: str, low: str) -> str:
    return bytes.fromhex(high + low).decode("utf-16-be")


class FieldState(StrEnum):
    PENDING = "pending"  # the value has not begun
    OPEN = "open"  # the opening quote of the value has been read
    CLOSED = "closed"  # the string has ended; the rest is ignored
    MISMATCH = "mismatch"  # the text does not open with this key, and never will


class JSONStringField:
    """Reads the string under the first key of an object, `{"input": "…"}`, while it arrives."""

    def __init__(self, name: str) -> None:
        self.state = FieldState.PENDING
        self._name = name
        self._expected = '{":"'  # the marks still to come; the key is between the first quotes
        self._key = _StringReader()
        self._key_text = ""
        self._value = _StringReader()

    def feed(self, fragment: str) -> str:
        """Read the next fragment, and return what it adds to the value, decoded."""
        if self.state is FieldState.PENDING:
            fragment = self._open(fragment)
        if self.state is not FieldState.OPEN:
            return ""
        text = self._value.feed(fragment)
        if self._value.closed:
            self.state = FieldState.CLOSED
        return text

    def _open(self, fragment: str) -> str:
        """Read on to the value, and return the rest of the fragment."""
        while fragment and self.state is FieldState.PENDING:
            if self._expected == ':"' and not self._key.closed:
                fragment = self._read_key(fragment)
            elif fragment := fragment.lstrip(_SPACE):
                self._read_mark(fragment[0])
                fragment = fragment[1:]
        return fragment

    def _read_key(self, fragment: str) -> str:
        self._key_text += self._key.feed(fragment)
        if self._key.closed:
            matches = self._key_text == self._name
        else:
            matches = self._name.startswith(self._key_text)
        if not matches:
            self.state = FieldState.MISMATCH
        return self._key.rest

    def _read_mark(self, mark: str) -> None:
        if mark != self._expected[0]:
            self.state = FieldState.MISMATCH
            return
        self._expected = self._expected[1:]
        if not self._expected:
            self.state = FieldState.OPEN


_decode_raw = msgspec.json.Decoder(msgspec.Raw).decode


def is_json(text: str) -> bool:
    """Whether a text can be parsed as one JSON value."""
    try:
        _decode_raw(text)
    except (msgspec.DecodeError, RecursionError):
        return _is_json_with_lone_surrogates(text)
    return True


def _is_json_with_lone_surrogates(text: str) -> bool:
    """Parse by the grammar alone: `"\\ud83d"` is valid JSON, although it is half a character."""
    try:
        json.loads(text, parse_constant=_reject_constant)
    except (ValueError, RecursionError):
        return False
    return True


def _reject_constant(name: str) -> None:
    raise ValueError(name)  # NaN, Infinity: no JSON


class JSONProgress:
    """Tracks whether the text so far is one complete JSON object or array.

    It counts brackets outside strings and checks nothing else, so it is cheap enough for every
    stream; only a parser knows whether a complete value is valid. Text that does not open with a
    bracket is never complete (a number could always continue), nor is text that continues after
    its last bracket.
    """

    def __init__(self) -> None:
        self.empty = True  # nothing but white space so far
        self.complete = False
        self._depth = 0
        self._in_string = False
        self._escaped = False  # the next character follows a backslash

    @property
    def open(self) -> bool:
        """Whether the text has begun with a bracket that is not closed yet."""
        return self._depth > 0

    def feed(self, fragment: str) -> None:
        if self.empty or self.complete:
            fragment = fragment.lstrip(_SPACE)
            if not fragment:
                return
            if self.complete:  # {"a": 1}{: text after the end makes it incomplete for good
                self.complete = False
            elif fragment[0] in "{[":
                self._depth = 1
                fragment = fragment[1:]
            self.empty = False
        if self._depth and fragment:
            self._follow(fragment)

    def _follow(self, fragment: str) -> None:
        position, self._escaped = int(self._escaped), False
        while found := (_STRING_MARK if self._in_string else _MARK).search(fragment, position):
            position = found.end()
            match found[0]:
                case '"':
                    self._in_string = not self._in_string
                case "{" | "[":
                    self._depth += 1
                case "}" | "]":
                    self._depth -= 1
                    if not self._depth:
                        self.complete = True
                        self.feed(fragment[position:])
                        return
                case escape:
                    self._escaped = len(escape) == 1
