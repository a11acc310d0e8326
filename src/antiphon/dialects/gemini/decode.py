"""Gemini's generateContent, the reading half, and the dialect as a whole.

A chunk of a stream has the shape of a whole answer, and a stream without `alt=sse` is an array of
chunks: one reader serves them all. It is total: an error object is a `Failure`, an unreadable frame
is a protocol `Failure`, a part of the server's own tools is an `Extra` and never a call.

What must come back next turn is state: a signature on a call, a signature on a stretch of text, or
a whole part that the client is to echo. Text is told to the client in one piece, so state that sits
in it says where (in characters).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from antiphon.core.faults import classify as faults
from antiphon.core.faults.classify import classify_document
from antiphon.core.faults.fault import blocked_fault, protocol_fault
from antiphon.core.plan.plan import Outbound, Plan
from antiphon.core.stream.deltas import (
    Delta,
    Extra,
    Failure,
    Finish,
    Reasoning,
    ReasoningState,
    Start,
    Text,
    ToolCall,
    Usage,
)
from antiphon.dialects.defaults import DialectDefaults
from antiphon.dialects.gemini import encode as gemini_request
from antiphon.dialects.gemini.encode import GeminiQuirks
from antiphon.dialects.gemini.messages import PART, SIGNATURE
from antiphon.dialects.gemini.text import CitationReader, TextRun
from antiphon.dialects.gemini.tool_calls import CallReader
from antiphon.dialects.json_input import UNREADABLE, read, reported, string, surprise
from antiphon.dialects.parameters import ParameterFields
from antiphon.dialects.usage import count
from antiphon.wire.sse import Frame

_read_document = msgspec.json.Decoder().decode

# Where enums come as numbers. AI Studio and Vertex agree up to 5, and on what 6 to 8 amount to.
_FINISHES = (
    *("", "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "OTHER"),
    *("BLOCKLIST", "PROHIBITED_CONTENT", "SPII"),
)
# The model, or its server, lost the thread; the next sample may be better.
_MISHAPS = frozenset(
    """
    MALFORMED_FUNCTION_CALL UNEXPECTED_TOOL_CALL TOO_MANY_TOOL_CALLS MALFORMED_RESPONSE
    MISSING_THOUGHT_SIGNATURE
    """.split()
)
_ECHOED = ("executableCode", "codeExecutionResult", "toolCall", "toolResponse")
_MEDIA = ("inlineData", "fileData")
_BESIDE = ("urlContextMetadata", "logprobsResult", "finishMessage")


class GeminiDecoder:
    """The frames of one streamed answer → deltas."""

    def __init__(self) -> None:
        self._calls = CallReader()
        self._run = TextRun()
        self._citations = CitationReader(self._run)
        self._started = False
        self._finished = False
        self._answered = False
        self.ended = False
        """The provider has said that nothing more will come: only some that stand between do."""

    def feed(self, frame: Frame) -> list[Delta]:
        if frame.data == b"[DONE]":
            self.ended = True
            return []
        try:
            document = read(_read_document, frame.data)
        except UNREADABLE:
            return surprise(frame.data, finished=self._finished)
        return self.read(document)

    def read(self, document: Any) -> list[Delta]:
        """One chunk, or an array of them."""
        chunks = document if isinstance(document, list) else [document]
        return [delta for chunk in chunks for delta in self._chunk(chunk)]

    def close(self) -> list[Delta]:
        return list(self._calls.close())

    def _chunk(self, chunk: Any) -> Iterator[Delta]:
        if not isinstance(chunk, dict):
            yield Extra("chunk", chunk)
            return
        candidates = chunk.get("candidates")
        had_answer = self._answered
        yield from self._start(chunk)
        # First: what was spent counts even if the answer failed.
        yield from _usage(chunk.get("usageMetadata"))
        for place, candidate in enumerate(candidates if isinstance(candidates, list) else ()):
            yield from self._candidate(place, candidate)
        yield from _blocked(chunk.get("promptFeedback"), had_answer)
        if not candidates or "error" in chunk:
            fault = reported(chunk)
            if fault is not None:
                yield Failure(fault)

    def _start(self, chunk: Mapping[str, Any]) -> Iterator[Delta]:
        model, upstream_id = string(chunk.get("modelVersion")), string(chunk.get("responseId"))
        if not self._started and (model or chunk.get("candidates")):
            self._started = True
            yield Start(model, upstream_id)

    def _candidate(self, place: int, candidate: Any) -> Iterator[Delta]:
        if not isinstance(candidate, dict) or candidate.get("index", place):
            yield Extra("candidate", candidate)
            return
        content = candidate.get("content")
        parts = content.get("parts") if isinstance(content, dict) else None
        for part in parts if isinstance(parts, list) else ():
            for delta in self._part(part):
                self._answered = self._answered or isinstance(delta, Text | ToolCall)
                yield delta
        yield from self._citations.feed(candidate)
        yield from (Extra(kind, candidate[kind]) for kind in _BESIDE if candidate.get(kind))
        yield from self._finish(candidate)

    # Parts

    def _part(self, part: Any) -> Iterator[Delta]:
        match part:
            case {"functionCall": dict(call)}:
                for delta in self._calls.feed(call, string(part.get("thoughtSignature"))):
                    self._run.end()
                    yield delta
            case {"text": str(text), "thought": True}:
                yield from self._thought(text, part)
            case {"text": str(text)}:
                yield from self._text(text, string(part.get("thoughtSignature")))
            case dict() if not part:
                return
            case _:
                yield from self._other(part)

    def _thought(self, text: str, part: Mapping[str, Any]) -> Iterator[Delta]:
        if text:
            self._run.end()
            yield Reasoning(text, "summary")
        if part.get("thoughtSignature"):
            yield self._echo(part)

    def _text(self, text: str, signature: str | None) -> Iterator[Delta]:
        if text:
            self._run.add(text)
            yield Text(text)
        if signature is not None:
            end = self._run.length
            place = {"start": end - len(text), "end": end} if end else {}
            yield ReasoningState(SIGNATURE, {"signature": signature, **place}, "text")

    def _other(self, part: Any) -> Iterator[Delta]:
        """What the server did or made itself. The client echoes it, but for what is too large."""
        if not isinstance(part, dict):
            yield Extra("part", part)
            return
        kind = next((name for name in (*_ECHOED, *_MEDIA) if name in part), "part")
        yield Extra(kind, part.get(kind, part))
        if kind in _ECHOED or (part.get("thoughtSignature") and kind not in _MEDIA):
            yield self._echo(part)

    def _echo(self, part: Mapping[str, Any]) -> ReasoningState:
        place = {"start": self._run.length} if self._run.length else {}
        return ReasoningState(PART, {"part": part, **place}, "turn")

    # The end

    def _finish(self, candidate: Mapping[str, Any]) -> Iterator[Delta]:
        reason = _reason(candidate.get("finishReason"))
        if reason is None:
            return
        self._finished = True
        message = string(candidate.get("finishMessage")) or reason
        if reason in _MISHAPS:
            yield _mishap(reason, message)
        elif reason != "OTHER":
            yield Finish(reason)
        elif self._answered:
            yield Finish("other_after_output")
        else:
            yield _mishap("INTERNAL", message)


def decode(body: bytes) -> list[Delta]:
    """A whole answer, or a whole stream that came as an array, → deltas in the order of parts."""
    decoder = GeminiDecoder()
    try:
        document = read(_read_document, body)
    except UNREADABLE:
        document = None
    if not isinstance(document, dict | list):
        return [Failure(faults.classify(200, {}, body))]
    return decoder.read(document) + decoder.close()


class GeminiDialect(DialectDefaults):
    """`generateContent` and `streamGenerateContent?alt=sse`, at AI Studio or at Vertex."""

    parameter_fields = ParameterFields(
        essential=frozenset({"contents", "systemInstruction", "tools", "toolConfig"}),
        groups=("generationConfig",),
        last="contents",
    )

    def __init__(self, *, quirks: GeminiQuirks = gemini_request.PLAIN) -> None:
        self._quirks = quirks

    def encode(self, plan: Plan, *, stream: bool) -> Outbound:
        return gemini_request.encode(plan, stream=stream, quirks=self._quirks)

    def decoder(self) -> GeminiDecoder:
        return GeminiDecoder()

    def decode(self, body: bytes) -> list[Delta]:
        return decode(body)


def _reason(value: Any) -> str | None:
    """The provider's word for why it stopped; None as long as it has not said."""
    if isinstance(value, int) and not isinstance(value, bool):
        return (_FINISHES[value] if 0 <= value < len(_FINISHES) else str(value)) or None
    return None if value == "FINISH_REASON_UNSPECIFIED" else string(value)


def _mishap(code: str, message: str) -> Delta:
    fault = classify_document({"error": {"code": code, "message": message}})
    return Failure(fault or protocol_fault(message))


def _blocked(feedback: Any, had_answer: bool) -> Iterator[Delta]:
    """A blocked prompt. Now and then it shows only after a part of the answer has gone out."""
    reason = feedback.get("blockReason") if isinstance(feedback, dict) else None
    if not reason or str(reason).endswith("UNSPECIFIED"):
        return
    yield Finish("content_filter") if had_answer else Failure(blocked_fault(str(reason)))


def _usage(counts: Any) -> Iterator[Delta]:
    """Thinking is counted beside the answer, and what the server's tools brought beside the prompt.

    Counts are cumulative, and some chunks have none.
    """
    if not isinstance(counts, dict):
        return
    thoughts = count(counts.get("thoughtsTokenCount"))
    usage = Usage(
        input_tokens=count(counts.get("promptTokenCount"))
        + count(counts.get("toolUsePromptTokenCount")),
        output_tokens=count(counts.get("candidatesTokenCount")) + thoughts,
        cached_tokens=count(counts.get("cachedContentTokenCount")),
        reasoning_tokens=thoughts,
        total_tokens=count(counts.get("totalTokenCount")) or None,
    )
    if usage != Usage():
        yield usage
