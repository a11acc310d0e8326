"""Cohere's chat (v2), the reading half, and the dialect as a whole.

An answer is blocks of content, a plan and calls; a stream tells of each how it begins, grows and
ends. Reading is total: an error is a `Failure`, a broken frame a protocol `Failure`, what we do not
know is an `Extra`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from antiphon.core.plan.plan import Outbound, Plan
from antiphon.core.stream.deltas import (
    Annotation,
    Delta,
    Extra,
    Finish,
    Start,
    Text,
    ToolCall,
    ToolEnd,
)
from antiphon.dialects.cohere import encode as cohere_request
from antiphon.dialects.cohere.decode_v1 import CohereV1Decoder
from antiphon.dialects.cohere.encode import CohereQuirks
from antiphon.dialects.cohere.reasoning_state import THINKING, TOOL_PLAN, Thoughts
from antiphon.dialects.cohere.usage import read_usage
from antiphon.dialects.defaults import DialectDefaults
from antiphon.dialects.json_input import NULL, UNREADABLE, decoded, read, string, surprise, told
from antiphon.dialects.parameters import ParameterFields
from antiphon.dialects.tool_call_json import NativeCall, read_calls
from antiphon.dialects.usage import count
from antiphon.wire.sse import Frame

# Leaves are `Any`: a surprise in one field must not cost the event.


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
    """An event, or a whole answer."""

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
_NOTHING = _Message()


class CohereDecoder:
    """The frames of one streamed answer → deltas."""

    def __init__(self) -> None:
        self._thoughts = Thoughts()
        self._v1 = CohereV1Decoder()
        self._calls = 0
        self._open: dict[int, int] = {}  # the calls that have not ended: their place → our number
        self._unwritten: set[int] = set()  # the calls without arguments so far
        self._written = 0  # characters of the message that is being written
        self._begins = {-1: 0}  # where in its message a block of text begins; the last one is -1
        self._finished = False
        self.ended = False
        """The provider has said that nothing more will come."""

    def feed(self, frame: Frame) -> list[Delta]:
        if frame.data in _DONE:
            self.ended = True
            return []
        try:
            event = read(_read_event, frame.data)
            if event.event_type is not None or event.generation_id is not None:
                return self._older(frame.data)
        except UNREADABLE:
            return surprise(frame.data, finished=self._finished)
        if (tell := _EVENTS.get(string(event.type) or frame.event)) is not None:
            return tell(self, event)
        if event.type is None and event.message is not None:
            return self._whole(event, event.message)
        return surprise(frame.data)

    def _older(self, data: bytes) -> list[Delta]:
        deltas = self._v1.feed(data)
        self.ended = self._v1.ended
        return deltas

    def close(self) -> list[Delta]:
        """The stream has ended; a cut one has nothing to add."""
        return []

    # Events

    def _message_start(self, event: _Event) -> list[Delta]:
        return [Start(None, string(event.id))]

    def _content(self, event: _Event) -> list[Delta]:
        logprobs = [Extra("logprobs", event.logprobs)] if event.logprobs else []
        return [*self._block(_index(event), _message(event).content), *logprobs]

    def _content_end(self, event: _Event) -> list[Delta]:
        return self._thoughts.end()

    def _tool_plan(self, event: _Event) -> list[Delta]:
        return self._plan(_message(event).tool_plan)

    def _call_start(self, event: _Event) -> list[Delta]:
        deltas = self._thoughts.end()
        for place, call in enumerate(read_calls(_message(event).tool_calls), _index(event)):
            deltas += self._begun(place, call)
        return deltas

    def _call_delta(self, event: _Event) -> list[Delta]:
        deltas: list[Delta] = []
        for place, call in enumerate(read_calls(_message(event).tool_calls), _index(event)):
            number = self._open.get(place)
            if isinstance(call, Extra) or number is None:
                deltas.append(Extra("tool_call", call))
            elif call.arguments:
                self._unwritten.discard(number)
                deltas.append(ToolCall(number, arguments=call.arguments))
        return deltas

    def _call_end(self, event: _Event) -> list[Delta]:
        return self._ended(_index(event))

    def _citation(self, event: _Event) -> list[Delta]:
        return [*self._cited(_message(event).citations)]

    def _nothing(self, event: _Event) -> list[Delta]:
        return []

    def _message_end(self, event: _Event) -> list[Delta]:
        self.ended = self._finished = True
        delta = event.delta or _Delta()
        deltas: list[Delta] = [*self._thoughts.end(), *read_usage(delta.usage)]
        if delta.error:
            error = delta.error if isinstance(delta.error, dict) else {"message": delta.error}
            return [*deltas, told({"error": {"type": delta.finish_reason, **error}})]
        return [*deltas, Finish(string(delta.finish_reason))]

    def _whole(self, event: _Event, message: _Message) -> list[Delta]:
        deltas: list[Delta] = [Start(None, string(event.id))]
        content = message.content
        for index, block in enumerate(content if isinstance(content, list) else [content]):
            deltas += self._block(index, block)
            deltas += self._thoughts.end()
        deltas += self._cited(message.citations)
        deltas += [*self._plan(message.tool_plan), *self._thoughts.end()]
        for place, call in enumerate(read_calls(message.tool_calls)):
            deltas += [*self._begun(place, call), *self._ended(place)]
        if event.logprobs:
            deltas.append(Extra("logprobs", event.logprobs))
        return [*deltas, *read_usage(event.usage), Finish(string(event.finish_reason))]

    # What they are made of

    def _block(self, index: int, block: Any) -> list[Delta]:
        match block:
            case {"thinking": str(text)}:
                self._written = 0
                return self._thoughts.grow(THINKING, index, text)
            case {"text": str(text)} | str(text):
                return self._text(index, text)
            case None:
                return []
        return [Extra("content", block)]

    def _text(self, index: int, text: str) -> list[Delta]:
        if index not in self._begins:
            self._begins[index] = self._begins[-1] = self._written
        self._written += len(text)
        return [*self._thoughts.end(), Text(text)] if text else []

    def _plan(self, text: Any) -> list[Delta]:
        self._written = 0
        return self._thoughts.grow(TOOL_PLAN, 0, string(text) or "")

    def _begun(self, place: int, call: NativeCall | Extra) -> list[Delta]:
        if isinstance(call, Extra):
            return [call]
        self._written = 0
        number, self._calls = self._calls, self._calls + 1
        self._open[place] = number
        if not call.arguments:
            self._unwritten.add(number)
        return [ToolCall(number, call.call_id, call.name, call.arguments)]

    def _ended(self, place: int) -> list[Delta]:
        number = self._open.pop(place, None)
        if number is None:
            return []
        missing = [ToolCall(number, arguments="{}")] if number in self._unwritten else []
        return [*missing, ToolEnd(number)]

    def _cited(self, citations: Any) -> Iterator[Delta]:
        for citation in citations if isinstance(citations, list) else [citations]:
            if citation is not None:
                yield from self._citations(citation)

    def _citations(self, citation: Any) -> Iterator[Delta]:
        """A citation of the web for every source that has an address; others say nothing here."""
        sources = [*_sources(citation)]
        if not sources:
            yield Extra("citation", citation)
            return
        place = citation.get("content_index")
        begin = self._begins.get(place if isinstance(place, int) else -1, self._begins[-1])
        for url, title in sources:
            yield Annotation(
                {
                    "type": "url_citation",
                    "url": url,
                    "title": string(title) or "",
                    "start_index": begin + count(citation.get("start")),
                    "end_index": begin + count(citation.get("end")),
                }
            )


_EVENTS: Mapping[str, Callable[[CohereDecoder, _Event], list[Delta]]] = {
    "message-start": CohereDecoder._message_start,
    "content-start": CohereDecoder._content,
    "content-delta": CohereDecoder._content,
    "content-end": CohereDecoder._content_end,
    "tool-plan-delta": CohereDecoder._tool_plan,
    "tool-call-start": CohereDecoder._call_start,
    "tool-call-delta": CohereDecoder._call_delta,
    "tool-call-end": CohereDecoder._call_end,
    "citation-start": CohereDecoder._citation,
    "citation-end": CohereDecoder._nothing,
    "message-end": CohereDecoder._message_end,
}


def _message(event: _Event) -> _Message:
    return (event.delta and event.delta.message) or _NOTHING


def _index(event: _Event) -> int:
    return event.index if isinstance(event.index, int) else 0


def _sources(citation: Any) -> Iterator[tuple[str, Any]]:
    """Address and title of what a piece of text rests on; a plan or a thought is not shown."""
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
    """A whole answer → deltas, its items in the order of its blocks."""
    return decoded(body, CohereDecoder())


class CohereDialect(DialectDefaults):
    """Cohere's chat: SSE frames with a `type`, an answer of blocks."""

    parameter_fields = ParameterFields(
        essential=frozenset("model messages stream tools tool_choice response_format".split())
    )

    def __init__(self, *, quirks: CohereQuirks = cohere_request.PLAIN) -> None:
        self._quirks = quirks

    def encode(self, plan: Plan, *, stream: bool) -> Outbound:
        return cohere_request.encode(plan, stream=stream, quirks=self._quirks)

    def decoder(self) -> CohereDecoder:
        return CohereDecoder()

    def decode(self, body: bytes) -> list[Delta]:
        return decode(body)
