"""Anthropic Messages decoder: events and whole bodies become deltas, in the order of the blocks.

It never raises: an error object is a `Failure`, an unreadable frame is a protocol `Failure`, and
anything unknown is an `Extra`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw, Struct

from antiphon.core.deltas import (
    BlockStart,
    Delta,
    Extra,
    Failure,
    Finish,
    ReasoningState,
    ResponseMembers,
    Start,
    ToolCall,
    Usage,
)
from antiphon.core.faults.classify import classify_document
from antiphon.core.faults.fault import ProviderFault, protocol_fault
from antiphon.core.items import Document
from antiphon.dialects.anthropic.blocks import (
    REDACTED,
    annotate,
    block_type,
    extend,
    make_state,
)
from antiphon.dialects.anthropic.kept_blocks import (
    KeptBlock,
    KeptText,
    make_extra,
    other_members,
)
from antiphon.dialects.content_blocks import ContentBlocks, OpaqueBlock
from antiphon.dialects.json_input import (
    NULL,
    UNREADABLE,
    decode_repaired,
    fail_unreadable,
    nonempty_string,
    report_unreadable,
)
from antiphon.dialects.refusal import read_refusal
from antiphon.dialects.service_tier import read_service_tier
from antiphon.dialects.usage import count
from antiphon.framing.sse import Frame

# Members are `Any`: an unexpected type in one of them must not fail the whole event.

_NO_OUTPUT = frozenset({"server_tool_use", "web_search_tool_result", "fallback"})
"""Blocks that may be left out: those of the provider's own search (what it has found is in the
citations of the text), and the mark that another model has continued."""


class _Event(Struct):
    type: Any = None
    index: Any = None
    content_block: Raw = NULL
    delta: Any = None
    message: Raw = NULL
    usage: Any = None
    context_management: Any = None
    error: Any = None


class _Message(Struct):
    type: Any = None
    id: Any = None
    model: Any = None
    content: list[Raw] | None = None
    stop_reason: Any = None
    stop_sequence: Any = None
    stop_details: Any = None
    container: Any = None
    context_management: Any = None
    usage: Any = None
    error: Any = None


class _ToolUse(Struct):
    input: Raw = NULL


_decode_event = msgspec.json.Decoder(_Event).decode
_decode_message = msgspec.json.Decoder(_Message).decode
_decode_tool_use = msgspec.json.Decoder(_ToolUse).decode
_decode_document = msgspec.json.Decoder().decode

_NAMED = frozenset("type id role model content stop_sequence usage error".split())
"""Members of a message that have a canonical name."""
_CUTS = ("max_tokens", "model_context_window_exceeded", "refusal")
"""Reasons that may end a message within a block."""

# The block that a delta implies, for servers that leave out `content_block_start`.
_IMPLIED_BLOCKS: Mapping[str, Raw] = {
    "text_delta": Raw(b'{"type":"text"}'),
    "thinking_delta": Raw(b'{"type":"thinking"}'),
    "signature_delta": Raw(b'{"type":"thinking"}'),
}


class AnthropicDecoder:
    """Decoder of one streamed response."""

    def __init__(self, *, keeps_blocks: bool = False) -> None:
        """`keeps_blocks`: for a client of the same format."""
        self._blocks = ContentBlocks(annotate)
        self._usage = UsageCounter()
        self._keeps_blocks = keeps_blocks
        self._kept = 0
        """How many blocks were passed on as they are."""
        self._finished = False
        self._message: Mapping[str, Any] = {}
        """The message as the stream has begun it."""
        self.ended = False
        """The provider has marked the end of the stream; nothing more will come."""

    def feed(self, frame: Frame) -> list[Delta]:
        data = frame.data
        if data == b"[DONE]":  # from routers, although this format has `message_stop`
            self.ended = True
            return []
        try:
            event, data = decode_repaired(_decode_event, data)
        except UNREADABLE:
            return report_unreadable(data, finished=self._finished)
        name = nonempty_string(event.type) or frame.event
        if event.error is not None or name == "error":
            return [Failure(_fault(data))]
        handle = _EVENTS.get(name)
        return [Extra(name or "event", _document(data))] if handle is None else handle(self, event)

    def close(self) -> list[Delta]:
        """The connection has ended; a stream that was cut off has nothing to add."""
        return []

    # Events

    def _message_start(self, event: _Event) -> list[Delta]:
        data = _repaired(bytes(event.message))
        started = _decode_document(data)
        message = started if isinstance(started, dict) else {}
        self._message = message
        start = Start(nonempty_string(message.get("model")), nonempty_string(message.get("id")))
        deltas: list[Delta] = [start, *self._usage.feed(message.get("usage"))]
        # A message that goes on in the container of an earlier one may come whole, with its end.
        has_blocks = isinstance(message.get("content"), list)
        for index, raw in enumerate(_decode_message(data).content or () if has_blocks else ()):
            deltas += [*self.open_block(index, raw), *self.close_block(index)]
        return deltas

    def _block_start(self, event: _Event) -> list[Delta]:
        return self.open_block(_index(event), event.content_block)

    def _block_delta(self, event: _Event) -> list[Delta]:
        index = _index(event)
        delta = event.delta
        opened: list[Delta] = []
        if self._blocks[index] is None:
            implied = _IMPLIED_BLOCKS.get(block_type(delta))
            if implied is not None:
                opened = self.open_block(index, implied)
        return opened + self._blocks.measure(extend(self._blocks[index], delta))

    def _block_stop(self, event: _Event) -> list[Delta]:
        return self.close_block(_index(event))

    def _message_delta(self, event: _Event) -> list[Delta]:
        message = event.delta if isinstance(event.delta, dict) else {}
        if event.context_management is not None:
            message = message | {"context_management": event.context_management}
        return self.finish(message, event.usage)

    def _message_stop(self, event: _Event) -> list[Delta]:
        self.ended = True
        return [] if self._finished else self.finish(self._message, None)

    def _ping(self, event: _Event) -> list[Delta]:
        return []

    # Also used to decode whole responses

    def open_block(self, index: int, raw: Raw) -> list[Delta]:
        """Open a block; one that is still open at this index is closed first."""
        closing = self.close_block(index)
        return closing + self._blocks.measure(self._open_block(index, _repaired(bytes(raw))))

    def _open_block(self, index: int, data: bytes) -> list[Delta]:
        block = _decode_document(data)
        match block_type(block):
            case "text":
                return self._open_text(index, block)
            case "thinking":
                return self._open_thinking(index, block)
            case "tool_use":
                return self._open_call(index, block, data)
            case "redacted_thinking":
                self._blocks.open(index, OpaqueBlock())
                self._blocks.end_message()
                return [ReasoningState(REDACTED, block, "block")]
            case unknown if unknown and self._keeps_blocks:
                self._kept += 1
                kept = KeptBlock(self._kept, block)
                self._blocks.open(index, kept)
                return kept.open()
            case unknown:
                self._blocks.open(index, OpaqueBlock())
                dropped = bool(unknown) and unknown not in _NO_OUTPUT
                return [Extra(unknown or "content_block", block, is_output=dropped)]

    def _open_text(self, index: int, block: Document) -> list[Delta]:
        cited = block.get("citations")
        citations = cited if isinstance(cited, list) else ()
        opened = self._blocks.new_text(citations)
        members = other_members(block, "text") if self._keeps_blocks else {}
        if members or (self._keeps_blocks and self._blocks.has_text):
            opened = KeptText(annotate, citations, members)
        self._blocks.open(index, opened)
        return opened.write(block.get("text"))

    def _open_thinking(self, index: int, block: Document) -> list[Delta]:
        opened = self._blocks.new_reasoning(partial(make_state, block))
        self._blocks.open(index, opened)
        opened.sign(nonempty_string(block.get("signature")) or "")
        return opened.write(nonempty_string(block.get("thinking")) or "")

    def _open_call(self, index: int, block: Document, data: bytes) -> list[Delta]:
        # The original bytes: decoding and encoding again could change numbers.
        arguments = bytes(_decode_tool_use(data).input).decode()
        number, opened = self._blocks.new_call("{}" if arguments == "null" else arguments)
        self._blocks.open(index, opened)
        call = ToolCall(
            number, nonempty_string(block.get("id")), nonempty_string(block.get("name"))
        )
        members = other_members(block, "id", "name", "input") if self._keeps_blocks else {}
        return [BlockStart("call", make_extra(members)), call] if members else [call]

    def close_block(self, index: int) -> list[Delta]:
        return self._blocks.close(index)

    def finish(self, message: Mapping[str, Any], usage: Any) -> list[Delta]:
        """Usage and the finish reason, from a `message_delta` or a whole message."""
        reason = nonempty_string(message.get("stop_reason"))
        deltas: list[Delta] = []
        if reason is not None:
            self._finished = True
            deltas += self._blocks.close_all(is_cut=reason in _CUTS)
        deltas += self._usage.feed(usage)
        deltas += read_refusal(reason, message.get("stop_details"))
        match message.get("stop_details"):
            case {"reason": "content_filter"} if reason is not None:  # of our own renderer
                reason = "content_filter"
        extras = ("stop_details", "container")
        deltas += [Extra(name, message[name]) for name in extras if message.get(name) is not None]
        if self._keeps_blocks:
            deltas.append(self._members(message))
        if reason is None:
            return deltas
        return [*deltas, Finish(reason, nonempty_string(message.get("stop_sequence")))]

    def _members(self, message: Mapping[str, Any]) -> ResponseMembers:
        """What only this format says of the response."""
        others = {
            name: value
            for name, value in message.items()
            if name not in _NAMED and value is not None
        }
        return ResponseMembers(make_extra({**others, "usage": self._usage.others}))


_EVENTS: Mapping[str, Callable[[AnthropicDecoder, _Event], list[Delta]]] = {
    "content_block_delta": AnthropicDecoder._block_delta,
    "content_block_start": AnthropicDecoder._block_start,
    "content_block_stop": AnthropicDecoder._block_stop,
    "message_start": AnthropicDecoder._message_start,
    "message_delta": AnthropicDecoder._message_delta,
    "message_stop": AnthropicDecoder._message_stop,
    "ping": AnthropicDecoder._ping,
}


def decode(body: bytes, *, keeps_blocks: bool = False) -> list[Delta]:
    """Decode a whole response, its items in the order of its blocks."""
    try:
        message, body = decode_repaired(_decode_message, body)
    except UNREADABLE:
        return [fail_unreadable(body)]
    if message.error is not None or message.type == "error":
        return [Failure(_fault(body))]
    decoder = AnthropicDecoder(keeps_blocks=keeps_blocks)
    deltas: list[Delta] = [Start(nonempty_string(message.model), nonempty_string(message.id))]
    for index, raw in enumerate(message.content or ()):
        deltas += [*decoder.open_block(index, raw), *decoder.close_block(index)]
    return deltas + decoder.finish(msgspec.structs.asdict(message), message.usage)


def _repaired(data: bytes) -> bytes:
    """A part of a document, as JSON that can be decoded: the first pass only skipped over it."""
    try:
        return decode_repaired(_decode_document, data)[1]
    except UNREADABLE:
        return bytes(NULL)


def _document(data: bytes) -> Any:
    return _decode_document(_repaired(data))


def _index(event: _Event) -> int:
    return event.index if isinstance(event.index, int) else -1


def _fault(data: bytes) -> ProviderFault:
    fault = classify_document(_document(data))
    return fault or protocol_fault("The provider reported an error without any details.")


_COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)
_COUNTED = frozenset({*_COUNTS, "service_tier"})
_CACHED = ("cache_read_input_tokens", "cache_creation_input_tokens")


class UsageCounter:
    """Accumulated counts: each event carries totals so far, and may leave some out."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(_COUNTS, 0)
        self._thinking_tokens = 0
        self.others: Document = {}
        """Members that count something else."""

    def feed(self, usage: Any) -> Iterator[Delta]:
        if not isinstance(usage, dict):
            return
        counts = self._counts
        for name in _COUNTS:
            counts[name] = count(usage.get(name)) or counts[name]
        if usage.get("input_tokens") == 0 and any(count(usage.get(name)) for name in _CACHED):
            counts["input_tokens"] = 0  # all of the input was cached; the start had an estimate
        match usage.get("output_tokens_details"):
            case {"thinking_tokens": tokens}:
                self._thinking_tokens = count(tokens) or self._thinking_tokens
        self.others |= {name: usage[name] for name in usage if name not in _COUNTED}
        yield self._total()
        yield from read_service_tier(usage.get("service_tier"))

    def _total(self) -> Usage:
        counts = self._counts
        cached = counts["cache_read_input_tokens"]
        written = counts["cache_creation_input_tokens"]
        return Usage(
            input_tokens=counts["input_tokens"] + cached + written,  # the API counts them apart
            output_tokens=counts["output_tokens"],
            cached_tokens=cached,
            cache_write_tokens=written,
            reasoning_tokens=self._thinking_tokens,
        )
