"""Amazon Bedrock's Converse, the reading half, and the dialect as a whole.

Events and whole bodies become deltas, in the order of the blocks. Reading is total: an exception is
a `Failure`, a broken stream is a protocol `Failure`, what we do not know is an `Extra`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from antiphon.core.faults.fault import classify, classify_document, protocol_fault
from antiphon.core.plan.plan import Outbound, Plan
from antiphon.core.stream.deltas import (
    Delta,
    Extra,
    Failure,
    Finish,
    Reasoning,
    Start,
    Text,
    ToolCall,
    Usage,
)
from antiphon.dialects.bedrock import encode as bedrock_request
from antiphon.dialects.bedrock import invoke as bedrock_invoke
from antiphon.dialects.bedrock.blocks import (
    Block,
    CallBlock,
    OtherBlock,
    TextBlock,
    ThoughtBlock,
    unknown,
)
from antiphon.dialects.bedrock.quirks import PLAIN, BedrockQuirks
from antiphon.dialects.defaults import DialectDefaults
from antiphon.dialects.json_input import NULL, UNREADABLE, read, reread, string
from antiphon.dialects.parameters import ParameterFields
from antiphon.dialects.usage import count
from antiphon.wire.eventstream import BROKEN, EXCEPTION, EventStreamDecoder
from antiphon.wire.items import Document
from antiphon.wire.sse import Frame

_read_document = msgspec.json.Decoder(dict[str, Any]).decode
_read_block = msgspec.json.Decoder().decode

# What a delta belongs to when its block was never opened: only calls are.
_IMPLIED: Mapping[str, type[TextBlock] | type[ThoughtBlock]] = {
    "text": TextBlock,
    "citation": TextBlock,
    "reasoningContent": ThoughtBlock,
}


class BedrockDecoder:
    """The frames of one streamed answer → deltas."""

    def __init__(self) -> None:
        self._open: dict[int, Block] = {}
        self._calls = 0
        self._thoughts = 0
        self._written = 0  # characters of the message that is being written
        self._finished = False
        self._invoked = bedrock_invoke.InvokeDecoder()
        self.ended = False
        """The provider has said that nothing more will come."""

    def feed(self, frame: Frame) -> list[Delta]:
        if frame.event == BROKEN:
            return self._unreadable(frame.data.decode(), frame.data)
        if frame.event.startswith(EXCEPTION):
            kind = frame.event.removeprefix(EXCEPTION)
            return [Failure(classify(None, {"x-amzn-errortype": kind}, frame.data))]
        try:
            document = read(_read_document, frame.data or b"{}")
        except UNREADABLE:
            return self._unreadable("The provider sent a frame that cannot be read.", frame.data)
        return self.event(frame.event, document)

    def close(self) -> list[Delta]:
        """The stream has ended; a cut one has nothing to add."""
        return []

    def _unreadable(self, why: str, data: bytes) -> list[Delta]:
        """After the stop reason the answer is whole: a broken frame cannot spoil it any more."""
        if self._finished:
            return [Extra("unreadable_frame", len(data))]
        return [Failure(protocol_fault(why))]

    # Events. Whole answers are read by them, too.

    def event(self, name: str, document: Document) -> list[Delta]:
        read = _EVENTS.get(name)
        return [Extra(name or "event", document)] if read is None else read(self, document)

    def _message_start(self, document: Document) -> list[Delta]:
        return [Start()]

    def _block_start(self, document: Document) -> list[Delta]:
        index, start = _index(document), document.get("start")
        ended = self._end(index)
        match start:
            case {"toolUse": {} as call} if call.get("type") != "server_tool_use":
                self._open[index] = CallBlock(self._calls)
                opening: Delta = ToolCall(
                    self._calls, string(call.get("toolUseId")), string(call.get("name"))
                )
                self._calls += 1
            case _:
                self._open[index] = OtherBlock()
                opening = unknown(start)
        return [*ended, *self._counted([opening])]

    def _block_delta(self, document: Document) -> list[Delta]:
        index, delta = _index(document), document.get("delta")
        block = self._open.get(index)
        deltas: list[Delta] = []
        wanted = _IMPLIED.get(next(iter(delta), "")) if isinstance(delta, dict) else None
        if wanted is not None and not isinstance(block, wanted):
            deltas += self._end(index)
            block = self._open[index] = self._begun(wanted)
        if block is None:
            return [unknown(delta)]
        deltas += self._counted(block.grow(delta))
        return deltas

    def _begun(self, kind: type[TextBlock] | type[ThoughtBlock]) -> Block:
        if kind is TextBlock:
            return TextBlock(self._written)
        self._thoughts += 1
        return ThoughtBlock(self._thoughts)

    def _block_stop(self, document: Document) -> list[Delta]:
        return self._end(_index(document))

    def _end(self, index: int) -> list[Delta]:
        block = self._open.pop(index, None)
        return [] if block is None else [*block.end()]

    def _message_stop(self, document: Document) -> list[Delta]:
        self._finished = True
        deltas = [delta for index in [*self._open] for delta in self._end(index)]
        deltas += _kept(document, "additionalModelResponseFields")
        return [*deltas, Finish(string(document.get("stopReason")))]

    def _metadata(self, document: Document) -> list[Delta]:
        """What it cost: the last that is said, even after the stop reason."""
        self.ended = True
        usage = document.get("usage")
        known = [read_usage(usage)] if isinstance(usage, dict) else []
        return [*known, *_kept(document, "trace")]

    def _chunk(self, document: Document) -> list[Delta]:
        """A piece of an invoked model's own stream, wrapped; some speak Converse even there."""
        try:
            inner = base64.b64decode(document.get("bytes", ""), validate=True)
            said, inner = reread(_read_document, inner)
        except (*UNREADABLE, binascii.Error, TypeError):
            return self._unreadable("The provider sent a chunk that cannot be read.", b"")
        name = next(iter(said), "")
        if name in _EVENTS and isinstance(said[name], dict):
            return self.event(name, said[name])
        deltas = self._invoked.feed(inner, said)
        self._finished = self._finished or any(isinstance(each, Finish) for each in deltas)
        self.ended = self._invoked.ended
        return deltas

    def _counted(self, deltas: Iterable[Delta]) -> Iterator[Delta]:
        """Citations point into a message, and a message ends where something else begins."""
        for delta in deltas:
            if isinstance(delta, Text):
                self._written += len(delta.text)
            elif isinstance(delta, Reasoning | ToolCall):
                self._written = 0
            yield delta


_EVENTS: Mapping[str, Callable[[BedrockDecoder, Document], list[Delta]]] = {
    "contentBlockDelta": BedrockDecoder._block_delta,
    "contentBlockStart": BedrockDecoder._block_start,
    "contentBlockStop": BedrockDecoder._block_stop,
    "messageStart": BedrockDecoder._message_start,
    "messageStop": BedrockDecoder._message_stop,
    "metadata": BedrockDecoder._metadata,
    "chunk": BedrockDecoder._chunk,
}


def _index(document: Document) -> int:
    index = document.get("contentBlockIndex")
    return index if isinstance(index, int) else -1


def _kept(document: Document, name: str) -> list[Delta]:
    return [Extra(name, document[name])] if document.get(name) else []


def read_usage(usage: Document) -> Usage:
    """Token counts. The input comes without what was read from a cache or written to it."""
    asked, answered = count(usage.get("inputTokens")), count(usage.get("outputTokens"))
    cached = count(usage.get("cacheReadInputTokens"))
    written = count(usage.get("cacheWriteInputTokens"))
    total = count(usage.get("totalTokens"))
    if total != asked + answered:  # otherwise the cache is part of the input already
        asked += cached + written
    return Usage(
        input_tokens=asked,
        output_tokens=answered,
        cached_tokens=cached,
        cache_write_tokens=written,
        total_tokens=total or None,
    )


# Whole answers: the same events, put together from the blocks.

# Leaves are `Any`: a surprise in one field must not cost the answer.


class _Message(Struct):
    content: list[Raw] | None = None


class _Output(Struct):
    message: _Message | None = None


class _Body(Struct):
    output: _Output | None = None
    stopReason: Any = None
    usage: Any = None
    trace: Any = None
    additionalModelResponseFields: Any = None


class _ToolUse(Struct):
    input: Raw = NULL


class _ToolBlock(Struct):
    toolUse: _ToolUse


_read_body = msgspec.json.Decoder(_Body).decode
_read_tool_block = msgspec.json.Decoder(_ToolBlock).decode


def decode(body: bytes) -> list[Delta]:
    """A whole answer → deltas, its items in the order of its blocks."""
    try:
        document, body = reread(_read_document, body)
        answer = _read_body(body)
    except UNREADABLE:
        return [Failure(classify(200, {}, body))]
    if answer.output is None:
        fault = classify_document(document)
        return bedrock_invoke.decode(body, document) if fault is None else [Failure(fault)]
    reader = BedrockDecoder()
    deltas = reader.event("messageStart", {})
    message = answer.output.message or _Message()
    for index, raw in enumerate(message.content or ()):
        for name, event in _events(bytes(raw)):
            deltas += reader.event(name, {"contentBlockIndex": index, **event})
    return deltas + reader.event("metadata", document) + reader.event("messageStop", document)


def _events(raw: bytes) -> Iterator[tuple[str, Document]]:
    """The events that would have told a block."""
    for delta in _pieces(raw):
        if "start" in delta:
            yield "contentBlockStart", delta
        else:
            yield "contentBlockDelta", {"delta": delta}
    yield "contentBlockStop", {}


def _pieces(raw: bytes) -> Iterator[Document]:
    match _read_block(raw):
        case {"toolUse": {}} as block:
            # As it was written: reading and writing it again could change its numbers.
            written = bytes(_read_tool_block(raw).toolUse.input).decode()
            yield {"start": block}
            yield {"toolUse": {"input": "{}" if written == "null" else written}}
        case {"reasoningContent": {"reasoningText": {} as thought}}:
            yield from ({"reasoningContent": {name: value}} for name, value in thought.items())
        case {"citationsContent": {} as cited}:
            yield from ({"text": each.get("text")} for each in _objects(cited.get("content")))
            yield from ({"citation": each} for each in _objects(cited.get("citations")))
        case {"text": _} | {"reasoningContent": _} as block:
            yield block
        case block:
            yield {"start": block}


def _objects(values: Any) -> list[Document]:
    return [each for each in values if isinstance(each, dict)] if isinstance(values, list) else []


class BedrockDialect(DialectDefaults):
    """Converse: Amazon's binary event stream, an answer of blocks."""

    parameter_fields = ParameterFields(
        essential=frozenset({"messages", "system", "toolConfig"}),
        groups=("inferenceConfig",),
    )

    def __init__(self, quirks: BedrockQuirks = PLAIN) -> None:
        self._quirks = quirks

    def encode(self, plan: Plan, *, stream: bool) -> Outbound:
        return bedrock_request.encode(plan, stream=stream, quirks=self._quirks)

    def framer(self) -> EventStreamDecoder:
        return EventStreamDecoder()

    def decoder(self) -> BedrockDecoder:
        return BedrockDecoder()

    def decode(self, body: bytes) -> list[Delta]:
        return decode(body)
