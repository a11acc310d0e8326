"""Ollama's own API, the reading half, and the dialect as a whole.

A stream is lines of JSON, and a whole answer is such a line. `/api/chat` tells a `message`,
`/api/generate` a `response`; calls come whole. Reading is total: an error is a `Failure`, a broken
line a protocol `Failure`, what we do not know is an `Extra`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw, Struct

from antiphon.core.faults.fault import protocol_fault
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
    ToolEnd,
    Usage,
)
from antiphon.dialects.defaults import DialectDefaults
from antiphon.dialects.json_input import NULL, UNREADABLE, decoded, read, string, surprise
from antiphon.dialects.ollama import encode as ollama_request
from antiphon.dialects.ollama.encode import OllamaQuirks
from antiphon.dialects.parameters import ParameterFields
from antiphon.dialects.tool_call_json import NativeCall, read_calls
from antiphon.dialects.usage import count, read_logprobs
from antiphon.wire.sse import Frame, NDJSONDecoder

# Leaves are `Any`: a surprise in one field must not cost the line.


class _Message(Struct):
    content: Any = None
    thinking: Any = None
    tool_calls: Raw = NULL
    images: Any = None


class _Line(Struct):
    model: Any = None
    message: _Message | None = None
    response: Any = None
    thinking: Any = None
    tool_calls: Raw = NULL
    image: Any = None
    logprobs: Any = None
    done: Any = None
    done_reason: Any = None
    prompt_eval_count: Any = None
    eval_count: Any = None
    error: Any = None


_read_line = msgspec.json.Decoder(_Line).decode
_IDLE = frozenset({"load", "unload"})
"""Reasons of a server that has moved its model about and generated nothing."""


class OllamaDecoder:
    """The lines of one streamed answer → deltas."""

    def __init__(self) -> None:
        self._started = False
        self._spoke = False
        self._finished = False
        self._calls = 0
        self.ended = False
        """The provider has said that nothing more will come."""

    def feed(self, frame: Frame) -> list[Delta]:
        try:
            line = read(_read_line, frame.data)
        except UNREADABLE:
            return surprise(frame.data, finished=self._finished)
        deltas = [*self._said(line), *self._done(line)]
        is_piece = line.message is not None or line.response is not None
        if line.error is not None or not (deltas or is_piece):
            deltas += surprise(frame.data)
        return deltas

    def close(self) -> list[Delta]:
        """The stream has ended; a cut one has nothing to add."""
        return []

    def _said(self, line: _Line) -> Iterator[Delta]:
        """What one line says, in the order the model thought of it."""
        if not self._started and string(line.model):
            self._started = True
            yield Start(string(line.model))
        message = line.message or _Message(
            line.response, line.thinking, line.tool_calls, line.image
        )
        said = [*_words(message, line.logprobs), *self._called(message.tool_calls)]
        self._spoke = self._spoke or bool(said)
        yield from said

    def _called(self, calls: Raw) -> Iterator[Delta]:
        for call in read_calls(calls):
            if isinstance(call, NativeCall):
                index, self._calls = self._calls, self._calls + 1
                yield ToolCall(index, call.call_id, call.name, call.arguments or "{}")
                yield ToolEnd(index)
            else:
                yield call

    def _done(self, line: _Line) -> Iterator[Delta]:
        prompt, answer = count(line.prompt_eval_count), count(line.eval_count)
        if prompt or answer:  # a prompt that was cached as a whole is not counted
            yield Usage(input_tokens=prompt, output_tokens=answer)
        self.ended = line.done is True
        reason = string(line.done_reason)
        if not self.ended and reason is None:
            return
        self._finished = True
        if reason in _IDLE and not self._spoke:
            yield Failure(protocol_fault("The provider generated nothing: its model was moved."))
        else:
            yield Finish(reason or "stop")  # servers of 2023 only say that they are done


def _words(message: _Message, logprobs: Any) -> Iterator[Delta]:
    match message.thinking:
        case None | "":
            pass
        case str(text):
            yield Reasoning(text)
        case other:
            yield Extra("thinking", other)
    match message.content:
        case None | "":
            pass
        case str(text):
            yield Text(text, read_logprobs({"content": logprobs}) if logprobs else ())
        case other:
            yield Extra("content", other)
    if message.images:
        yield Extra("images", message.images)


def decode(body: bytes) -> list[Delta]:
    """A whole answer → deltas."""
    return decoded(body, OllamaDecoder())


class OllamaDialect(DialectDefaults):
    """Ollama's own API: lines of JSON, each with a piece of a message."""

    parameter_fields = ParameterFields(
        essential=frozenset({"model", "messages", "stream", "tools"}),
        groups=("options",),
    )

    def __init__(self, *, quirks: OllamaQuirks = ollama_request.PLAIN) -> None:
        self._quirks = quirks

    def encode(self, plan: Plan, *, stream: bool) -> Outbound:
        return ollama_request.encode(plan, stream=stream, quirks=self._quirks)

    def framer(self) -> NDJSONDecoder:
        return NDJSONDecoder()

    def decoder(self) -> OllamaDecoder:
        return OllamaDecoder()

    def decode(self, body: bytes) -> list[Delta]:
        return decode(body)
