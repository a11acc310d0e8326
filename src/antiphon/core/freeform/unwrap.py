"""Freeform input without what models wrap around it: fences, heredocs, commands, JSON.

1. Text in which no wrapper opens flows at once and stays the same text.
2. Where a wrapper opens, only what could be its closing is held back.
3. It does not matter how the text is cut.
4. A wrapper may hold another one. Text that has to begin like a wrapper is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from antiphon.core.stream.json_field import FieldState, JSONStringField

NAMES = frozenset("input patch text content code script command cmd diff arguments".split())
"""Fields under which models put the input, right or wrong."""

_COMMAND = "apply_patch"
_WORDS = frozenset([_COMMAND, "bash", "/bin/bash", "sh", "/bin/sh", "zsh", "-lc", "-c"])
"""What stands before the input where it is written as a command."""
_LIMIT = 256
"""How much is held back at most to see whether it opens or closes a wrapper."""
_DEPTH = 3

Keep: TypeAlias = Callable[[str], bool]


class Unwrapper:
    """One text, without its wrappers."""

    def __init__(
        self, keep: Keep = lambda _: False, *, declared: bool = False, depth: int = _DEPTH
    ) -> None:
        """`keep` tells whether text has to begin like this. `declared`: the input was asked for
        in a JSON object, which therefore is no wrapper to speak of."""
        self._keep: Keep = (lambda _: False) if declared else keep
        self._openers = (_read_json,) if declared else _OPENERS
        self._inner = Unwrapper(keep, depth=depth - 1) if depth else None
        self._declared = declared
        self._head = ""
        self._body: _Body | None = None if depth else _Plain()

    @property
    def wrapped(self) -> bool:
        """Something was removed that should not have been there."""
        own = self._body is not None and self._body.removed and not self._agreed
        return own or (self._inner is not None and self._inner.wrapped)

    @property
    def ended(self) -> bool:
        """The string that holds the input is closed: whatever follows is no part of it."""
        return isinstance(self._body, _JSONString) and self._body.ended

    @property
    def torn(self) -> bool:
        """The string that holds the input was never closed."""
        return isinstance(self._body, _JSONString) and not self._body.ended

    @property
    def _agreed(self) -> bool:
        return self._declared and _AGREED.match(self._head) is not None

    def feed(self, text: str) -> str:
        if self._body is None:
            text = self._begin(text)
        if self._body is None:
            return ""
        inside = self._body.feed(text)
        return inside if self._inner is None else self._inner.feed(inside)

    def close(self) -> str:
        if self._body is None:  # no more comes: it is JSON as a whole, or nothing
            self._body = _Whole(self._keep)
            self._body.feed(self._head)
        inside = self._body.close()
        return inside if self._inner is None else self._inner.feed(inside) + self._inner.close()

    def _begin(self, text: str) -> str:
        """Look for an opening; return what is left to read once it is clear how."""
        text = self._head + text
        self._head = text[:_LIMIT]
        verdicts = [read(self._head) for read in self._openers]
        for verdict in verdicts:
            if isinstance(verdict, _Opening) and not self._keep(text[: verdict.end]):
                self._body = verdict.body
                return text[verdict.end :]
        if "pending" in verdicts and len(text) <= _LIMIT:
            return ""
        if verdicts[0] in ("pending", "whole"):
            self._body = _Whole(self._keep)
        else:
            self._body = _Plain()
            self._inner = self._inner if self._declared else None
        return text


# What is inside


class _Plain:
    def __init__(self, *, removed: bool = False) -> None:
        self.removed = removed  # whether something stood before it

    def feed(self, text: str) -> str:
        return text

    def close(self) -> str:
        return ""


class _JSONString:
    """A string in JSON, decoded; what follows it is ignored."""

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


class _Whole:
    """JSON that does not begin as expected: what it holds is known when it has ended."""

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
            found = _found(msgspec.json.decode(text))
        except (msgspec.DecodeError, RecursionError):
            found = None
        if found is None or self._keep(text):
            return text
        self.removed = True
        return found


def _found(value: Any) -> str | None:
    """The longest text among the likely places."""
    match value:
        case str():
            return value
        case [*_, last]:
            return _found(last)
        case dict():
            likely = [each for name, each in value.items() if name in NAMES]
            found = filter(None, map(_found, likely or value.values()))
            return max(found, key=len, default=None)
    return None


class _Lines:
    """Lines up to a closing one, if that is the last."""

    removed = True

    def __init__(self, closing: str) -> None:
        self._closing = re.compile("^" + _begun(*map(re.escape, closing), r"\s*\Z"), re.MULTILINE)
        self._before = ""  # the last character that was let through
        self._held = ""

    def feed(self, text: str) -> str:
        text = self._held + text
        found = self._closing.search(self._before + text, len(self._before))
        self._held = found[0] if found and len(found[0]) <= _LIMIT else ""
        text = text[: len(text) - len(self._held)]
        self._before = text[-1:] or self._before
        return text

    def close(self) -> str:
        found = self._closing.match(self._held)
        return "" if found and found["open"] is not None else self._held


_Body: TypeAlias = _Plain | _JSONString | _Whole | _Lines


# How it opens


class _Opening(Struct):
    end: int
    """Where the inside begins."""
    body: _Body


_Verdict: TypeAlias = _Opening | str | None
"""An opening; `pending`: there may be one; `whole`: the end will tell; None: there is none."""


def _begun(*atoms: str) -> str:
    """A pattern for a sequence and for every beginning of it that the text ends with. A beginning
    of an atom has to match it, or be empty; the group `open` is there if nothing is missing."""
    pattern = "(?P<open>)"
    for atom in reversed(atoms):
        pattern = rf"(?:{atom}{pattern}|\Z)"
    return pattern


def _read_pattern(
    pattern: re.Pattern[str], body: Callable[[re.Match[str]], _Body], head: str
) -> _Verdict:
    found = pattern.match(head)
    if found is None:
        return None
    return "pending" if found["open"] is None else _Opening(found.end(), body(found))


_TOKEN = re.compile(
    r"""\s*(?: (?P<mark> [{[:,] )
      | "(?P<string> (?: [^"\\] | \\. )* )(?P<end> "? )
      | (?P<else> \S ) )""",
    re.VERBOSE | re.DOTALL,
)
_NEXT = {"": "{", "{": "", "name": ":", ":": "{[", "[": "", "word": ",", ",": "", "text": ""}
"""What has been read last → the marks that may follow it on the way to the input."""
_AGREED = re.compile(r'\s*\{\s*"input"\s*:\s*"')


def _read_json(head: str) -> _Verdict:
    """`{"input": "`, perhaps under another name, deeper, or behind the words of a command."""
    last = ""
    for token in _TOKEN.finditer(head):
        step = _read_mark(token, last) if token["string"] is None else _read_string(token, last)
        if not isinstance(step, str) or step not in _NEXT:
            return step
        last = step
    return "pending"


def _read_mark(token: re.Match[str], last: str) -> _Verdict:
    mark = token["mark"] or token["else"]
    if mark in _NEXT[last]:
        return mark
    return None if last in ("", "{", "text") else "whole"


def _read_string(token: re.Match[str], last: str) -> _Verdict:
    """A name, a word, or the beginning of the input, by where it stands."""
    text, whole = token["string"], bool(token["end"])
    if last in (":", "[", ","):
        if whole and text in _WORDS:
            return "whole" if last == ":" else "word"
        if not whole and any(word.startswith(text) for word in _WORDS):
            return "pending"
        return _Opening(token.start("string"), _JSONString())
    if last == "{" and whole:
        return "name" if text in NAMES else "whole"
    if last in ("", "{"):
        return "text" if whole else "pending"
    return "whole"


_FENCE = re.compile(_begun(r"\s*", *"```", r"`*[\w.+ -]*\r?", r"\n"))
_CALLED = re.compile(_begun(r"\s*", *_COMMAND, r"\s", r"\s*", r"(?=[^\s<'\"=(.])"))


def _heredoc(command: str, reader: str) -> re.Pattern[str]:
    """`command <<END | reader`"""
    end = (r"(?P<quote>['\"]?)", r"(?P<end>\w+)", "(?P=quote)", r"[ \t]*")
    pipe = (r"\|", r"[ \t]*", *reader, r"[ \t]*") if reader else ()
    return re.compile(_begun(r"\s*", *command, r"[ \t]*", *"<<", r"-?[ \t]*", *end, *pipe, r"\n"))


_OPENERS: tuple[Callable[[str], _Verdict], ...] = (
    _read_json,
    partial(_read_pattern, _FENCE, lambda found: _Lines("`" * found[0].count("`"))),
    partial(_read_pattern, _CALLED, lambda _: _Plain(removed=True)),
    *(
        partial(_read_pattern, _heredoc(command, reader), lambda found: _Lines(found["end"]))
        for command in ("", _COMMAND, "cat")
        for reader in ("", _COMMAND)
    ),
)
