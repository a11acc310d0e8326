"""Anthropic Messages, the reading half, and the dialect as a whole.

Events and whole bodies become deltas, in the order of the blocks. Reading is total: an error object
is a `Failure`, an unreadable frame is a protocol `Failure`, what we do not know is an `Extra`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from antiphon.core.faults.fault import ProviderFault, classify, classify_document, protocol_fault
from antiphon.core.plan.plan import Outbound, Plan
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
    Usage,
)
from antiphon.dialects.anthropic import encode as anthropic_request
from antiphon.dialects.anthropic.blocks import (
    REDACTED,
    Block,
    CallBlock,
    TextBlock,
    ThinkingBlock,
    WholeBlock,
    kind_of,
    unknown,
)
from antiphon.dialects.anthropic.encode import AnthropicQuirks
from antiphon.dialects.defaults import DialectDefaults
from antiphon.dialects.json_input import NULL, UNREADABLE, reread, string, unreadable
from antiphon.dialects.parameters import ParameterFields
from antiphon.dialects.usage import count
from antiphon.wire.sse import Frame

# Leaves are `Any`: a surprise in one field must not cost the event.


class _Event(Struct):
    type: Any = None
    index: Any = None
    content_block: Raw = NULL
    delta: Any = None
    message: Any = None
    usage: Any = None
    error: Any = None


class _Message(Struct):
    type: Any = None
    id: Any = None
    model: Any = None
    content: list[Raw] | None = None
    stop_reason: Any = None
    stop_details: Any = None
    container: Any = None
    usage: Any = None
    error: Any = None


class _ToolUse(Struct):
    input: Raw = NULL


_read_event = msgspec.json.Decoder(_Event).decode
_read_message = msgspec.json.Decoder(_Message).decode
_read_tool_use = msgspec.json.Decoder(_ToolUse).decode
_read_document = msgspec.json.Decoder().decode

_COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)

# What a delta must belong to, for servers that do not open their blocks.
_IMPLIED: Mapping[str, Raw] = {
    "text_delta": Raw(b'{"type":"text"}'),
    "thinking_delta": Raw(b'{"type":"thinking"}'),
    "signature_delta": Raw(b'{"type":"thinking"}'),
}


class AnthropicDecoder:
    """The frames of one streamed answer → deltas."""

    def __init__(self) -> None:
        self._open: dict[int, Block] = {}
        self._calls = 0
        self._thoughts = 0
        self._written = 0  # characters of the message that is being written
        self._counts = dict.fromkeys(_COUNTS, 0)
        self._thinking_tokens = 0
        self._finished = False
        self.ended = False
        """The provider has said that nothing more will come."""

    def feed(self, frame: Frame) -> list[Delta]:
        data = frame.data
        if data == b"[DONE]":  # routers send it, though this format has an end of its own
            self.ended = True
            return []
        try:
            event, data = reread(_read_event, data)
        except UNREADABLE:
            return unreadable(data, finished=self._finished)
        name = string(event.type) or frame.event
        if event.error is not None or name == "error":
            return [Failure(_fault(data))]
        read = _EVENTS.get(name)
        return [Extra(name or "event", _document(data))] if read is None else read(self, event)

    def close(self) -> list[Delta]:
        """The stream has ended; a cut one has nothing to add."""
        return []

    # Events

    def _message_start(self, event: _Event) -> list[Delta]:
        message = event.message if isinstance(event.message, dict) else {}
        start = Start(string(message.get("model")), string(message.get("id")))
        return [start, *self._usage(message.get("usage"))]

    def _block_start(self, event: _Event) -> list[Delta]:
        return self.begin(_index(event), event.content_block)

    def _block_delta(self, event: _Event) -> list[Delta]:
        index, delta = _index(event), event.delta
        deltas: list[Delta] = []
        if index not in self._open:
            opening = _IMPLIED.get(kind_of(delta))
            if opening is None:
                return [unknown(delta)]
            deltas = self.begin(index, opening)
        deltas += self._counted(self._open[index].grow(delta))
        return deltas

    def _block_stop(self, event: _Event) -> list[Delta]:
        return self.end(_index(event))

    def _message_delta(self, event: _Event) -> list[Delta]:
        return self.stop(event.delta if isinstance(event.delta, dict) else {}, event.usage)

    def _message_stop(self, event: _Event) -> list[Delta]:
        self.ended = True
        return []

    def _ping(self, event: _Event) -> list[Delta]:
        return []

    # What whole answers are read by, too

    def begin(self, index: int, raw: Raw) -> list[Delta]:
        """A block begins; one that was left open at its place has ended."""
        ended = self.end(index)
        block = self._open[index] = self._block(raw)
        return [*ended, *self._counted(block.begin())]

    def _block(self, raw: Raw) -> Block:
        data = _strict(bytes(raw))
        block = _read_document(data)
        match kind_of(block):
            case "text":
                return TextBlock(block, self._written)
            case "thinking":
                self._thoughts += 1
                return ThinkingBlock(block, self._thoughts)
            case "redacted_thinking":
                return WholeBlock(ReasoningState(REDACTED, block, "block"))
            case "tool_use":
                self._calls += 1
                # As it was written: reading and writing it again could change its numbers.
                opening = bytes(_read_tool_use(data).input).decode()
                return CallBlock(block, self._calls - 1, "{}" if opening == "null" else opening)
            case kind:
                return WholeBlock(Extra(kind or "content_block", block))

    def end(self, index: int) -> list[Delta]:
        block = self._open.pop(index, None)
        return [] if block is None else [*block.end()]

    def stop(self, why: Mapping[str, Any], usage: Any) -> list[Delta]:
        """What is told at the end: what it cost, and why nothing more comes."""
        reason = string(why.get("stop_reason"))
        deltas: list[Delta] = []
        if reason is not None:
            self._finished = True
            deltas += [delta for index in [*self._open] for delta in self.end(index)]
        deltas += self._usage(usage)
        match why.get("stop_details"):
            case {"explanation": str(text)} if text:
                deltas.append(Refusal(text))
        kept = ("stop_details", "container")
        deltas += [Extra(name, why[name]) for name in kept if why.get(name) is not None]
        return deltas if reason is None else [*deltas, Finish(reason)]

    def _counted(self, deltas: Iterable[Delta]) -> Iterator[Delta]:
        """Citations point into a message, and a message ends where something else begins."""
        for delta in deltas:
            if isinstance(delta, Text):
                self._written += len(delta.text)
            elif isinstance(delta, Reasoning | ReasoningState | ToolCall):
                self._written = 0
            yield delta

    def _usage(self, usage: Any) -> Iterator[Delta]:
        """Counts are totals so far; one that is missing keeps its earlier value."""
        if not isinstance(usage, dict):
            return
        counts = self._counts
        for name in _COUNTS:
            counts[name] = count(usage.get(name)) or counts[name]
        match usage.get("output_tokens_details"):
            case {"thinking_tokens": tokens}:
                self._thinking_tokens = count(tokens) or self._thinking_tokens
        cached, written = counts["cache_read_input_tokens"], counts["cache_creation_input_tokens"]
        yield Usage(
            input_tokens=counts["input_tokens"] + cached + written,
            output_tokens=counts["output_tokens"],
            cached_tokens=cached,
            cache_write_tokens=written,
            reasoning_tokens=self._thinking_tokens,
        )


_EVENTS: Mapping[str, Callable[[AnthropicDecoder, _Event], list[Delta]]] = {
    "content_block_delta": AnthropicDecoder._block_delta,
    "content_block_start": AnthropicDecoder._block_start,
    "content_block_stop": AnthropicDecoder._block_stop,
    "message_start": AnthropicDecoder._message_start,
    "message_delta": AnthropicDecoder._message_delta,
    "message_stop": AnthropicDecoder._message_stop,
    "ping": AnthropicDecoder._ping,
}


def decode(body: bytes) -> list[Delta]:
    """A whole answer → deltas, its items in the order of its blocks."""
    try:
        message, body = reread(_read_message, body)
    except UNREADABLE:
        return [Failure(classify(200, {}, body))]
    if message.error is not None or message.type == "error":
        return [Failure(_fault(body))]
    reader = AnthropicDecoder()
    deltas: list[Delta] = [Start(string(message.model), string(message.id))]
    for index, raw in enumerate(message.content or ()):
        deltas += [*reader.begin(index, raw), *reader.end(index)]
    return deltas + reader.stop(msgspec.structs.asdict(message), message.usage)


def _strict(data: bytes) -> bytes:
    """A part of a document, for those who read it again: the first reading only passed it by."""
    try:
        return reread(_read_document, data)[1]
    except UNREADABLE:
        return bytes(NULL)


def _document(data: bytes) -> Any:
    return _read_document(_strict(data))


def _index(event: _Event) -> int:
    return event.index if isinstance(event.index, int) else -1


def _fault(data: bytes) -> ProviderFault:
    fault = classify_document(_document(data))
    return fault or protocol_fault("The provider reported an error without saying which.")


class AnthropicDialect(DialectDefaults):
    """Anthropic Messages: SSE frames with a `type`, an answer of blocks."""

    parameter_fields = ParameterFields(
        essential=frozenset("model messages system stream tools tool_choice".split())
    )

    def __init__(self, quirks: AnthropicQuirks = anthropic_request.PLAIN) -> None:
        self._quirks = quirks

    def encode(self, plan: Plan, *, stream: bool) -> Outbound:
        return anthropic_request.encode(plan, stream=stream, quirks=self._quirks)

    def decoder(self) -> AnthropicDecoder:
        return AnthropicDecoder()

    def decode(self, body: bytes) -> list[Delta]:
        return decode(body)
