"""Decode Gemini responses: chunks of `streamGenerateContent` or a whole `generateContent` body.

A chunk of a stream has the shape of a whole response, and a stream without `alt=sse` is an array of
chunks: one reader serves all three. Decoding is total: an error object is a `Failure`, an
unreadable frame is a protocol `Failure`, a part of a server-side tool is an `Extra` and never a
call.

State that the next request must contain is the signature of a call, the signature of a range of
text, or a whole part to echo. The client receives the text in one piece, so state within it
records its position (in characters).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from antiphon.core.deltas import (
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
from antiphon.core.faults.classify import classify_document
from antiphon.core.faults.fault import blocked_fault, protocol_fault
from antiphon.dialects.gemini.citations import CitationReader, TextRun
from antiphon.dialects.gemini.messages import PART, SIGNATURE
from antiphon.dialects.gemini.tool_calls import CallReader
from antiphon.dialects.json_input import (
    UNREADABLE,
    decode_lenient,
    decode_unexpected,
    fail_unreadable,
    find_error,
    nonempty_string,
)
from antiphon.dialects.usage import count
from antiphon.framing.sse import Frame

_read_document = msgspec.json.Decoder().decode

# Finish reasons by number, for servers that send enums as numbers. AI Studio and Vertex agree on
# 0 to 5, and 6 to 8 have the same effect in both.
_FINISH_REASONS = (
    *("", "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "OTHER"),
    *("BLOCKLIST", "PROHIBITED_CONTENT", "SPII"),
)
# Generation failed; another attempt may succeed.
_GENERATION_FAILURES = frozenset(
    """
    MALFORMED_FUNCTION_CALL UNEXPECTED_TOOL_CALL TOO_MANY_TOOL_CALLS MALFORMED_RESPONSE
    MISSING_THOUGHT_SIGNATURE
    """.split()
)
# The API names no cause; an image model that wrote only text may draw at the next attempt.
_UNSPECIFIED = frozenset({"OTHER", "NO_IMAGE"})
_ECHOED = ("executableCode", "codeExecutionResult", "toolCall", "toolResponse")
_MEDIA = ("inlineData", "fileData")
_CANDIDATE_EXTRAS = ("urlContextMetadata", "logprobsResult", "finishMessage")


class GeminiDecoder:
    """Frames of one streamed response → deltas."""

    def __init__(self) -> None:
        self._calls = CallReader()
        self._run = TextRun()
        self._citations = CitationReader(self._run)
        self._started = False
        self._finished = False
        self._has_output = False
        self.ended = False
        """The end of the stream was announced (`[DONE]`): Gemini itself sends none, proxies do."""

    def feed(self, frame: Frame) -> list[Delta]:
        if frame.data == b"[DONE]":
            self.ended = True
            return []
        try:
            document = decode_lenient(_read_document, frame.data)
        except UNREADABLE:
            return decode_unexpected(frame.data, finished=self._finished)
        return self.read(document)

    def read(self, document: Any) -> list[Delta]:
        """Read one chunk, or an array of chunks."""
        chunks = document if isinstance(document, list) else [document]
        return [delta for chunk in chunks for delta in self._read_chunk(chunk)]

    def close(self) -> list[Delta]:
        return list(self._calls.close())

    def _read_chunk(self, chunk: Any) -> Iterator[Delta]:
        if not isinstance(chunk, dict):
            yield Extra("chunk", chunk)
            return
        candidates = chunk.get("candidates")
        had_output = self._has_output
        yield from self._start(chunk)
        # First: tokens are billed even if generation failed.
        yield from read_usage(chunk.get("usageMetadata"))
        for index, candidate in enumerate(candidates if isinstance(candidates, list) else ()):
            yield from self._read_candidate(index, candidate)
        yield from _read_prompt_feedback(chunk.get("promptFeedback"), had_output)
        if not candidates or "error" in chunk:
            fault = find_error(chunk)
            if fault is not None:
                yield Failure(fault)

    def _start(self, chunk: Mapping[str, Any]) -> Iterator[Delta]:
        model = nonempty_string(chunk.get("modelVersion"))
        upstream_id = nonempty_string(chunk.get("responseId"))
        if not self._started and (model or chunk.get("candidates")):
            self._started = True
            yield Start(model, upstream_id)

    def _read_candidate(self, index: int, candidate: Any) -> Iterator[Delta]:
        if not isinstance(candidate, dict) or candidate.get("index", index):
            yield Extra("candidate", candidate, is_output=True)
            return
        content = candidate.get("content")
        parts = content.get("parts") if isinstance(content, dict) else None
        for part in parts if isinstance(parts, list) else ():
            for delta in self._read_part(part):
                self._has_output = self._has_output or isinstance(delta, Text | ToolCall)
                yield delta
        yield from self._citations.feed(candidate)
        yield from (
            Extra(kind, candidate[kind]) for kind in _CANDIDATE_EXTRAS if candidate.get(kind)
        )
        yield from self._finish(candidate)

    # Parts

    def _read_part(self, part: Any) -> Iterator[Delta]:
        match part:
            # {"thoughtSummary": "**Planning**", "text": "…"}: a summary beside the part itself
            case {"thoughtSummary": str(summary)}:
                rest = {name: part[name] for name in part if name != "thoughtSummary"}
                if summary and summary != rest.get("text"):
                    self._run.end()
                    yield Reasoning(summary, "summary")
                yield from self._read_part(rest)
            # {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "c2ln"}
            case {"functionCall": dict(call)}:
                for delta in self._calls.feed(call, nonempty_string(part.get("thoughtSignature"))):
                    self._run.end()
                    yield delta
            # {"text": "**Planning**", "thought": true}: a summary of the reasoning
            case {"text": str(text), "thought": True}:
                yield from self._read_thought(text, part)
            # {"text": "", "thoughtSignature": "c2ln"}: the signature may come without text
            case {"text": str(text)}:
                yield from self._read_text(text, nonempty_string(part.get("thoughtSignature")))
            case dict() if not part:
                return
            case _:
                yield from self._read_server_part(part)

    def _read_thought(self, text: str, part: Mapping[str, Any]) -> Iterator[Delta]:
        if text:
            self._run.end()
            yield Reasoning(text, "summary")
        if part.get("thoughtSignature"):
            yield self._echo(part)

    def _read_text(self, text: str, signature: str | None) -> Iterator[Delta]:
        if text:
            self._run.add(text)
            yield Text(text)
        if signature is not None:
            end = self._run.length
            signed_range = {"start": end - len(text), "end": end} if end else {}
            yield ReasoningState(SIGNATURE, {"signature": signature, **signed_range}, "text")

    def _read_server_part(self, part: Any) -> Iterator[Delta]:
        """Read a part of a server-side tool, or generated media (not echoed: too large).

        `{"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "Y29k"}`
        """
        if not isinstance(part, dict):
            yield Extra("part", part, is_output=True)
            return
        kind = next((name for name in (*_ECHOED, *_MEDIA) if name in part), "part")
        yield Extra(kind, part.get(kind, part), is_output=kind not in _ECHOED)
        if kind in _ECHOED or (part.get("thoughtSignature") and kind not in _MEDIA):
            yield self._echo(part)

    def _echo(self, part: Mapping[str, Any]) -> ReasoningState:
        """Make the state that puts this part into the next request, at its position."""
        position = {"start": self._run.length} if self._run.length else {}
        return ReasoningState(PART, {"part": part, **position}, "turn")

    # The end

    def _finish(self, candidate: Mapping[str, Any]) -> Iterator[Delta]:
        reason = _finish_reason(candidate.get("finishReason"))
        if reason is None:
            return
        self._finished = True
        message = nonempty_string(candidate.get("finishMessage")) or reason
        if reason in _GENERATION_FAILURES:
            yield _generation_failure(reason, message)
        elif reason not in _UNSPECIFIED:
            yield Finish(reason)
        elif self._has_output:
            yield Finish("other_after_output")
        else:
            yield _generation_failure("INTERNAL", message)


def decode(body: bytes) -> list[Delta]:
    """Decode a whole response, or a whole stream sent as an array; parts keep their order."""
    decoder = GeminiDecoder()
    try:
        document = decode_lenient(_read_document, body)
    except UNREADABLE:
        document = None
    if not isinstance(document, dict | list):
        return [fail_unreadable(body)]
    return decoder.read(document) + decoder.close()


def _finish_reason(value: Any) -> str | None:
    """The finish reason by name; None while there is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return (_FINISH_REASONS[value] if 0 <= value < len(_FINISH_REASONS) else str(value)) or None
    return None if value == "FINISH_REASON_UNSPECIFIED" else nonempty_string(value)


def _generation_failure(code: str, message: str) -> Delta:
    fault = classify_document({"error": {"code": code, "message": message}})
    return Failure(fault or protocol_fault(message))


def _read_prompt_feedback(feedback: Any, had_output: bool) -> Iterator[Delta]:
    """Report a blocked prompt. Sometimes the block arrives after part of the output was sent."""
    reason = feedback.get("blockReason") if isinstance(feedback, dict) else None
    if not reason or str(reason).endswith("UNSPECIFIED"):
        return
    yield Finish("content_filter") if had_output else Failure(blocked_fault(str(reason)))


def read_usage(counts: Any) -> Iterator[Usage]:
    """Read the counts of one chunk, if it has any; they are cumulative.

    `thoughtsTokenCount` is not part of `candidatesTokenCount`, unless the total shows otherwise
    (BerriAI/litellm#10141), and `toolUsePromptTokenCount` (what server-side tools added) is not
    part of `promptTokenCount`: both are added.
    """
    if not isinstance(counts, dict):
        return
    reasoning = count(counts.get("thoughtsTokenCount"))
    sent = count(counts.get("promptTokenCount")) + count(counts.get("toolUsePromptTokenCount"))
    written = count(counts.get("candidatesTokenCount"))
    total = count(counts.get("totalTokenCount"))
    includes_reasoning = written >= reasoning and total == sent + written
    usage = Usage(
        input_tokens=sent,
        output_tokens=written if includes_reasoning else written + reasoning,
        cached_tokens=count(counts.get("cachedContentTokenCount")),
        reasoning_tokens=reasoning,
        total_tokens=total or None,
    )
    if usage != Usage():
        yield usage
