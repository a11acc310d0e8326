"""Which call a piece of a Chat Completions tool call belongs to.

The wire says it by `index`; real servers leave it out, send 0 for every call, resend ids and
names, or give two calls one id. The rules, in order:

1. Same index: the same call, unless it brings an id that this call does not have, or begins anew
   (a name and arguments) after the known arguments were complete.
2. No index: the same id is the same call. A piece that names nothing goes on with the call that
   spoke last. A piece with a name is a new call, unless that call has just been named, in another
   chunk, and says nothing yet.
3. An id alone never makes two calls one: under another index it is another call.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from antiphon.core.stream.deltas import CallKind, ToolCall
from antiphon.core.stream.json_field import JSONProgress


class Piece(Struct, frozen=True):
    """One entry of `tool_calls`, read; `beside` if it is not the first one of its chunk."""

    index: int | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str = ""
    kind: CallKind = "function"
    beside: bool = False


class _Known:
    def __init__(self, position: int) -> None:
        self.position = position
        self.call_id: str | None = None
        self.unread: list[str] = []  # pieces of the arguments, until somebody asks about them
        self._arguments = JSONProgress()

    @property
    def arguments(self) -> JSONProgress:
        self._arguments.feed("".join(self.unread))
        self.unread.clear()
        return self._arguments

    def begins_anew(self, piece: Piece) -> bool:
        """The piece is a call of its own although it has the same place on the wire."""
        if piece.call_id and self.call_id:
            return piece.call_id != self.call_id
        return bool(piece.name and piece.arguments) and self.arguments.complete


class CallTracker:
    """Turns pieces into deltas whose index tells every call of the stream apart."""

    def __init__(self) -> None:
        self._calls: list[_Known] = []
        self._by_index: dict[int, list[_Known]] = {}
        self._last: _Known | None = None

    def feed(self, piece: Piece) -> ToolCall:
        known = self._last = self._find(piece) or self._begun(piece)
        known.call_id = known.call_id or piece.call_id
        known.unread.append(piece.arguments)
        return ToolCall(known.position, piece.call_id, piece.name, piece.arguments, piece.kind)

    def _begun(self, piece: Piece) -> _Known:
        known = _Known(len(self._calls))
        self._calls.append(known)
        if piece.index is not None:
            self._by_index.setdefault(piece.index, []).append(known)
        return known

    def _find(self, piece: Piece) -> _Known | None:
        if piece.index is None:
            return _owner(self._calls, piece) or self._spoke_last(piece)
        here = self._by_index.get(piece.index, [])
        going_on = here and not here[-1].begins_anew(piece)
        return _owner(here, piece) or (here[-1] if going_on else None)

    def _spoke_last(self, piece: Piece) -> _Known | None:
        last = self._last
        if last is None or (piece.call_id and last.call_id):
            return None
        just_named = last.arguments.empty and not piece.beside
        return last if just_named or not piece.name else None


def _owner(calls: Sequence[_Known], piece: Piece) -> _Known | None:
    """The call that has the id of this piece already."""
    return next((call for call in calls if piece.call_id and call.call_id == piece.call_id), None)
