"""Anthropic Messages decoder: events and whole bodies become deltas, in the order of the blocks.

It never raises: an error object is a `Failure`, an unreadable frame is a protocol `Failure`, and
anything unknown is an `Extra`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from antiphon.core.faults.classify import classify, classify_document
from antiphon.core.faults.fault import ProviderFault, protocol_fault
from antiphon.core.stream.deltas import (
    Delta,
    Extra,
    Failure,
    Finish,
    Reasoning,
    ReasoningState,
    Refusal,
    Start,
    Text,
    ToolCall,
)
from antiphon.dialects.anthropic.blocks import (
    REDACTED,
    AnthropicBlock,
    AnthropicCallBlock,
    AnthropicTextBlock,
    AnthropicThinkingBlock,
    AnthropicWholeBlock,
    guess_media_type,
    unknown_delta,
)
from antiphon.dialects.anthropic.usage import AnthropicUsage
from antiphon.dialects.json_input import (
    NULL,
    UNREADABLE,
    decode_repaired,
    nonempty_string,
    report_unreadable,
)
from antiphon.wire.sse import Frame

# Members are `Any`: an unexpected type in one of them must not fail the whole event.


class _AnthropicEvent(Struct):
    type: Any = None
    index: Any = None
    content_block: Raw = NULL
    delta: Any = None
    message: Any = None
    usage: Any = None
    error: Any = None


class _AnthropicMessage(Struct):
    type: Any = None
    id: Any = None
    model: Any = None
    content: list[Raw] | None = None
    stop_reason: Any = None
    stop_details: Any = None
    container: Any = None
    usage: Any = None
    error: Any = None


class _AnthropicToolUse(Struct):
    input: Raw = NULL


_decode_event = msgspec.json.Decoder(_AnthropicEvent).decode
_decode_message = msgspec.json.Decoder(_AnthropicMessage).decode
_decode_tool_use = msgspec.json.Decoder(_AnthropicToolUse).decode
_decode_document = msgspec.json.Decoder().decode

# The block that a delta implies, for servers that leave out `content_block_start`.
_IMPLIED_BLOCKS: Mapping[str, Raw] = {
    "text_delta": Raw(b'{"type":"text"}'),
    "thinking_delta": Raw(b'{"type":"thinking"}'),
    "signature_delta": Raw(b'{"type":"thinking"}'),
}


class AnthropicDecoder:
    """Decoder of one streamed answer."""

    def __init__(self) -> None:
        self._blocks: dict[int, AnthropicBlock] = {}
        self._call_count = 0
        self._thinking_count = 0
        self._message_length = 0  # characters of the current output message
        self._usage = AnthropicUsage()
        self._finished = False
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

    def _message_start(self, event: _AnthropicEvent) -> list[Delta]:
        message = event.message if isinstance(event.message, dict) else {}
        start = Start(nonempty_string(message.get("model")), nonempty_string(message.get("id")))
        return [start, *self._usage.feed(message.get("usage"))]

    def _block_start(self, event: _AnthropicEvent) -> list[Delta]:
        return self.open_block(_index(event), event.content_block)

    def _block_delta(self, event: _AnthropicEvent) -> list[Delta]:
        index, delta = _index(event), event.delta
        deltas: list[Delta] = []
        if index not in self._blocks:
            implied = _IMPLIED_BLOCKS.get(guess_media_type(delta))
            if implied is None:
                return [unknown_delta(delta)]
            deltas = self.open_block(index, implied)
        deltas += self._measure(self._blocks[index].feed(delta))
        return deltas

    def _block_stop(self, event: _AnthropicEvent) -> list[Delta]:
        return self.close_block(_index(event))

    def _message_delta(self, event: _AnthropicEvent) -> list[Delta]:
        return self.finish(event.delta if isinstance(event.delta, dict) else {}, event.usage)

    def _message_stop(self, event: _AnthropicEvent) -> list[Delta]:
        self.ended = True
        return []

    def _ping(self, event: _AnthropicEvent) -> list[Delta]:
        return []

    # Also used to decode whole answers

    def open_block(self, index: int, raw: Raw) -> list[Delta]:
        """Open a block; one that is still open at this index is closed first."""
        closing = self.close_block(index)
        block = self._blocks[index] = self._create_block(raw)
        return [*closing, *self._measure(block.open())]

    def _create_block(self, raw: Raw) -> AnthropicBlock:
        data = _repaired(bytes(raw))
        block = _decode_document(data)
        match guess_media_type(block):
            case "text":
                return AnthropicTextBlock(block, self._message_length)
            case "thinking":
                self._thinking_count += 1
                return AnthropicThinkingBlock(block, self._thinking_count)
            case "redacted_thinking":
                return AnthropicWholeBlock(ReasoningState(REDACTED, block, "block"))
            case "tool_use":
                self._call_count += 1
                # The original bytes: decoding and encoding again could change numbers.
                arguments = bytes(_decode_tool_use(data).input).decode()
                return AnthropicCallBlock(
                    block, self._call_count - 1, "{}" if arguments == "null" else arguments
                )
            case block_type:
                return AnthropicWholeBlock(Extra(block_type or "content_block", block))

    def close_block(self, index: int) -> list[Delta]:
        block = self._blocks.pop(index, None)
        return [] if block is None else [*block.close()]

    def finish(self, message: Mapping[str, Any], usage: Any) -> list[Delta]:
        """Usage and the finish reason, from a `message_delta` or a whole message."""
        reason = nonempty_string(message.get("stop_reason"))
        deltas: list[Delta] = []
        if reason is not None:
            self._finished = True
            deltas += [delta for index in [*self._blocks] for delta in self.close_block(index)]
        deltas += self._usage.feed(usage)
        match message.get("stop_details"):
            case {"explanation": str(text)} if text:
                deltas.append(Refusal(text))
        extras = ("stop_details", "container")
        deltas += [Extra(name, message[name]) for name in extras if message.get(name) is not None]
        return deltas if reason is None else [*deltas, Finish(reason)]

    def _measure(self, deltas: Iterable[Delta]) -> Iterator[Delta]:
        """Count the characters of the output message, which citations index into.

        Reasoning or a call ends the output message, and the next one starts at 0.
        """
        for delta in deltas:
            if isinstance(delta, Text):
                self._message_length += len(delta.text)
            elif isinstance(delta, Reasoning | ReasoningState | ToolCall):
                self._message_length = 0
            yield delta


_EVENTS: Mapping[str, Callable[[AnthropicDecoder, _AnthropicEvent], list[Delta]]] = {
    "content_block_delta": AnthropicDecoder._block_delta,
    "content_block_start": AnthropicDecoder._block_start,
    "content_block_stop": AnthropicDecoder._block_stop,
    "message_start": AnthropicDecoder._message_start,
    "message_delta": AnthropicDecoder._message_delta,
    "message_stop": AnthropicDecoder._message_stop,
    "ping": AnthropicDecoder._ping,
}


def decode(body: bytes) -> list[Delta]:
    """Decode a whole answer, its items in the order of its blocks."""
    try:
        message, body = decode_repaired(_decode_message, body)
    except UNREADABLE:
        return [Failure(classify(200, {}, body))]
    if message.error is not None or message.type == "error":
        return [Failure(_fault(body))]
    decoder = AnthropicDecoder()
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


def _index(event: _AnthropicEvent) -> int:
    return event.index if isinstance(event.index, int) else -1


def _fault(data: bytes) -> ProviderFault:
    fault = classify_document(_document(data))
    return fault or protocol_fault("The provider reported an error without any details.")
