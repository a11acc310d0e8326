"""Decode Cohere chat responses (version 2): streams of typed events, or one whole message.

A message has content blocks, a tool plan and calls; a stream has events for the start, the deltas
and the end of each. Decoding is total: an error is a `Failure`, a broken frame a protocol
`Failure`, anything unknown an `Extra`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from antiphon.core.deltas import Delta, Extra, Finish, Start, Text, ToolCall
from antiphon.dialects.cohere.decode_v1 import CohereV1Decoder
from antiphon.dialects.cohere.reasoning_state import THINKING, TOOL_PLAN, ReasoningBlocks
from antiphon.dialects.cohere.usage import read_usage
from antiphon.dialects.content_blocks import CallBlock, url_citation
from antiphon.dialects.json_input import (
    NULL,
    UNREADABLE,
    decode_body,
    decode_lenient,
    decode_unexpected,
    error_or_extra,
    nonempty_string,
)
from antiphon.dialects.tool_call_json import NativeCall, read_calls
from antiphon.dialects.usage import count
from antiphon.framing.sse import Frame

# Leaves are `Any`: an unexpected type in one field must not make the event unreadable.


class _Message(Struct):
    content: Any = None
    tool_plan: Any = None
    tool_calls: Raw = NULL
    citations: Any = None


class _Delta(Struct):
    message: _Message | None = None
    finish_reason: Any = None
    usage: Any = None
    error: Any = None


class _Event(Struct):
    """An event, or a whole response."""

    type: Any = None
    index: Any = None
    delta: _Delta | None = None
    id: Any = None
    message: _Message | None = None
    finish_reason: Any = None
    usage: Any = None
    logprobs: Any = None
    event_type: Any = None
    generation_id: Any = None


_read_event = msgspec.json.Decoder(_Event).decode
_DONE = frozenset({b"[DONE]", b'"[DONE]"'})
_NO_MESSAGE = _Message()


class _Citations:
    """Citations of text, whose positions count from the begin of their content block; those of an
    annotation, from the begin of its message."""

    def __init__(self) -> None:
        self._length = 0  # characters of the current message
        self._block_starts = {-1: 0}  # content index → offset in its message; -1 is the last block

    def add_text(self, index: int, text: str) -> None:
        """Count text of the block at an index of the content."""
        if index not in self._block_starts:
            self._block_starts[index] = self._block_starts[-1] = self._length
        self._length += len(text)

    def end_message(self) -> None:
        """Something else follows: text after it is another message."""
        self._length = 0

    def read(self, citations: Any) -> Iterator[Delta]:
        for citation in citations if isinstance(citations, list) else [citations]:
            if citation is not None:
                yield from self._cite(citation)

    def _cite(self, citation: Any) -> Iterator[Delta]:
        """Emit an annotation for every source with a URL; a citation without any is an `Extra`."""
        sources = [*_sources(citation)]
        if not sources:
            yield Extra("citation", citation)
            return
        index = citation.get("content_index")
        start = self._block_starts.get(
            index if isinstance(index, int) else -1, self._block_starts[-1]
        )
        end = start + count(citation.get("end"))
        for url, title in sources:
            yield url_citation(url, title, start + count(citation.get("start")), end)


class CohereDecoder:
    """Frames of one streamed response → deltas."""

    def __init__(self) -> None:
        self._reasoning = ReasoningBlocks()
        self._v1 = CohereV1Decoder()
        self._call_count = 0
        self._open_calls: dict[int, CallBlock] = {}  # by the index of their events
        self._citations = _Citations()
        self._finished = False
        self.ended = False
        """The provider has announced the end of the stream."""

    def feed(self, frame: Frame) -> list[Delta]:
        if frame.data in _DONE:
            self.ended = True
            return []
        try:
            event = decode_lenient(_read_event, frame.data)
            if event.event_type is not None or event.generation_id is not None:
                return self._feed_v1(frame.data)
        except UNREADABLE:
            return decode_unexpected(frame.data, finished=self._finished)
        if (reader := _READERS.get(nonempty_string(event.type) or frame.event)) is not None:
            return reader(self, event)
        if event.type is None and event.message is not None:
            return self._read_whole(event, event.message)
        return decode_unexpected(frame.data)

    def _feed_v1(self, data: bytes) -> list[Delta]:
        deltas = self._v1.feed(data)
        self.ended = self._v1.ended
        return deltas

    def close(self) -> list[Delta]:
        """End of input; a cut stream adds nothing."""
        return []

    # Events

    def _message_start(self, event: _Event) -> list[Delta]:
        return [Start(None, nonempty_string(event.id))]

    def _content(self, event: _Event) -> list[Delta]:
        logprobs = [Extra("logprobs", event.logprobs)] if event.logprobs else []
        return [*self._add_content(_index(event), _message(event).content), *logprobs]

    def _content_end(self, event: _Event) -> list[Delta]:
        return self._reasoning.end()

    def _tool_plan_delta(self, event: _Event) -> list[Delta]:
        return self._add_plan(_message(event).tool_plan)

    def _call_start(self, event: _Event) -> list[Delta]:
        deltas = self._reasoning.end()
        for index, call in enumerate(read_calls(_message(event).tool_calls), _index(event)):
            deltas += self._start_call(index, call)
        return deltas

    def _call_delta(self, event: _Event) -> list[Delta]:
        deltas: list[Delta] = []
        for index, call in enumerate(read_calls(_message(event).tool_calls), _index(event)):
            block = self._open_calls.get(index)
            if isinstance(call, Extra) or block is None:
                deltas.append(Extra("tool_call", call))
            else:
                deltas += block.write(call.arguments)
        return deltas

    def _call_end(self, event: _Event) -> list[Delta]:
        return self._end_call(_index(event))

    def _citation_start(self, event: _Event) -> list[Delta]:
        return [*self._citations.read(_message(event).citations)]

    def _ignore(self, event: _Event) -> list[Delta]:
        return []

    def _message_end(self, event: _Event) -> list[Delta]:
        self.ended = self._finished = True
        delta = event.delta or _Delta()
        deltas: list[Delta] = [*self._reasoning.end(), *read_usage(delta.usage)]
        if delta.error:
            error = delta.error if isinstance(delta.error, dict) else {"message": delta.error}
            return [*deltas, error_or_extra({"error": {"type": delta.finish_reason, **error}})]
        return [*deltas, Finish(nonempty_string(delta.finish_reason))]

    def _read_whole(self, event: _Event, message: _Message) -> list[Delta]:
        deltas: list[Delta] = [Start(None, nonempty_string(event.id))]
        content = message.content
        for index, block in enumerate(content if isinstance(content, list) else [content]):
            deltas += self._add_content(index, block)
            deltas += self._reasoning.end()
        deltas += self._citations.read(message.citations)
        deltas += [*self._add_plan(message.tool_plan), *self._reasoning.end()]
        for index, call in enumerate(read_calls(message.tool_calls)):
            deltas += [*self._start_call(index, call), *self._end_call(index)]
        if event.logprobs:
            deltas.append(Extra("logprobs", event.logprobs))
        return [*deltas, *read_usage(event.usage), Finish(nonempty_string(event.finish_reason))]

    # Content, plan and calls

    def _add_content(self, index: int, block: Any) -> list[Delta]:
        match block:
            case {"thinking": str(text)}:
                self._citations.end_message()
                return self._reasoning.add(THINKING, index, text)
            case {"text": str(text)} | str(text):
                return self._add_text(index, text)
            case None:
                return []
        return [Extra("content", block, is_output=True)]

    def _add_text(self, index: int, text: str) -> list[Delta]:
        self._citations.add_text(index, text)
        return [*self._reasoning.end(), Text(text)] if text else []

    def _add_plan(self, text: Any) -> list[Delta]:
        self._citations.end_message()
        return self._reasoning.add(TOOL_PLAN, 0, nonempty_string(text) or "")

    def _start_call(self, index: int, call: NativeCall | Extra) -> list[Delta]:
        if isinstance(call, Extra):
            return [call]
        self._citations.end_message()
        number = self._call_count
        self._call_count += 1
        self._open_calls[index] = CallBlock(number, "" if call.arguments else "{}")
        return [ToolCall(number, call.call_id, call.name, call.arguments)]

    def _end_call(self, index: int) -> list[Delta]:
        block = self._open_calls.pop(index, None)
        return [] if block is None else block.close()


_READERS: Mapping[str, Callable[[CohereDecoder, _Event], list[Delta]]] = {
    "message-start": CohereDecoder._message_start,
    "content-start": CohereDecoder._content,
    "content-delta": CohereDecoder._content,
    "content-end": CohereDecoder._content_end,
    "tool-plan-delta": CohereDecoder._tool_plan_delta,
    "tool-call-start": CohereDecoder._call_start,
    "tool-call-delta": CohereDecoder._call_delta,
    "tool-call-end": CohereDecoder._call_end,
    "citation-start": CohereDecoder._citation_start,
    "citation-end": CohereDecoder._ignore,
    "message-end": CohereDecoder._message_end,
}


def _message(event: _Event) -> _Message:
    return (event.delta and event.delta.message) or _NO_MESSAGE


def _index(event: _Event) -> int:
    return event.index if isinstance(event.index, int) else 0


def _sources(citation: Any) -> Iterator[tuple[str, Any]]:
    """URL and title of each source; citations in a plan or in thinking are not shown.

    `{"start": 0, "end": 4, "text": "Rain", "sources": [{"type": "document",
    "document": {"url": "https://…", "title": "Weather"}}]}`
    """
    match citation:
        case {"type": "PLAN" | "THINKING_CONTENT"}:
            return
        case {"sources": [*sources]}:
            for source in sources:
                match source:
                    case {"document": {"url": str(url)} as found} | {
                        "tool_output": {"url": str(url)} as found
                    }:
                        yield url, found.get("title")


def decode(body: bytes) -> list[Delta]:
    """Decode a whole response; its items keep the order of its blocks."""
    return decode_body(body, CohereDecoder())
