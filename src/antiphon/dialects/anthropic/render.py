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
    HostedToolEvent,
    Incomplete,
    InputDelta,
    ItemAdded,
    ItemDone,
    MCPArgumentsDelta,
    PartAdded,
    PartDone,
    ReasoningDelta,
    SummaryDelta,
    TextDelta,
)
from antiphon.core.items import CallItem, CustomToolCall, Document, Message, ReasoningItem
from antiphon.dialects.anthropic.errors import stream_error
from antiphon.dialects.anthropic.render_blocks import (
    CITATIONS,
    EMPTY_TEXT,
    EMPTY_THOUGHT,
    ITEM,
    TEXT,
    THINKING,
    ContentBlocks,
    frame,
)
from antiphon.dialects.anthropic.render_items import (
    call_arguments,
    call_block,
    compaction_block,
    is_call,
    is_compaction,
    is_kept_block,
    is_listing,
    is_server_call,
    is_unfinished,
    listing_block,
    render_citation,
    server_arguments,
    server_result_block,
    server_use_block,
)
from antiphon.dialects.anthropic.render_kept import KeptContent
from antiphon.dialects.anthropic.render_message import (
    end_of_message,
    kept_context,
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

    def __init__(
        self, input_tokens: int = 0, *, ends_with_text: bool = False, lists_tools: bool = False
    ) -> None:
        """`input_tokens`: an estimate for the start of the stream; the end has the exact number.
        `ends_with_text`: state of the provider after the last text is left out. `lists_tools`: the
        client gets the tools of each MCP server that was asked for them."""
        self._input_tokens = input_tokens
        self._lists_tools = lists_tools
        self._blocks = ContentBlocks(ends_with_text=ends_with_text)
        self._kept = KeptContent(self._blocks)
        self._response_id = ""
        self._renderers: Mapping[type, Callable[[Any], bytes]] = {
            TextDelta: self._render_text,
            ReasoningDelta: self._render_reasoning,
            ArgumentsDelta: self._render_arguments,
            MCPArgumentsDelta: self._render_arguments,
            InputDelta: self._render_input,
            SummaryDelta: self._render_summary,
            AnnotationAdded: self._render_annotation,
            ItemAdded: self._render_item_start,
            ItemDone: self._render_item_end,
            PartAdded: self._kept.open_text,
            PartDone: self._kept.end_text,
            HostedToolEvent: self._kept.add,
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

    # Text

    def _render_text(self, event: TextDelta) -> bytes:
        shows = ("text", event.output_index, event.content_index)
        return self._blocks.show(shows, EMPTY_TEXT) + self._blocks.delta(TEXT, event.delta)

    def _render_annotation(self, event: AnnotationAdded) -> bytes:
        citation = render_citation(event.annotation)
        if citation is None or self._kept.has_citations:
            return b""
        shows = ("text", event.output_index, event.content_index)
        return self._blocks.show(shows, EMPTY_TEXT) + self._blocks.delta(CITATIONS, citation)

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
        return self._blocks.show(shows, EMPTY_THOUGHT) + self._blocks.delta(THINKING, text)

    def _end_reasoning(self, item: ReasoningItem) -> bytes:
        sealed = item.encrypted_content
        if isinstance(sealed, str):
            return self._blocks.end_thought(sealed)
        return self._blocks.close()

    # Calls and searches

    def _render_item_start(self, event: ItemAdded) -> bytes:
        item = event.item
        shows = (ITEM, event.output_index)
        if is_call(item):
            block = call_block(item, self._response_id, event.output_index)
            return self._blocks.open(shows, block)
        if is_server_call(item):
            return self._blocks.open(shows, server_use_block(item))
        if is_kept_block(item):
            return self._kept.open_block(shows, item)
        return b""

    def _render_arguments(self, event: ArgumentsDelta | MCPArgumentsDelta) -> bytes:
        return self._blocks.add_input(event.delta) if event.delta else b""

    def _render_input(self, event: InputDelta) -> bytes:
        """Freeform input is the string of one argument: its begin, and then pieces of it."""
        opening = "" if self._blocks.has_input else '{"input":"'
        return self._blocks.add_input(opening + _encode(event.delta)[1:-1].decode())

    def _end_call(self, item: CallItem) -> bytes:
        if is_unfinished(item):
            self._blocks.leave_open()
            return b""
        rest = b""
        if not self._blocks.has_input:
            rest = self._blocks.add_input(call_arguments(item))
        elif isinstance(item, CustomToolCall):
            rest = self._blocks.add_input('"}')
        return rest + self._blocks.close()

    def _end_server_call(self, item: Document, output_index: int) -> bytes:
        has_input = self._blocks.has_input
        rest = b"" if has_input else self._blocks.add_input(server_arguments(item))
        closing = rest + self._blocks.close()
        return closing + self._blocks.add_whole(("result", output_index), server_result_block(item))

    def _render_item_end(self, event: ItemDone) -> bytes:
        item = event.item
        if isinstance(item, ReasoningItem):
            return self._end_reasoning(item)
        if isinstance(item, Message):
            return self._blocks.close()
        if is_call(item):
            return self._end_call(item)
        if is_compaction(item):
            return self._render_compaction(item)
        if is_kept_block(item):
            return self._kept.end_block(item)
        if is_server_call(item):
            return self._end_server_call(item, event.output_index)
        if self._lists_tools and is_listing(item):
            return self._blocks.add_whole(("listing", event.output_index), listing_block(item))
        return b""

    def _render_compaction(self, item: Document) -> bytes:
        block = compaction_block(item)
        empty = dict.fromkeys(block, None) | {"type": "compaction"}
        opening = self._blocks.open(("compaction",), empty)
        delta = {**block, "type": "compaction_delta"}
        return opening + self._blocks.add(delta) + self._blocks.close()

    # The message

    def _render_start(self, event: Created) -> bytes:
        response = event.response
        self._response_id = response.id
        usage = render_usage(response, self._input_tokens)
        message = {**message_head(response), "content": [], **_NO_END, "usage": usage}
        return frame({"type": "message_start", "message": message}) + PING

    def _render_end(self, event: Completed | Incomplete) -> bytes:
        response = event.response
        if response.status == "cancelled":
            return stream_error("server_error", "The response was cancelled.")
        delta = end_of_message(response, refusal_of(response.output))
        usage = render_usage(response)
        context = kept_context(response)
        end = {"type": "message_delta", "delta": delta, "usage": usage, **context}
        return self._blocks.close() + frame(end) + _MESSAGE_STOP

    def _render_failure(self, event: Failed) -> bytes:
        error = event.response.error
        if error is None:
            return stream_error("server_error", "The response has failed.")
        return stream_error(error.code, error.message)


_NO_END: Document = {"stop_reason": None, "stop_sequence": None}
_MESSAGE_STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
