"""Function calls of a Gemini answer: most come whole, some bring their arguments in pieces.

A piece is a value and the JSON path (RFC 9535) that it belongs to; a string may come in several.
Paths come in the order of the document, so the arguments can be written down as they arrive. A
piece that would have to be written before what is written already cannot be: such a call is cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from antiphon.core.stream.deltas import Delta, ReasoningState, ToolCall, ToolEnd
from antiphon.dialects.gemini.messages import SIGNATURE
from antiphon.dialects.json_input import string

Path: TypeAlias = tuple[str | int, ...]

_STEP = re.compile(
    r"""\.([^.\[\]]+) | \[([0-9]{1,9})\] | \['((?:[^'\\]|\\.)*)'\] | \["((?:[^"\\]|\\.)*)"\]""",
    re.VERBOSE | re.DOTALL,
)


class CallReader:
    """`functionCall` objects in, calls out; calls are numbered as they arrive."""

    def __init__(self) -> None:
        self._count = 0
        self._open: _OpenCall | None = None

    def feed(self, call: Mapping[str, Any], signature: str | None = None) -> Iterator[Delta]:
        """The signature is the one on the part that the call stands in."""
        name, call_id = string(call.get("name")), string(call.get("id"))
        pieces, goes_on = call.get("partialArgs"), call.get("willContinue") is True
        if self._open is None and not (name or call_id or pieces or call.get("args")):
            return  # the end of a call that has ended already
        if self._begins(name, call_id):
            yield from self._end()
            if signature is not None:
                yield ReasoningState(SIGNATURE, signature, "tool")
            index, self._count = self._count, self._count + 1
            if not pieces and not goes_on:
                yield ToolCall(index, call_id, name, _json(call.get("args") or {}))
                yield ToolEnd(index)
                return
            self._open = _OpenCall(index, call_id)
            yield ToolCall(index, call_id, name)
        assert self._open is not None
        yield from self._open.feed(pieces)
        if not goes_on:
            yield from self._end()

    def close(self) -> Iterator[Delta]:
        """Nothing more will come: a call that is still open was cut."""
        if self._open is not None:
            yield ToolEnd(self._open.index, complete=False)
            self._open = None

    def _begins(self, name: str | None, call_id: str | None) -> bool:
        if self._open is None:
            return True
        repeats = call_id is not None and call_id == self._open.call_id
        return name is not None and not repeats

    def _end(self) -> Iterator[Delta]:
        if self._open is not None:
            yield from self._open.end()
            self._open = None


class _OpenCall:
    """A call whose arguments come in pieces."""

    def __init__(self, index: int, call_id: str | None) -> None:
        self.index = index
        self.call_id = call_id
        self._writer = ArgumentWriter()
        self._readable = True

    def feed(self, pieces: Any) -> Iterator[Delta]:
        for piece in pieces if isinstance(pieces, list) else ():
            text = self._writer.feed(piece) if self._readable else None
            self._readable = text is not None
            if text:
                yield ToolCall(self.index, arguments=text)

    def end(self) -> Iterator[Delta]:
        if self._readable:
            yield ToolCall(self.index, arguments=self._writer.close())
        yield ToolEnd(self.index, complete=self._readable)


class ArgumentWriter:
    """Values with their paths in, the text of a JSON object out, piece by piece."""

    def __init__(self) -> None:
        self._begun = False
        self._path: list[str | int] = []  # of the innermost container that is open
        self._written: list[set[str] | int] = []  # in each open one: its keys, or how many items
        self._string: Path | None = None  # the string that is open

    def feed(self, piece: Any) -> str | None:
        """The text this piece adds; None if there is no place for it."""
        path = _path(piece.get("jsonPath")) if isinstance(piece, dict) else ()
        if not path:
            return None
        text = piece.get("stringValue")
        if path == self._string:
            more = _json(text)[1:-1] if isinstance(text, str) else ""
            return more + self._closed_string(piece)
        value = _value(piece)
        if value is None:
            return None
        opening = self._opening(path)
        if opening is None:
            return None
        if not isinstance(text, str):
            return opening + value
        self._string = path
        return opening + value[:-1] + self._closed_string(piece)

    def close(self) -> str:
        if not self._begun:
            return "{}"
        return self._closed(0) + "}"

    def _closed_string(self, piece: Mapping[str, Any]) -> str:
        if piece.get("willContinue") is True:
            return ""
        self._string = None
        return '"'

    def _closed(self, depth: int) -> str:
        """What ends everything that is open below a depth."""
        text = "" if self._string is None else '"'
        self._string = None
        while len(self._path) > depth:
            text += "}" if isinstance(self._written.pop(), set) else "]"
            self._path.pop()
        return text

    def _opening(self, path: Path) -> str | None:
        """What stands between the last value and this one; None if that cannot be."""
        text = "" if self._begun else "{"
        if not self._begun:
            self._begun = True
            self._written.append(set())
        *parents, leaf = path
        shared = _shared(self._path, parents)
        text += self._closed(shared)
        for place in range(shared, len(parents)):
            member = self._member(parents[place])
            if member is None:
                return None
            is_object = isinstance(path[place + 1], str)
            text += member + ("{" if is_object else "[")
            self._path.append(parents[place])
            self._written.append(set() if is_object else 0)
        member = self._member(leaf)
        return None if member is None else text + member

    def _member(self, step: str | int) -> str | None:
        """What goes before a value in the innermost container; None if it has no such place."""
        written = self._written[-1]
        comma = "," if written else ""
        if isinstance(written, set):
            if not isinstance(step, str) or step in written:
                return None
            written.add(step)
            return f"{comma}{_json(step)}:"
        if step != written:
            return None
        self._written[-1] = written + 1
        return comma


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _value(piece: Mapping[str, Any]) -> str | None:
    """The value of a piece as JSON; None if it has none."""
    match piece:
        case {"stringValue": str(value)}:
            return _json(value)
        case {"boolValue": bool(value)}:
            return _json(value)
        case {"numberValue": int(value) | float(value)}:
            return _json(value)
        case {"nullValue": _}:
            return "null"
    return None


def _path(text: Any) -> Path:
    """The steps of a JSON path; empty if it is none that a value could be found by."""
    if not isinstance(text, str) or not text.startswith("$"):
        return ()
    steps: list[str | int] = []
    place = 1
    while place < len(text):
        step = _STEP.match(text, place)
        if step is None:
            return ()
        bare, index, *quoted = step.groups()
        if index is not None:
            steps.append(int(index))
        else:
            steps.append(bare or re.sub(r"\\(.)", r"\1", next(filter(None, quoted), "")))
        place = step.end()
    return tuple(steps)


def _shared(one: Sequence[str | int], other: Sequence[str | int]) -> int:
    """How many steps two paths have in common."""
    length = min(len(one), len(other))
    return next((n for n in range(length) if one[n] != other[n]), length)
