"""Amazon Bedrock Converse decoder: events and whole bodies become deltas, in block order.

It never raises: an exception event is a `Failure`, a broken stream is a protocol `Failure`, and
anything unknown is an `Extra`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from antiphon.core.deltas import Delta, Extra, Failure, Finish, Start, ToolCall, Usage
from antiphon.core.faults.classify import classify, classify_document
from antiphon.core.faults.fault import protocol_fault
from antiphon.core.items import Document
from antiphon.dialects.bedrock.blocks import annotate, extend, make_state, unknown_delta
from antiphon.dialects.bedrock.invoke import InvokeDecoder, decode_invoked
from antiphon.dialects.content_blocks import (
    ContentBlocks,
    OpaqueBlock,
    ReasoningBlock,
    TextBlock,
)
from antiphon.dialects.json_input import (
    NULL,
    UNREADABLE,
    decode_lenient,
    decode_repaired,
    fail_unreadable,
    nonempty_string,
)
from antiphon.dialects.refusal import read_refusal
from antiphon.dialects.service_tier import read_service_tier
from antiphon.dialects.usage import count
from antiphon.framing.eventstream import BROKEN, EXCEPTION_PREFIX
from antiphon.framing.sse import Frame

_decode_object = msgspec.json.Decoder(dict[str, Any]).decode
_decode_value = msgspec.json.Decoder().decode

# The block that a delta implies: only calls have a `contentBlockStart`.
_IMPLIED_BLOCKS: Mapping[str, type[TextBlock] | type[ReasoningBlock]] = {
    "text": TextBlock,
    "citation": TextBlock,
    "reasoningContent": ReasoningBlock,
}


class BedrockDecoder:
    """Decoder of one streamed response."""

    def __init__(self) -> None:
        self._blocks = ContentBlocks(annotate)
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
        """After the stop reason the response is complete: a broken frame is no longer a failure."""
        if self._finished:
            return [Extra("unreadable_frame", len(data))]
        return [Failure(protocol_fault(message))]

    # Events; whole responses are decoded through them, too

    def handle_event(self, name: str, document: Document) -> list[Delta]:
        handle = _EVENTS.get(name)
        return [Extra(name or "event", document)] if handle is None else handle(self, document)

    def _message_start(self, document: Document) -> list[Delta]:
        return [Start()]

    def _block_start(self, document: Document) -> list[Delta]:
        index = _index(document)
        start = document.get("start")
        closing = self._blocks.close(index)
        match start:
            case {"toolUse": {} as call} if call.get("type") != "server_tool_use":
                number, block = self._blocks.new_call()
                self._blocks.open(index, block)
                call_id = nonempty_string(call.get("toolUseId"))
                opening: Delta = ToolCall(number, call_id, nonempty_string(call.get("name")))
            case _:
                self._blocks.open(index, OpaqueBlock())
                opening = unknown_delta(start)
        return closing + self._blocks.measure([opening])

    def _block_delta(self, document: Document) -> list[Delta]:
        index = _index(document)
        delta = document.get("delta")
        closing: list[Delta] = []
        implied = _IMPLIED_BLOCKS.get(next(iter(delta), "")) if isinstance(delta, dict) else None
        if implied is not None and not isinstance(self._blocks[index], implied):
            closing = self._blocks.close(index)
            self._open_block(index, implied)
        return closing + self._blocks.measure(extend(self._blocks[index], delta))

    def _open_block(self, index: int, kind: type[TextBlock] | type[ReasoningBlock]) -> None:
        blocks = self._blocks
        opened = blocks.new_text() if kind is TextBlock else blocks.new_reasoning(make_state)
        blocks.open(index, opened)

    def _block_stop(self, document: Document) -> list[Delta]:
        return self._blocks.close(_index(document))

    def _message_stop(self, document: Document) -> list[Delta]:
        self._finished = True
        reason = nonempty_string(document.get("stopReason"))
        deltas = [*self._blocks.close_all(), *read_refusal(reason)]
        deltas += _extra(document, "additionalModelResponseFields")
        return [*deltas, Finish(reason)]

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
        except (*UNREADABLE, ValueError, TypeError):
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


# Whole responses: each block becomes the events that would have streamed it.

# Members are `Any`: an unexpected type in one of them must not fail the whole response.


class _Message(Struct):
    content: list[Raw] | None = None


class _Output(Struct):
    message: _Message | None = None


class _Response(Struct):
    output: _Output | None = None
    stopReason: Any = None
    usage: Any = None
    trace: Any = None
    additionalModelResponseFields: Any = None


class _ToolUse(Struct):
    input: Raw = NULL


class _ToolUseBlock(Struct):
    toolUse: _ToolUse


_decode_response = msgspec.json.Decoder(_Response).decode
_decode_tool_use_block = msgspec.json.Decoder(_ToolUseBlock).decode


def decode(body: bytes) -> list[Delta]:
    """Decode a whole response, its items in the order of its blocks."""
    try:
        document, body = decode_repaired(_decode_object, body)
        response = _decode_response(body)
    except UNREADABLE:
        return [fail_unreadable(body)]
    if response.output is None:
        fault = classify_document(document)
        return decode_invoked(body, document) if fault is None else [Failure(fault)]
    return _decode_message(response.output.message or _Message(), document)


def _decode_message(message: _Message, document: Document) -> list[Delta]:
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


def read_usage(usage: Document) -> Usage:
    """Usage. `inputTokens` excludes cache reads and writes, unless the total shows otherwise."""
    input_tokens = count(usage.get("inputTokens"))
    output_tokens = count(usage.get("outputTokens"))
    cached = count(usage.get("cacheReadInputTokens"))
    written = count(usage.get("cacheWriteInputTokens"))
    total = count(usage.get("totalTokens"))
    if total != input_tokens + output_tokens:
        input_tokens += cached + written
    return Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cached_tokens=cached,
        cache_write_tokens=written,
        total_tokens=total or None,
    )
