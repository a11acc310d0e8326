"""Amazon Bedrock Converse decoder: events and whole bodies become deltas, in block order.

It never raises: an exception event is a `Failure`, a broken stream is a protocol `Failure`, and
anything unknown is an `Extra`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from antiphon.core.faults.classify import classify, classify_document
from antiphon.core.faults.fault import protocol_fault
from antiphon.core.stream.deltas import (
    Delta,
    Extra,
    Failure,
    Finish,
    Reasoning,
    Start,
    Text,
    ToolCall,
)
from antiphon.dialects.bedrock.blocks import (
    BedrockBlock,
    BedrockCallBlock,
    BedrockOtherBlock,
    BedrockReasoningBlock,
    BedrockTextBlock,
    unknown_delta,
)
from antiphon.dialects.bedrock.invoke import InvokeDecoder, decode_invoked
from antiphon.dialects.bedrock.usage import read_usage
from antiphon.dialects.json_input import (
    NULL,
    UNREADABLE,
    decode_lenient,
    decode_repaired,
    nonempty_string,
)
from antiphon.dialects.service_tier import read_service_tier
from antiphon.wire.eventstream import BROKEN, EXCEPTION_PREFIX
from antiphon.wire.items import Document
from antiphon.wire.sse import Frame

_decode_object = msgspec.json.Decoder(dict[str, Any]).decode
_decode_value = msgspec.json.Decoder().decode

# The block that a delta implies: only calls have a `contentBlockStart`.
_IMPLIED_BLOCKS: Mapping[str, type[BedrockTextBlock] | type[BedrockReasoningBlock]] = {
    "text": BedrockTextBlock,
    "citation": BedrockTextBlock,
    "reasoningContent": BedrockReasoningBlock,
}


class BedrockDecoder:
    """Decoder of one streamed answer."""

    def __init__(self) -> None:
        self._blocks: dict[int, BedrockBlock] = {}
        self._call_count = 0
        self._reasoning_count = 0
        self._message_length = 0  # characters of the current output message
        self._finished = False
        self._invoke_decoder = InvokeDecoder()
        self.ended = False
        """The provider has marked the end of the stream; nothing more will come."""

    def feed(self, frame: Frame) -> list[Delta]:
        if frame.event == BROKEN:
            return self._report_unreadable(frame.data.decode(), frame.data)
        if frame.event.startswith(EXCEPTION_PREFIX):
            exception = frame.event.removeprefix(EXCEPTION_PREFIX)
            return [Failure(classify(None, {"x-amzn-errortype": exception}, frame.data))]
        try:
            document = decode_lenient(_decode_object, frame.data or b"{}")
        except UNREADABLE:
            message = "The provider sent a frame that could not be decoded as JSON."
            return self._report_unreadable(message, frame.data)
        return self.handle_event(frame.event, document)

    def close(self) -> list[Delta]:
        """The connection has ended; a stream that was cut off has nothing to add."""
        return []

    def _report_unreadable(self, message: str, data: bytes) -> list[Delta]:
        """After the stop reason the answer is complete: a broken frame is no longer a failure."""
        if self._finished:
            return [Extra("unreadable_frame", len(data))]
        return [Failure(protocol_fault(message))]

    # Events; whole answers are decoded through them, too

    def handle_event(self, name: str, document: Document) -> list[Delta]:
        handle = _EVENTS.get(name)
        return [Extra(name or "event", document)] if handle is None else handle(self, document)

    def _message_start(self, document: Document) -> list[Delta]:
        return [Start()]

    def _block_start(self, document: Document) -> list[Delta]:
        index, start = _index(document), document.get("start")
        closing = self._close_block(index)
        match start:
            case {"toolUse": {} as call} if call.get("type") != "server_tool_use":
                self._blocks[index] = BedrockCallBlock(self._call_count)
                opening: Delta = ToolCall(
                    self._call_count,
                    nonempty_string(call.get("toolUseId")),
                    nonempty_string(call.get("name")),
                )
                self._call_count += 1
            case _:
                self._blocks[index] = BedrockOtherBlock()
                opening = unknown_delta(start)
        return [*closing, *self._measure([opening])]

    def _block_delta(self, document: Document) -> list[Delta]:
        index, delta = _index(document), document.get("delta")
        block = self._blocks.get(index)
        deltas: list[Delta] = []
        implied = _IMPLIED_BLOCKS.get(next(iter(delta), "")) if isinstance(delta, dict) else None
        if implied is not None and not isinstance(block, implied):
            deltas += self._close_block(index)
            block = self._blocks[index] = self._create_block(implied)
        if block is None:
            return [unknown_delta(delta)]
        deltas += self._measure(block.feed(delta))
        return deltas

    def _create_block(
        self, block_type: type[BedrockTextBlock] | type[BedrockReasoningBlock]
    ) -> BedrockBlock:
        if block_type is BedrockTextBlock:
            return BedrockTextBlock(self._message_length)
        self._reasoning_count += 1
        return BedrockReasoningBlock(self._reasoning_count)

    def _block_stop(self, document: Document) -> list[Delta]:
        return self._close_block(_index(document))

    def _close_block(self, index: int) -> list[Delta]:
        block = self._blocks.pop(index, None)
        return [] if block is None else [*block.close()]

    def _message_stop(self, document: Document) -> list[Delta]:
        self._finished = True
        deltas = [delta for index in [*self._blocks] for delta in self._close_block(index)]
        deltas += _extra(document, "additionalModelResponseFields")
        return [*deltas, Finish(nonempty_string(document.get("stopReason")))]

    def _metadata(self, document: Document) -> list[Delta]:
        """Usage: the last event of a stream, after the stop reason."""
        self.ended = True
        usage = document.get("usage")
        deltas: list[Delta] = [read_usage(usage)] if isinstance(usage, dict) else []
        match document.get("serviceTier"):
            case {"type": tier}:
                deltas += read_service_tier(tier)
        return [*deltas, *_extra(document, "trace")]

    def _chunk(self, document: Document) -> list[Delta]:
        """A base64 chunk of an invoked model's own stream; some hold Converse events even so."""
        try:
            data = base64.b64decode(document.get("bytes", ""), validate=True)
            chunk, data = decode_repaired(_decode_object, data)
        except (*UNREADABLE, binascii.Error, TypeError):
            return self._report_unreadable(
                "The provider sent a chunk that could not be decoded.", b""
            )
        name = next(iter(chunk), "")
        if name in _EVENTS and isinstance(chunk[name], dict):
            return self.handle_event(name, chunk[name])
        deltas = self._invoke_decoder.feed(data, chunk)
        self._finished = self._finished or any(isinstance(each, Finish) for each in deltas)
        self.ended = self._invoke_decoder.ended
        return deltas

    def _measure(self, deltas: Iterable[Delta]) -> Iterator[Delta]:
        """Count the characters of the output message, which citations index into.

        Reasoning or a call ends the output message, and the next one starts at 0.
        """
        for delta in deltas:
            if isinstance(delta, Text):
                self._message_length += len(delta.text)
            elif isinstance(delta, Reasoning | ToolCall):
                self._message_length = 0
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


def _extra(document: Document, name: str) -> list[Delta]:
    return [Extra(name, document[name])] if document.get(name) else []


# Whole answers: each block becomes the events that would have streamed it.

# Members are `Any`: an unexpected type in one of them must not fail the whole answer.


class _BedrockMessage(Struct):
    content: list[Raw] | None = None


class _BedrockOutput(Struct):
    message: _BedrockMessage | None = None


class _BedrockAnswer(Struct):
    output: _BedrockOutput | None = None
    stopReason: Any = None
    usage: Any = None
    trace: Any = None
    additionalModelResponseFields: Any = None


class _BedrockToolUse(Struct):
    input: Raw = NULL


class _BedrockToolUseBlock(Struct):
    toolUse: _BedrockToolUse


_decode_answer = msgspec.json.Decoder(_BedrockAnswer).decode
_decode_tool_use_block = msgspec.json.Decoder(_BedrockToolUseBlock).decode


def decode(body: bytes) -> list[Delta]:
    """Decode a whole answer, its items in the order of its blocks."""
    try:
        document, body = decode_repaired(_decode_object, body)
        answer = _decode_answer(body)
    except UNREADABLE:
        return [Failure(classify(200, {}, body))]
    if answer.output is None:
        fault = classify_document(document)
        return decode_invoked(body, document) if fault is None else [Failure(fault)]
    return _decode_message(answer.output.message or _BedrockMessage(), document)


def _decode_message(message: _BedrockMessage, document: Document) -> list[Delta]:
    """Feed the events that a stream of the same message would have to a decoder."""
    decoder = BedrockDecoder()
    deltas = decoder.handle_event("messageStart", {})
    for index, raw in enumerate(message.content or ()):
        for name, event in _block_events(bytes(raw)):
            deltas += decoder.handle_event(name, {"contentBlockIndex": index, **event})
    deltas += decoder.handle_event("metadata", document)
    return deltas + decoder.handle_event("messageStop", document)


def _block_events(raw: bytes) -> Iterator[tuple[str, Document]]:
    """The events that would have streamed a block."""
    for delta in _block_deltas(raw):
        if "start" in delta:
            yield "contentBlockStart", delta
        else:
            yield "contentBlockDelta", {"delta": delta}
    yield "contentBlockStop", {}


def _block_deltas(raw: bytes) -> Iterator[Document]:
    match _decode_value(raw):
        case {"toolUse": {}} as block:
            # The original bytes: decoding and encoding again could change numbers.
            arguments = bytes(_decode_tool_use_block(raw).toolUse.input).decode()
            yield {"start": block}
            yield {"toolUse": {"input": "{}" if arguments == "null" else arguments}}
        case {"reasoningContent": {"reasoningText": {} as reasoning}}:
            yield from ({"reasoningContent": {name: value}} for name, value in reasoning.items())
        case {"citationsContent": {} as cited}:
            yield from ({"text": each.get("text")} for each in _objects(cited.get("content")))
            yield from ({"citation": each} for each in _objects(cited.get("citations")))
        case {"text": _} | {"reasoningContent": _} as block:
            yield block
        case block:
            yield {"start": block}


def _objects(values: Any) -> list[Document]:
    return [each for each in values if isinstance(each, dict)] if isinstance(values, list) else []
