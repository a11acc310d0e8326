"""Chat Completions, as OpenAI documents it and as everybody else sends it.

The reading half: chunks and whole bodies become deltas. It is total: an error object is a
`Failure`, an unreadable frame is a protocol `Failure`, what we do not know is an `Extra`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from antiphon.core.faults.classify import classify, classify_document
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
)
from antiphon.dialects.chat.citations import Sources, citation
from antiphon.dialects.chat.tool_calls import CallTracker, Piece
from antiphon.dialects.json_input import UNREADABLE, reread, string, unreadable
from antiphon.dialects.usage import read_logprobs, read_usage
from antiphon.wire.sse import Frame

# Leaves are `Any` where some server sends another type than the documented one: a surprise in
# one field must not cost the chunk.


class _Function(Struct):
    name: Any = None
    arguments: Any = None
    input: Any = None


class _ToolCall(Struct):
    index: Any = None
    id: Any = None
    type: Any = None
    function: _Function | None = None
    custom: _Function | None = None
    extra_content: Any = None


class _Message(Struct):
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_details: Any = None
    refusal: Any = None
    tool_calls: list[_ToolCall] | None = None
    function_call: _Function | None = None
    annotations: Any = None
    extra_content: Any = None
    audio: Any = None
    images: Any = None
    executed_tools: Any = None


class _Choice(Struct):
    delta: _Message | None = None
    message: _Message | None = None
    index: Any = 0
    finish_reason: Any = None
    logprobs: Any = None
    usage: Any = None
    error: Any = None


class _Chunk(Struct):
    choices: list[_Choice] | None = None
    model: Any = None
    id: Any = None
    usage: Any = None
    error: Any = None
    x_groq: Any = None
    base_resp: Any = None
    citations: Any = None
    search_results: Any = None
    web_search: Any = None


_read_chunk = msgspec.json.Decoder(_Chunk).decode
_read_document = msgspec.json.Decoder().decode
_NOTHING = _Message()


class ChatDecoder:
    """The frames of one streamed answer → deltas."""

    def __init__(self, *, implied_finish: str | None = None) -> None:
        """`implied_finish` is for providers that never say why they stopped, only that they did."""
        self._implied_finish = implied_finish
        self._calls = CallTracker()
        self._sources = Sources()
        self._started = False
        self._finished = False
        self._spoke = False
        self.ended = False
        """The provider has said that nothing more will come."""

    def feed(self, frame: Frame) -> list[Delta]:
        data = frame.data
        if data == b"[DONE]":
            return self._done()
        try:
            chunk, data = reread(_read_chunk, data)
        except UNREADABLE:
            return unreadable(data, finished=self._finished)
        return self._deltas(chunk, data)

    def close(self) -> list[Delta]:
        """The stream has ended; a cut one has nothing to add."""
        return []

    def _done(self) -> list[Delta]:
        self.ended = True
        if self._implied_finish and not self._finished:
            return [Finish(self._implied_finish)]
        return []

    def _deltas(self, chunk: _Chunk, data: bytes) -> list[Delta]:
        deltas: list[Delta] = []
        if not self._started and (chunk.model or chunk.choices):
            self._started = True
            deltas.append(Start(string(chunk.model), string(chunk.id)))
        if chunk.usage or chunk.x_groq:
            deltas += _chunk_usage(chunk)  # first: what was spent counts even if the choice failed
        if chunk.web_search or chunk.search_results or chunk.citations:
            deltas += _found(chunk, self._sources)
        for choice in chunk.choices or ():
            deltas += self._choice(choice)
        if chunk.choices is None or chunk.error or chunk.base_resp:
            deltas += _failure(data)
        return deltas

    def _choice(self, choice: _Choice) -> list[Delta]:
        if choice.index:
            return [Extra("choice", choice.index)]
        message = choice.delta
        if message is None:  # a whole message in a stream counts only where no deltas came
            message = _NOTHING if self._spoke else choice.message or _NOTHING
        deltas = self._message(message, choice.logprobs)
        self._spoke = self._spoke or bool(deltas)
        if choice.finish_reason and isinstance(choice.finish_reason, str):
            self._finished = True
            deltas.append(Finish(choice.finish_reason))
        if choice.usage or choice.error:
            deltas += _choice_rest(choice)
        return deltas

    def _message(self, message: _Message, logprobs: Any) -> list[Delta]:
        """What one delta says, in the order the model thought of it."""
        deltas: list[Delta] = []
        if message.reasoning_content or message.reasoning or message.reasoning_details:
            deltas += _thought(message)
        if message.content:
            deltas += _content(message.content, logprobs)
        if message.refusal and isinstance(message.refusal, str):
            deltas.append(Refusal(message.refusal))
        if message.tool_calls or message.function_call:
            for piece, signature in _pieces(message):
                deltas += signature
                deltas.append(self._calls.feed(piece))
        deltas += _beside(message)
        return deltas


def decode(body: bytes) -> list[Delta]:
    """A whole answer → deltas, its items in the order reasoning, tool calls, message."""
    try:
        chunk, body = reread(_read_chunk, body)
    except UNREADABLE:
        return [Failure(classify(200, {}, body))]
    deltas: list[Delta] = [Start(string(chunk.model), string(chunk.id))]
    deltas += _chunk_usage(chunk)
    deltas += _found(chunk, Sources())
    for choice in chunk.choices or ():
        deltas += _whole_choice(choice)
    if not chunk.choices or chunk.error or chunk.base_resp:
        deltas += _failure(body)
    return deltas


def _whole_choice(choice: _Choice) -> Iterator[Delta]:
    if choice.index:
        yield Extra("choice", choice.index)
        return
    message = choice.message or choice.delta or _NOTHING
    yield from _thought(message)
    calls = CallTracker()
    for position, (piece, signature) in enumerate(_pieces(message)):
        yield from signature
        yield calls.feed(msgspec.structs.replace(piece, index=position))
    if message.content:
        yield from _content(message.content, choice.logprobs)
    if message.refusal and isinstance(message.refusal, str):
        yield Refusal(message.refusal)
    yield from _beside(message)
    yield Finish(string(choice.finish_reason))
    yield from _choice_rest(choice)


# What a message says


def _content(content: Any, logprobs: Any) -> Iterator[Delta]:
    if isinstance(content, str):
        yield Text(content, read_logprobs(logprobs) if logprobs else ())
    elif isinstance(content, list):
        for part in content:
            yield from _part(part)
    else:
        yield Extra("content", content)


def _part(part: Any) -> Iterator[Delta]:
    match part:
        case {"type": "text", "text": str(text)}:
            yield Text(text)
        case {"type": "thinking", "thinking": str(text)}:
            yield Reasoning(text)
        case {"type": "thinking", "thinking": list(thoughts)}:
            for thought in thoughts:
                if isinstance(thought, dict) and isinstance(thought.get("text"), str):
                    yield Reasoning(thought["text"])
        case _:
            yield Extra("content_part", part)


def _thought(message: _Message) -> Iterator[Delta]:
    """Reasoning, from whichever field carries it. Several often carry the same text: one counts."""
    details = message.reasoning_details
    entries = [d for d in details if isinstance(d, dict)] if isinstance(details, list) else []
    text = string(message.reasoning_content) or string(message.reasoning)
    if text is not None:
        summarized = entries and all(e.get("type") == "reasoning.summary" for e in entries)
        yield Reasoning(text, "summary" if summarized else "raw")
    else:
        for entry in entries:
            yield from _detail(entry)
    if entries:
        yield ReasoningState("openrouter.reasoning_details", entries, "turn")


def _detail(entry: Mapping[str, Any]) -> Iterator[Delta]:
    match entry:
        case {"type": "reasoning.summary", "summary": str(text)}:
            index = entry.get("index")
            yield Reasoning(text, "summary", index if isinstance(index, int) else 0)
        case {"text": str(text)}:
            yield Reasoning(text)
        case _:  # encrypted: state, kept as a whole
            pass


def _pieces(message: _Message) -> Iterator[tuple[Piece, list[Delta]]]:
    """Each piece of a call, with the state its provider wants back beside it."""
    for number, call in enumerate(message.tool_calls or ()):
        function = call.function or call.custom or _Function()
        custom = call.function is None and call.custom is not None
        yield (
            Piece(
                index=call.index if isinstance(call.index, int) else None,
                call_id=string(call.id),
                name=string(function.name),
                arguments=_arguments(function.input if custom else function.arguments),
                kind="custom" if custom else "function",
                beside=number > 0,
            ),
            _signature(call.extra_content, "tool"),
        )
    legacy = message.function_call
    if legacy is not None and (legacy.name or legacy.arguments):
        yield Piece(0, None, string(legacy.name), _arguments(legacy.arguments)), []


def _arguments(value: Any) -> str:
    """Arguments are JSON text; some servers send the JSON itself."""
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()


def _signature(extra: Any, attach: Any) -> list[Delta]:
    match extra:
        case {"google": {"thought_signature": str(value)}}:
            return [ReasoningState("gemini.thought_signature", value, attach)]
    return []


def _beside(message: _Message) -> list[Delta]:
    """Citations, signatures and what we only keep for the trace."""
    deltas: list[Delta] = []
    if message.annotations and isinstance(message.annotations, list):
        deltas += [citation(annotation) for annotation in message.annotations]
    if message.extra_content:
        deltas += _signature(message.extra_content, "text")
    if message.audio or message.images or message.executed_tools:
        kept = {"audio": message.audio, "images": message.images}
        kept["executed_tools"] = message.executed_tools
        deltas += [Extra(kind, value) for kind, value in kept.items() if value]
    return deltas


# What stands beside it


def _choice_rest(choice: _Choice) -> Iterator[Delta]:
    if isinstance(choice.usage, dict):
        yield read_usage(choice.usage)
    if choice.error and (fault := classify_document({"error": choice.error})):
        yield Failure(fault)


def _chunk_usage(chunk: _Chunk) -> Iterator[Delta]:
    if isinstance(chunk.usage, dict):
        yield read_usage(chunk.usage)
    elif isinstance(chunk.x_groq, dict) and isinstance(chunk.x_groq.get("usage"), dict):
        yield read_usage(chunk.x_groq["usage"])


def _found(chunk: _Chunk, sources: Sources) -> list[Delta]:
    """What a provider that searches by itself has found."""
    return sources.feed(chunk.web_search or chunk.search_results or chunk.citations)


def _failure(data: bytes) -> list[Delta]:
    """The error in a chunk that carries one, or that carries nothing we know."""
    fault = classify_document(_read_document(data))
    return [] if fault is None else [Failure(fault)]
