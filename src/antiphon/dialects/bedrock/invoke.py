"""Answers of models that were invoked in their own format: what Bedrock wraps, others can read.

The gateway itself always asks by Converse. Older recordings do not, and their answers are of many
kinds: Messages and Chat Completions are read by those dialects, plain text by a table of forms.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from msgspec import Struct

from antiphon.core.faults.fault import protocol_fault
from antiphon.core.stream.deltas import Delta, Extra, Failure, Finish, Start, Text, Usage
from antiphon.dialects.anthropic import decode as anthropic
from antiphon.dialects.anthropic.decode import AnthropicDecoder
from antiphon.dialects.chat import decode as chat
from antiphon.dialects.chat.decode import ChatDecoder
from antiphon.dialects.usage import count
from antiphon.wire.items import Document
from antiphon.wire.sse import Frame

Path: TypeAlias = tuple[str | int, ...]

METRICS = "amazon-bedrock-invocationMetrics"
"""What it cost, in the last chunk of every stream."""
_NOWHERE: Path = ("",)


class _Form(Struct, frozen=True):
    """Where a family of models puts its text, its reason to stop, and its counts."""

    text: Path
    reason: Path
    asked: Path = _NOWHERE
    answered: Path = _NOWHERE


_FORMS = (
    _Form(("completion",), ("stop_reason",)),
    _Form(
        ("outputText",),
        ("completionReason",),
        ("inputTextTokenCount",),
        ("totalOutputTextTokenCount",),
    ),
    _Form(
        ("results", 0, "outputText"),
        ("results", 0, "completionReason"),
        ("inputTextTokenCount",),
        ("results", 0, "tokenCount"),
    ),
    _Form(("generation",), ("stop_reason",), ("prompt_token_count",), ("generation_token_count",)),
    _Form(("generations", 0, "text"), ("generations", 0, "finish_reason")),
    _Form(("outputs", 0, "text"), ("outputs", 0, "stop_reason")),
    _Form(("completions", 0, "data", "text"), ("completions", 0, "finishReason", "reason")),
    _Form(("text",), ("finish_reason",)),
)


class InvokeDecoder:
    """The chunks of one stream, unwrapped → deltas. The first tells whose they are."""

    def __init__(self) -> None:
        self._reader: AnthropicDecoder | ChatDecoder | None = None
        self.ended = False

    def feed(self, data: bytes, document: Document) -> list[Delta]:
        """`data` is the chunk, `document` what stands in it."""
        self._reader = self._reader or _reader(document)
        self.ended = METRICS in document
        if self._reader is None:
            return [*_plain(document)] or [Extra("chunk", document)]
        deltas = self._reader.feed(Frame(data))
        if isinstance(self._reader, ChatDecoder):  # it may not have counted itself
            deltas += _usage(document)
        return deltas


def _reader(document: Document) -> AnthropicDecoder | ChatDecoder | None:
    if "choices" in document:
        return ChatDecoder()
    return AnthropicDecoder() if "type" in document and "completion" not in document else None


def decode(data: bytes, document: Document) -> list[Delta]:
    """A whole answer → deltas; one of a form that nobody knows is a failure."""
    if "choices" in document:
        return chat.decode(data)
    if document.get("type") == "message":
        return anthropic.decode(data)
    told = [*_plain(document)]
    if not told:
        return [Failure(protocol_fault("The provider sent an answer of an unknown form."))]
    return [Start(), *told]


def _plain(document: Document) -> Iterator[Delta]:
    form = _form(document)
    if form is None:
        return
    text, reason = _at(document, form.text), _at(document, form.reason)
    if isinstance(text, str) and text:
        yield Text(text)
    if isinstance(reason, str) and reason:
        yield Finish(reason)
    yield from _usage(document, form.asked, form.answered)


def _form(document: Document) -> _Form | None:
    """The form that a document has, by its text or, in a last chunk, only by its reason."""
    by_text = (form for form in _FORMS if _at(document, form.text) is not None)
    by_reason = (form for form in _FORMS if _at(document, form.reason) is not None)
    return next(by_text, None) or next(by_reason, None)


def _at(document: Any, path: Path) -> Any:
    """What stands at the end of a path; None if it leads nowhere."""
    for step in path:
        try:
            document = document[step]
        except (KeyError, IndexError, TypeError):
            return None
    return document


def _usage(
    document: Document, asked: Path = _NOWHERE, answered: Path = _NOWHERE
) -> Iterator[Delta]:
    """What the service has counted or, failing that, the model."""
    usage = Usage(
        input_tokens=count(_at(document, (METRICS, "inputTokenCount")) or _at(document, asked)),
        output_tokens=count(
            _at(document, (METRICS, "outputTokenCount")) or _at(document, answered)
        ),
    )
    if usage != Usage():
        yield usage
