"""Rendering of canonical events for clients of Messages: content blocks, one after another.

1. A block is closed before the next one opens, and indexes have no gaps. A call that was cut off is
   never closed: clients run a tool as soon as its block is closed.
2. The sealed state of a thought is its signature, in exactly one delta. State without a thought is
   an empty thinking block. After text it waits for the next block: some clients take the last one
   as the result, and get it with no state.
3. Arguments are sent as deltas only: clients ignore those of the block's start.
4. A response that ends has one `message_delta` with its usage; one that fails has an `error`, and
   nothing after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from antiphon.core.diagnostic import Diagnostic
from antiphon.core.events import (
    AnnotationAdded,
    ArgumentsDelta,
    Completed,
    Created,
    Failed,
    Incomplete,
    InputDelta,
    ItemAdded,
    ItemDone,
    ReasoningDelta,
    SummaryDelta,
    TextDelta,
)
from antiphon.core.items import CallItem, CustomToolCall, Document, Message, ReasoningItem
from antiphon.dialects.anthropic.errors import stream_error
from antiphon.dialects.anthropic.render_items import (
    call_arguments,
    call_block,
    compaction_block,
    is_call,
    is_compaction,
    is_search,
    is_unfinished,
    render_citation,
    search_input,
    search_result_block,
    search_use_block,
)
from antiphon.dialects.anthropic.render_message import (
    end_of_message,
    message_head,
    refusal_of,
    render_usage,
)
from antiphon.dialects.client_dialect import EventBatch

PING = b'event: ping\ndata: {"type":"ping"}\n\n'

_encode = msgspec.json.Encoder().encode


class MessagesRenderer:
    """Renders the events of one response as a stream of content blocks."""

    keepalive_diagnostic: Diagnostic | None = None
    """Clients of this format get `ping` events, as the API itself sends them."""

    def __init__(self, input_tokens: int = 0, *, ends_with_text: bool = False) -> None:
        """`input_tokens`: an estimate for the start of the stream; the end has the exact number.
        `ends_with_text`: state of the provider after the last text is left out."""
        self._input_tokens = input_tokens
        self._ends_with_text = ends_with_text
        self._waiting_state = ""
        """State after text, for the block after it."""
        self._is_after_text = False
        self._response_id = ""
        self._blocks = 0
        """How many blocks were opened; the last of them may be open."""
        self._open: tuple[object, ...] | None = None
        """What the open block shows: an item, or one part of it."""
        self._has_arguments = False
        self._renderers: Mapping[type, Callable[[Any], bytes]] = {
            TextDelta: self._render_text,
            ReasoningDelta: self._render_reasoning,
            ArgumentsDelta: self._render_arguments,
            InputDelta: self._render_input,
            SummaryDelta: self._render_summary,
            AnnotationAdded: self._render_annotation,
            ItemAdded: self._render_item_start,
            ItemDone: self._render_item_end,
            Created: self._render_start,
            Completed: self._render_end,
            Incomplete: self._render_end,
            Failed: self._render_failure,
        }

    def feed(self, batch: EventBatch) -> bytes:
        renderers = self._renderers
        return b"".join(
            renderers[type(event)](event) for event in batch.events if type(event) in renderers
        )

    def keepalive(self, last_number: int) -> bytes:
        return PING

    def close(self) -> bytes:
        return b""

    # Blocks

    def _open_block(self, shows: tuple[object, ...], block: Document) -> bytes:
        closing = self._close_block() + self._render_waiting_state()
        self._open = shows
        self._is_after_text = shows[0] == "text"
        self._blocks += 1
        start = {"type": "content_block_start", "index": self._blocks - 1, "content_block": block}
        return closing + _frame(start)

    def _close_block(self) -> bytes:
        if self._open is None:
            return b""
        self._open = None
        return _frame({"type": "content_block_stop", "index": self._blocks - 1})

    def _delta(self, opening: bytes, value: Any) -> bytes:
        """A delta of the open block; `opening` is its JSON up to the value."""
        return _DELTA % (self._blocks - 1, opening, _encode(value))

    # Text

    def _render_text(self, event: TextDelta) -> bytes:
        opening = self._open_text(event.output_index, event.content_index)
        return opening + self._delta(_TEXT, event.delta)

    def _open_text(self, output_index: int, content_index: int) -> bytes:
        shows = ("text", output_index, content_index)
        if self._open == shows:
            return b""
        return self._open_block(shows, {"type": "text", "text": ""})

    def _render_annotation(self, event: AnnotationAdded) -> bytes:
        citation = render_citation(event.annotation)
        if citation is None:
            return b""
        opening = self._open_text(event.output_index, event.content_index)
        return opening + self._delta(_CITATIONS, citation)

    # Reasoning

    def _render_reasoning(self, event: ReasoningDelta) -> bytes:
        return self._render_thought(event.output_index, ("raw", event.content_index), event.delta)

    def _render_summary(self, event: SummaryDelta) -> bytes:
        part = ("summary", event.summary_index)
        return self._render_thought(event.output_index, part, event.delta)

    def _render_thought(self, output_index: int, part: tuple[str, int], text: str) -> bytes:
        """A part of a thought is a block. The one before it is closed without a signature: that of
        the last one is for all of them."""
        shows = ("thinking", output_index, part)
        opening = b"" if self._open == shows else self._open_block(shows, _EMPTY_THOUGHT)
        return opening + self._delta(_THINKING, text)

    def _end_reasoning(self, item: ReasoningItem) -> bytes:
        sealed = item.encrypted_content
        if not isinstance(sealed, str):
            return self._close_block()
        if self._open is not None:
            return self._delta(_SIGNATURE, sealed) + self._close_block()
        if self._is_after_text and self._ends_with_text:
            self._waiting_state = sealed
            return b""
        return self._render_state(sealed)

    def _render_state(self, sealed: str) -> bytes:
        opening = self._open_block(("thinking",), _EMPTY_THOUGHT)
        return opening + self._delta(_SIGNATURE, sealed) + self._close_block()

    def _render_waiting_state(self) -> bytes:
        sealed = self._waiting_state
        self._waiting_state = ""
        return self._render_state(sealed) if sealed else b""

    # Calls and searches

    def _render_item_start(self, event: ItemAdded) -> bytes:
        item = event.item
        shows = ("item", event.output_index)
        if is_call(item):
            self._has_arguments = False
            block = call_block(item, self._response_id, event.output_index)
            return self._open_block(shows, block)
        if is_search(item):
            return self._open_block(shows, search_use_block(item))
        return b""

    def _render_arguments(self, event: ArgumentsDelta) -> bytes:
        if not event.delta:
            return b""
        self._has_arguments = True
        return self._arguments_delta(event.delta)

    def _render_input(self, event: InputDelta) -> bytes:
        """Freeform input is the string of one argument: its begin, and then pieces of it."""
        opening = "" if self._has_arguments else '{"input":"'
        self._has_arguments = True
        return self._arguments_delta(opening + _encode(event.delta)[1:-1].decode())

    def _arguments_delta(self, fragment: str) -> bytes:
        return self._delta(_INPUT_JSON, fragment)

    def _end_call(self, item: CallItem) -> bytes:
        if is_unfinished(item):
            self._open = None  # and never closed: the client would run the call
            return b""
        rest = b""
        if not self._has_arguments:
            rest = self._arguments_delta(call_arguments(item))
        elif isinstance(item, CustomToolCall):
            rest = self._arguments_delta('"}')
        return rest + self._close_block()

    def _end_search(self, item: Document, output_index: int) -> bytes:
        query = self._arguments_delta(_encode(search_input(item)).decode())
        result = self._open_block(("result", output_index), search_result_block(item))
        return query + result + self._close_block()

    def _render_item_end(self, event: ItemDone) -> bytes:
        item = event.item
        if isinstance(item, ReasoningItem):
            return self._end_reasoning(item)
        if isinstance(item, Message):
            return self._close_block()
        if is_call(item):
            return self._end_call(item)
        if is_compaction(item):
            return self._render_compaction(item)
        return self._end_search(item, event.output_index) if is_search(item) else b""

    def _render_compaction(self, item: Document) -> bytes:
        block = compaction_block(item)
        empty = dict.fromkeys(block, None) | {"type": "compaction"}
        opening = self._open_block(("compaction",), empty)
        delta = {**block, "type": "compaction_delta"}
        made = {"type": "content_block_delta", "index": self._blocks - 1, "delta": delta}
        return opening + _frame(made) + self._close_block()

    # The message

    def _render_start(self, event: Created) -> bytes:
        response = event.response
        self._response_id = response.id
        usage = render_usage(response, self._input_tokens)
        message = {**message_head(response), "content": [], **_NO_END, "usage": usage}
        return _frame({"type": "message_start", "message": message}) + PING

    def _render_end(self, event: Completed | Incomplete) -> bytes:
        response = event.response
        if response.status == "cancelled":
            return stream_error("server_error", "The response was cancelled.")
        delta = end_of_message(response, refusal_of(response.output))
        end = {"type": "message_delta", "delta": delta, "usage": render_usage(response)}
        return self._close_block() + _frame(end) + _MESSAGE_STOP

    def _render_failure(self, event: Failed) -> bytes:
        error = event.response.error
        if error is None:
            return stream_error("server_error", "The response has failed.")
        return stream_error(error.code, error.message)


_DELTA = (
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,'
    b'"delta":{"type":%b:%b}}\n\n'
)
_TEXT = b'"text_delta","text"'
_CITATIONS = b'"citations_delta","citation"'
_THINKING = b'"thinking_delta","thinking"'
_SIGNATURE = b'"signature_delta","signature"'
_INPUT_JSON = b'"input_json_delta","partial_json"'
_EMPTY_THOUGHT: Document = {"type": "thinking", "thinking": "", "signature": ""}
_NO_END: Document = {"stop_reason": None, "stop_sequence": None}
_MESSAGE_STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'


def _frame(document: Document) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (document["type"].encode(), _encode(document))
