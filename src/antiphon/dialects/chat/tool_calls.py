"""Assignment of `tool_calls` fragments to calls in a Chat Completions stream.

By the documentation, `index` identifies the call. Real servers leave it out, send 0 for every call,
repeat ids and names, or give two calls the same id. `CallTracker` has a method for each case.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import msgspec
from msgspec import Struct

from antiphon.core.deltas import CallKind, ToolCall
from antiphon.core.stream.json_field import JSONProgress

_SPACES = (" ", "\t", "\n", "\r")  # the white space of JSON


class CallFragment(Struct, frozen=True):
    """One entry of `tool_calls`."""

    index: int | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str = ""
    kind: CallKind = "function"
    first_in_chunk: bool = True


class _TrackedCall:
    __slots__ = (
        "_arguments",
        "_pieces",
        "_repeats",
        "_scanned",
        "call_id",
        "other_ids",
        "position",
    )

    def __init__(self, position: int) -> None:
        self.position = position
        self.call_id: str | None = None
        self.other_ids: set[str] = set()
        """Ids of later fragments, where a server makes new ones."""
        self._pieces: list[str] = []
        self._repeats = False  # whether a piece has begun with all the pieces before it
        self._scanned = 0  # how many pieces `arguments` has seen
        self._arguments = JSONProgress()

    @property
    def arguments(self) -> JSONProgress:
        """The state of the arguments, scanned only when a decision depends on it."""
        self._arguments.feed("".join(self._pieces[self._scanned :]))
        self._scanned = len(self._pieces)
        return self._arguments

    def add(self, fragment: CallFragment) -> str:
        """Take a fragment; return the new part of its arguments."""
        self.call_id = self.call_id or fragment.call_id
        if fragment.call_id and fragment.call_id != self.call_id:
            self.other_ids.add(fragment.call_id)
        if fragment.kind == "function":
            return self.write(fragment.arguments)
        self._pieces.append(fragment.arguments)
        return fragment.arguments

    def write(self, piece: str) -> str:
        """Take a piece of the arguments of a function; return what is new in it.

        Some servers send all of them again at the end, in a spelling of their own, or again with
        every piece. vLLM: {"city":"Ro and then {"city": "Rome"}.
        """
        begins = piece[:1]
        if begins == "{" and self._pieces:
            piece = self._leave_out_repetition(piece)
        elif begins == '"' and self.arguments.complete:
            # LiteLLM, at the end: "{\"city\": \"Rome\"}"
            piece = self._leave_out_repetition(_decode_string(piece)) and piece
        self._pieces.append(piece)
        return piece

    def _leave_out_repetition(self, piece: str) -> str:
        written = chain.from_iterable(self._pieces)
        rest = _find_rest(written, piece, may_nest=not self._repeats)
        if rest is None:
            return piece
        is_more = bool(rest.strip())
        if self.arguments.complete:
            return piece if is_more else ""
        if is_more:
            self._repeats = True
        return rest if self._repeats else piece

    def is_followed_by_new_call(self, fragment: CallFragment) -> bool:
        """Whether a fragment with the same index, and not with this call's id, is another call."""
        # A second id: {"index":0,"id":"a",…} {"index":0,"id":"b",…}. Without a name, and while the
        # arguments are open, it is a new id of the same call.
        if fragment.call_id and self.call_id:
            return bool(fragment.name) or self.arguments.complete
        # No ids, but a name and arguments after complete arguments:
        # {"index":0,"function":{"name":"f","arguments":"{}"}} and the same again
        return bool(fragment.name and fragment.arguments) and self.arguments.complete


class CallTracker:
    """Turns fragments into deltas whose `index` is unique for every call of the stream."""

    def __init__(self) -> None:
        self._calls: list[_TrackedCall] = []
        self._by_index: dict[int, list[_TrackedCall]] = {}
        self._latest: _TrackedCall | None = None
        self.is_list = False
        """Whether calls have come in a list: `tool_calls`, not `function_call`."""

    def note_list(self) -> None:
        """Note that calls come in a list: what else a chunk says of calls repeats it."""
        self.is_list = True

    @property
    def count(self) -> int:
        """How many calls have begun."""
        return len(self._calls)

    def feed(self, fragment: CallFragment) -> ToolCall:
        call = self._latest = self._find(fragment) or self._start(fragment)
        written = call.add(fragment)
        call_id = fragment.call_id and call.call_id  # always the first one
        return ToolCall(call.position, call_id, fragment.name, written, fragment.kind)

    def continue_call(self, index: int, arguments: str) -> ToolCall | None:
        """`feed` of a fragment without an id and a name; None if no call has this index."""
        calls = self._by_index.get(index)
        if not calls:
            return None
        call = self._latest = calls[-1]
        return ToolCall(call.position, None, None, call.write(arguments))

    def _start(self, fragment: CallFragment) -> _TrackedCall:
        call = _TrackedCall(len(self._calls))
        self._calls.append(call)
        if fragment.index is not None:
            self._by_index.setdefault(fragment.index, []).append(call)
        return call

    def _find(self, fragment: CallFragment) -> _TrackedCall | None:
        """The call that a fragment continues; None if it starts one."""
        if fragment.index is not None:
            return self._find_by_index(fragment, self._by_index.get(fragment.index, ()))
        return _find_by_id(self._calls, fragment) or self._continue_latest(fragment)

    def _find_by_index(
        self, fragment: CallFragment, calls: Sequence[_TrackedCall]
    ) -> _TrackedCall | None:
        """`calls` have this index; an id is looked up among them only.

        The same id under another index is another call:
        {"index":0,"id":"a",…} {"index":1,"id":"a",…}
        """
        if not calls:
            return None
        # Every index is 0, interleaved by id:
        # {"index":0,"id":"a",…} {"index":0,"id":"b",…} {"index":0,"id":"a","function":{…}}
        same_id = _find_by_id(calls, fragment)
        if same_id is not None:
            return same_id
        return None if calls[-1].is_followed_by_new_call(fragment) else calls[-1]

    def _continue_latest(self, fragment: CallFragment) -> _TrackedCall | None:
        """Without an index and a known id, only the call of the latest fragment can go on."""
        latest = self._latest
        if latest is None or (fragment.call_id and latest.call_id):
            return None
        # Arguments alone: {"function":{"arguments":"}"}}, or a late id: {"id":"a"}
        if not fragment.name:
            return latest
        # The rest of a name, in a chunk of its own, before any arguments:
        # {"function":{"name":"get_"}} {"function":{"name":"weather","arguments":"{}"}}
        return latest if fragment.first_in_chunk and latest.arguments.empty else None


def _find_by_id(calls: Sequence[_TrackedCall], fragment: CallFragment) -> _TrackedCall | None:
    if not fragment.call_id:
        return None
    return next(
        (
            call
            for call in calls
            if call.call_id == fragment.call_id or fragment.call_id in call.other_ids
        ),
        None,
    )


def _decode_string(text: str) -> str:
    try:
        return msgspec.json.decode(text, type=str)
    except (msgspec.DecodeError, UnicodeError):
        return text


def _find_rest(written: Iterable[str], piece: str, *, may_nest: bool) -> str | None:
    """What follows in a piece that begins with all that was written, however spaced; None if it
    does not. `may_nest`: nor if it may be a value of its own, `{"a":` `{"a":1}`; elsewhere JSON
    has no such piece."""
    position = 0
    quoted = escaped = False
    last = ""
    for character in written:
        if not quoted and character in _SPACES:
            continue
        while not quoted and piece.startswith(_SPACES, position):
            position += 1
        if piece[position : position + 1] != character:
            return None
        position += 1
        last = character
        quoted ^= character == '"' and not escaped
        escaped = quoted and character == "\\" and not escaped
    is_value = not quoted and last in (":", ",", "[")
    return None if not last or (may_nest and is_value) else piece[position:]
