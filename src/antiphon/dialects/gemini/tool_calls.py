"""Decode Gemini function calls: most come whole, some stream their arguments.

A streamed argument is a value and its JSON path (RFC 9535); a string may come in several pieces.
Paths come in document order, so the JSON text of the arguments can be written as they arrive. A
value that would have to be inserted before text already written makes the call incomplete.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from antiphon.core.deltas import Delta, ReasoningState, ToolCall, ToolEnd
from antiphon.dialects.gemini.messages import SIGNATURE
from antiphon.dialects.json_input import nonempty_string

Path: TypeAlias = tuple[str | int, ...]

_SEGMENT = re.compile(
    r"""\.([^.\[\]]+) | \[([0-9]{1,9})\] | \['((?:[^'\\]|\\.)*)'\] | \["((?:[^"\\]|\\.)*)"\]""",
    re.VERBOSE | re.DOTALL,
)


class CallReader:
    """`functionCall` objects → calls, numbered in the order of their arrival."""

    def __init__(self) -> None:
        self._count = 0
        self._open: _StreamedCall | None = None

    def feed(self, call: Mapping[str, Any], signature: str | None = None) -> Iterator[Delta]:
        """Read one object; `signature` is that of the part around it."""
        if self._starts_call(call):
            yield from self._end_open()
            if signature is not None:
                yield ReasoningState(SIGNATURE, signature, "tool")
            yield from self._start_call(call)
        if self._open is not None:
            # {"partialArgs": [{"jsonPath": "$.city", "stringValue": "U", "willContinue": true}],
            #  "willContinue": true}
            yield from self._open.feed(call.get("partialArgs"))
            if not _will_continue(call):  # {}, or the last arguments
                yield from self._end_open()

    def close(self) -> Iterator[Delta]:
        """End the stream: a call that is still open was cut."""
        if self._open is not None:
            yield ToolEnd(self._open.index, complete=False)
            self._open = None

    def _starts_call(self, call: Mapping[str, Any]) -> bool:
        """Whether an object starts a call, or belongs to the open one."""
        name = nonempty_string(call.get("name"))
        call_id = nonempty_string(call.get("id"))
        if self._open is None:
            # {} here is the end marker of a call that has ended already.
            return bool(name or call_id or call.get("partialArgs") or call.get("args"))
        # {"name": "look", "id": "x", "partialArgs": […]} again, with the same id: more of the call.
        # Without an id, a name always starts the next call.
        is_repeated = call_id is not None and call_id == self._open.call_id
        return name is not None and not is_repeated

    def _start_call(self, call: Mapping[str, Any]) -> Iterator[Delta]:
        name = nonempty_string(call.get("name"))
        call_id = nonempty_string(call.get("id"))
        index, self._count = self._count, self._count + 1
        if call.get("partialArgs") or _will_continue(call):
            # {"name": "look", "id": "x", "willContinue": true}, with or without "partialArgs"
            self._open = _StreamedCall(index, call_id)
            yield ToolCall(index, call_id, name)
        else:
            # {"name": "look", "args": {"x": 1}}: a whole call; without "args": no arguments
            yield ToolCall(index, call_id, name, _json(call.get("args") or {}))
            yield ToolEnd(index)

    def _end_open(self) -> Iterator[Delta]:
        if self._open is not None:
            yield from self._open.end()
            self._open = None


def _will_continue(document: Mapping[str, Any]) -> bool:
    return document.get("willContinue") is True


class _StreamedCall:
    """A call whose arguments are streamed."""

    def __init__(self, index: int, call_id: str | None) -> None:
        self.index = index
        self.call_id = call_id
        self._writer = ArgumentWriter()
        self._is_complete = True

    def feed(self, pieces: Any) -> Iterator[Delta]:
        for piece in pieces if isinstance(pieces, list) else ():
            text = self._writer.feed(piece) if self._is_complete else None
            self._is_complete = text is not None
            if text:
                yield ToolCall(self.index, arguments=text)

    def end(self) -> Iterator[Delta]:
        if self._is_complete:
            yield ToolCall(self.index, arguments=self._writer.close())
        yield ToolEnd(self.index, complete=self._is_complete)


class ArgumentWriter:
    """Values with their JSON paths → the JSON text of an object, piece by piece."""

    def __init__(self) -> None:
        self._started = False
        self._path: list[str | int] = []  # of the innermost open container
        self._members: list[set[str] | int] = []  # of each open container: keys, or item count
        self._string: Path | None = None  # path of the open string

    def feed(self, piece: Any) -> str | None:
        """Write a piece and return the added text; None if the piece cannot be written."""
        path = _parse_path(piece.get("jsonPath")) if isinstance(piece, dict) else ()
        if not path:
            return None
        text = piece.get("stringValue")
        if path == self._string:  # {"jsonPath": "$.city", "stringValue": "lm"} after "U"
            more = _json(text)[1:-1] if isinstance(text, str) else ""
            return more + self._close_string(piece)
        value = _value(piece)
        if value is None:
            return None
        opening = self._open_path(path)
        if opening is None:
            return None
        if not isinstance(text, str):
            return opening + value
        self._string = path
        return opening + value[:-1] + self._close_string(piece)

    def close(self) -> str:
        if not self._started:
            return "{}"
        return self._close_containers(0) + "}"

    def _close_string(self, piece: Mapping[str, Any]) -> str:
        if _will_continue(piece):
            return ""
        self._string = None
        return '"'

    def _close_containers(self, depth: int) -> str:
        """Close everything that is open below a depth."""
        text = "" if self._string is None else '"'
        self._string = None
        while len(self._path) > depth:
            text += "}" if isinstance(self._members.pop(), set) else "]"
            self._path.pop()
        return text

    def _open_path(self, path: Path) -> str | None:
        """Write what goes between the last value and this one; None if it is too late for it."""
        text = "" if self._started else "{"
        if not self._started:
            self._started = True
            self._members.append(set())
        *parents, leaf = path
        shared = _shared_length(self._path, parents)
        text += self._close_containers(shared)
        for depth in range(shared, len(parents)):
            member = self._add_member(parents[depth])
            if member is None:
                return None
            is_object = isinstance(path[depth + 1], str)
            text += member + ("{" if is_object else "[")
            self._path.append(parents[depth])
            self._members.append(set() if is_object else 0)
        member = self._add_member(leaf)
        return None if member is None else text + member

    def _add_member(self, segment: str | int) -> str | None:
        """Write what goes before a value in the innermost container; None if it cannot go there.

        A key must be new, and an index must be the next one.
        """
        members = self._members[-1]
        comma = "," if members else ""
        if isinstance(members, set):
            if not isinstance(segment, str) or segment in members:
                return None
            members.add(segment)
            return f"{comma}{_json(segment)}:"
        if segment != members:
            return None
        self._members[-1] = members + 1
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


def _parse_path(text: Any) -> Path:
    """The segments of a JSON path (`$.list[0]['a.b']`); empty if it does not name one value."""
    if not isinstance(text, str) or not text.startswith("$"):
        return ()
    segments: list[str | int] = []
    offset = 1
    while offset < len(text):
        segment = _SEGMENT.match(text, offset)
        if segment is None:
            return ()
        bare, index, *quoted = segment.groups()
        if index is not None:
            segments.append(int(index))
        else:
            segments.append(bare or re.sub(r"\\(.)", r"\1", next(filter(None, quoted), "")))
        offset = segment.end()
    return tuple(segments)


def _shared_length(one: Sequence[str | int], other: Sequence[str | int]) -> int:
    """How many leading segments two paths have in common."""
    length = min(len(one), len(other))
    return next((n for n in range(length) if one[n] != other[n]), length)
