"""Decode Ollama responses: lines of JSON, or one such line as a whole response.

`/api/chat` sends a `message`, `/api/generate` a `response`; calls come whole. Decoding is total: an
error is a `Failure`, a broken line a protocol `Failure`, anything unknown an `Extra`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw, Struct

from antiphon.core.deltas import (
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
from antiphon.core.faults.fault import protocol_fault
from antiphon.dialects.json_input import (
    NULL,
    UNREADABLE,
    decode_body,
    decode_lenient,
    decode_unexpected,
    nonempty_string,
)
from antiphon.dialects.tool_call_json import NativeCall, read_calls
from antiphon.dialects.usage import count, read_logprobs
from antiphon.framing.sse import Frame

# Leaves are `Any`: an unexpected type in one field must not make the line unreadable.


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
_MODEL_MOVED = frozenset({"load", "unload"})
"""Finish reasons of a server that only loaded or unloaded its model and generated nothing."""


class OllamaDecoder:
    """Lines of one streamed response → deltas."""

    def __init__(self) -> None:
        self._started = False
        self._has_output = False
        self._finished = False
        self._calls = 0
        self.ended = False
        """The provider has announced the end of the stream."""

    def feed(self, frame: Frame) -> list[Delta]:
        try:
            line = decode_lenient(_read_line, frame.data)
        except UNREADABLE:
            return decode_unexpected(frame.data, finished=self._finished)
        deltas = [*self._read_output(line), *self._read_end(line)]
        is_output = line.message is not None or line.response is not None
        if line.error is not None or not (deltas or is_output):
            deltas += decode_unexpected(frame.data)
        return deltas

    def close(self) -> list[Delta]:
        """End of input; a cut stream adds nothing."""
        return []

    def _read_output(self, line: _Line) -> Iterator[Delta]:
        """Read the output of one line in the order of generation: thinking, text, calls."""
        if not self._started and nonempty_string(line.model):
            self._started = True
            yield Start(nonempty_string(line.model))
        message = line.message or _Message(
            line.response, line.thinking, line.tool_calls, line.image
        )
        output = [*_read_content(message, line.logprobs), *self._read_calls(message.tool_calls)]
        self._has_output = self._has_output or bool(output)
        yield from output

    def _read_calls(self, calls: Raw) -> Iterator[Delta]:
        for call in read_calls(calls):
            if isinstance(call, NativeCall):
                index, self._calls = self._calls, self._calls + 1
                yield ToolCall(index, call.call_id, call.name, call.arguments or "{}")
                yield ToolEnd(index)
            else:
                yield call

    def _read_end(self, line: _Line) -> Iterator[Delta]:
        input_tokens = count(line.prompt_eval_count)
        output_tokens = count(line.eval_count)
        if input_tokens or output_tokens:  # a completely cached prompt has no count
            yield Usage(input_tokens=input_tokens, output_tokens=output_tokens)
        self.ended = line.done is True
        reason = nonempty_string(line.done_reason)
        if not self.ended and reason is None:
            return
        self._finished = True
        if reason in _MODEL_MOVED and not self._has_output:
            # {"message": {"content": ""}, "done": true, "done_reason": "load"}
            problem = f"The provider generated no output: done_reason is {reason!r}."
            yield Failure(protocol_fault(problem))
        else:
            yield Finish(reason or "stop")  # servers of 2023 send `done` without a reason


def _read_content(message: _Message, logprobs: Any) -> Iterator[Delta]:
    match message.thinking:
        case None | "":
            pass
        case str(text):
            yield Reasoning(text)
        case other:
            yield Extra("thinking", other, is_output=True)
    match message.content:
        case None | "":
            pass
        case str(text):
            yield Text(text, read_logprobs({"content": logprobs}) if logprobs else ())
        case other:
            yield Extra("content", other, is_output=True)
    if message.images:
        yield Extra("images", message.images, is_output=True)


def decode(body: bytes) -> list[Delta]:
    """Decode a whole response."""
    return decode_body(body, OllamaDecoder())
