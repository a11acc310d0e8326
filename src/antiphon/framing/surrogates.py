r"""Joining of surrogate pairs that a provider splits over two frames.

A server may cut its text inside a character: one frame has `"content":"\ud83d"`, the next one
`"content":"\ude00"`. A frame whose string ends with the first half waits for the next frame with a
string under the same key, and takes the second half from its beginning. A half without its other
half stays where it is; the decoder replaces it.

The work is linear in a frame, whatever it holds: the event loop does it.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct, structs

from antiphon.framing.sse import Frame

_ENDS_WITH_HIGH = re.compile(rb'\\u[dD][89abAB][0-9a-fA-F]{2}"')
_HIGH = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}")
_LOW = re.compile(rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_STRING = re.compile(rb'"((?:[^"\\]++|\\.)*+)(?:"(\s*+:)?|\\?(\Z))', re.DOTALL)
"""A string, which may be the key of what follows; the last one may have no end."""
_ESCAPE_LENGTH = 6
_MAX_WAITING = 4
"""How many frames may wait: keep-alives come between two deltas, and little else."""
_MAX_BYTES = 256 * 1024
"""Of a frame that is searched for halves: a piece of a text is much shorter."""
_NOT_JOINED = frozenset({b"token"})
"""Keys of strings that are not pieces of one text: the tokens of log probabilities."""


class _ByteFramer(Protocol):
    def feed(self, chunk: bytes) -> list[Frame]: ...
    def close(self) -> list[Frame]: ...


class SurrogateJoiner:
    """A framer whose frames have the characters that the server split over two of them."""

    def __init__(self, framer: _ByteFramer) -> None:
        self._framer = framer
        self._waiting: list[Frame] = []  # the first one ends with half a character

    def feed(self, chunk: bytes) -> list[Frame]:
        return [out for frame in self._framer.feed(chunk) for out in self._feed(frame)]

    def close(self) -> list[Frame]:
        frames = [out for frame in self._framer.close() for out in self._feed(frame)]
        return frames + self._release()

    def _release(self) -> list[Frame]:
        released, self._waiting = self._waiting, []
        return released

    def _feed(self, frame: Frame) -> list[Frame]:
        if not self._waiting:
            return self._hold_or_pass(frame)
        pairs = _find_pairs(self._waiting[0].data, frame.data)
        is_unrelated = not pairs and frame.data[:1] == b"{"
        if is_unrelated and len(self._waiting) < _MAX_WAITING:
            self._waiting.append(frame)
            return []
        first, second = _move_halves(self._waiting[0], frame, pairs)
        rest = self._release()[1:]
        return [first, *rest, *self._hold_or_pass(second)]

    def _hold_or_pass(self, frame: Frame) -> list[Frame]:
        if _ENDS_WITH_HIGH.search(frame.data) and any(map(_ends_with_high, _strings(frame.data))):
            self._waiting.append(frame)
            return []
        return [frame]


class _StringValue(Struct, frozen=True):
    """A string value in a JSON document: the key before it, its position and its escaped text."""

    key: bytes
    start: int
    text: bytes


def _strings(data: bytes) -> Iterator[_StringValue]:
    """The string values of a document that are not empty; those in an array have its key."""
    key = b""
    for found in _STRING.finditer(data) if len(data) <= _MAX_BYTES else ():
        if found[2]:
            key = found[1]
        elif found[1] and found[3] is None and key not in _NOT_JOINED:
            yield _StringValue(key, found.start(1), found[1])


def _ends_with_high(string: _StringValue) -> bool:
    """Whether a string ends with the escape of a first half: `\\ud83d`, but not `\\\\ud83d`."""
    before, escape = string.text[:-_ESCAPE_LENGTH], string.text[-_ESCAPE_LENGTH:]
    backslashes = len(before) - len(before.rstrip(b"\\"))
    return _HIGH.fullmatch(escape) is not None and backslashes % 2 == 0


def _find_pairs(first: bytes, second: bytes) -> list[tuple[_StringValue, _StringValue]]:
    """Each string that ends with a first half, and the string under the same key that follows."""
    following: defaultdict[bytes, deque[_StringValue]] = defaultdict(deque)
    for each in _strings(second):
        following[each.key].append(each)
    halves = filter(_ends_with_high, _strings(first))
    return [(each, following[each.key].popleft()) for each in halves if following[each.key]]


def _move_halves(
    first: Frame, second: Frame, pairs: Sequence[tuple[_StringValue, _StringValue]]
) -> tuple[Frame, Frame]:
    """Move the second halves of characters from the second frame to the first."""
    added: list[_Change] = []
    removed: list[_Change] = []
    for string, following in pairs:
        if low := _LOW.match(following.text):
            end = string.start + len(string.text)
            added.append(_Change(end, end, low[0]))
            removed.append(_Change(following.start, following.start + _ESCAPE_LENGTH, b""))
    head, tail = _apply(first.data, added), _apply(second.data, sorted(removed))
    return structs.replace(first, data=head), structs.replace(second, data=tail)


class _Change(NamedTuple):
    """New bytes in place of some of a frame."""

    start: int
    end: int
    data: bytes


def _apply(data: bytes, changes: Sequence[_Change]) -> bytes:
    """Apply changes that are in the order of their places."""
    pieces: list[bytes] = []
    at = 0
    for start, end, new in changes:
        pieces += (data[at:start], new)
        at = end
    return b"".join([*pieces, data[at:]])
