"""Content blocks of a streamed message, one after another: indexes have no gaps, and a block is
closed before the next one opens."""

from __future__ import annotations

from typing import Any

import msgspec

from antiphon.core.items import Document

TEXT = b'"text_delta","text"'
CITATIONS = b'"citations_delta","citation"'
THINKING = b'"thinking_delta","thinking"'
_SIGNATURE = b'"signature_delta","signature"'
_INPUT_JSON = b'"input_json_delta","partial_json"'
_DELTA = (
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,'
    b'"delta":{"type":%b:%b}}\n\n'
)
ITEM = "item"
"""The begin of what a block shows that is a whole item: a call, or a block of the provider's."""
EMPTY_TEXT: Document = {"type": "text", "text": ""}
EMPTY_THOUGHT: Document = {"type": "thinking", "thinking": "", "signature": ""}

_encode = msgspec.json.Encoder().encode


class ContentBlocks:
    """Renders the start, the deltas and the end of each block."""

    def __init__(self, *, ends_with_text: bool) -> None:
        """`ends_with_text`: state of the provider after the last text is left out."""
        self.has_input = False
        """Whether the open block has got a part of its input."""
        self._ends_with_text = ends_with_text
        self._waiting_state = ""
        """State after text, for the block after it."""
        self._is_after_text = False
        self._count = 0
        """How many blocks were opened; the last of them may be open."""
        self._open: tuple[object, ...] | None = None
        """What the open block shows: an item, or one part of it."""

    def show(self, shows: tuple[object, ...], block: Document) -> bytes:
        """Open a block, unless it is open already."""
        return b"" if self._open == shows else self.open(shows, block)

    def open(self, shows: tuple[object, ...], block: Document) -> bytes:
        """Open a block. The one before it is closed, unless it is that of an item: such a block is
        closed by the end of its item alone, and a call that was cut off has none."""
        if self._open is not None and self._open[0] == ITEM:
            self.leave_open()
        closing = self.close() + self._render_waiting_state()
        self._open = shows
        self._is_after_text = shows[0] == "text"
        self._count += 1
        self.has_input = False
        start = {"type": "content_block_start", "index": self._count - 1, "content_block": block}
        return closing + frame(start)

    def add_whole(self, shows: tuple[object, ...], block: Document) -> bytes:
        """A block without deltas."""
        return self.open(shows, block) + self.close()

    def close(self) -> bytes:
        if self._open is None:
            return b""
        self._open = None
        return frame({"type": "content_block_stop", "index": self._count - 1})

    def leave_open(self) -> None:
        """Never close the open block: a client runs a call as soon as its block is closed."""
        self._open = None

    def delta(self, opening: bytes, value: Any) -> bytes:
        """A delta of the open block; `opening` is its JSON up to the value."""
        return _DELTA % (self._count - 1, opening, _encode(value))

    def add_input(self, fragment: str) -> bytes:
        """A delta with a part of the input of a call."""
        self.has_input = True
        return self.delta(_INPUT_JSON, fragment)

    def add(self, delta: Document) -> bytes:
        """A delta that is given whole."""
        return frame({"type": "content_block_delta", "index": self._count - 1, "delta": delta})

    def end_thought(self, sealed: str) -> bytes:
        """The sealed state of a thought: a delta of its block, or a block of its own."""
        if self._open is not None:
            return self.delta(_SIGNATURE, sealed) + self.close()
        if self._is_after_text and self._ends_with_text:
            self._waiting_state = sealed
            return b""
        return self._render_state(sealed)

    def _render_state(self, sealed: str) -> bytes:
        opening = self.open(("thinking",), EMPTY_THOUGHT)
        return opening + self.delta(_SIGNATURE, sealed) + self.close()

    def _render_waiting_state(self) -> bytes:
        sealed = self._waiting_state
        self._waiting_state = ""
        return self._render_state(sealed) if sealed else b""


def frame(document: Document) -> bytes:
    """An event of the stream."""
    return b"event: %b\ndata: %b\n\n" % (document["type"].encode(), _encode(document))
