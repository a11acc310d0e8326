"""Responses of Bedrock's InvokeModel, in the invoked model's own format.

The gateway itself always uses Converse; older recordings do not. Messages, Chat Completions
and the first version of Cohere's chat go to those dialects' decoders, plain text completions are
read by a table of formats.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from antiphon.core.deltas import Delta, Extra, Failure, Finish, Start, Text, Usage
from antiphon.core.faults.fault import protocol_fault
from antiphon.core.items import Document
from antiphon.dialects.anthropic import decode as anthropic
from antiphon.dialects.anthropic.decode import AnthropicDecoder
from antiphon.dialects.chat import decode as chat
from antiphon.dialects.chat.decode import ChatDecoder
from antiphon.dialects.cohere.decode_v1 import CohereV1Decoder
from antiphon.dialects.usage import count
from antiphon.framing.sse import Frame

Path: TypeAlias = tuple[str | int, ...]
_Decoder: TypeAlias = AnthropicDecoder | ChatDecoder | CohereV1Decoder

METRICS = "amazon-bedrock-invocationMetrics"
"""Member of the last chunk of every stream, with the token counts."""
_GUARDRAIL_ACTION = "amazon-bedrock-guardrailAction"
_NO_PATH: Path = ("",)


class _CompletionFormat(Struct, frozen=True):
    """Where a family of models puts its text, its finish reason and its token counts."""

    text: Path
    finish_reason: Path
    input_tokens: Path = _NO_PATH
    output_tokens: Path = _NO_PATH


_FORMATS = (
    _CompletionFormat(("completion",), ("stop_reason",)),
    _CompletionFormat(
        ("outputText",),
        ("completionReason",),
        ("inputTextTokenCount",),
        ("totalOutputTextTokenCount",),
    ),
    _CompletionFormat(
        ("results", 0, "outputText"),
        ("results", 0, "completionReason"),
        ("inputTextTokenCount",),
        ("results", 0, "tokenCount"),
    ),
    _CompletionFormat(
        ("generation",), ("stop_reason",), ("prompt_token_count",), ("generation_token_count",)
    ),
    _CompletionFormat(("generations", 0, "text"), ("generations", 0, "finish_reason")),
    _CompletionFormat(("outputs", 0, "text"), ("outputs", 0, "stop_reason")),
    _CompletionFormat(
        ("completions", 0, "data", "text"), ("completions", 0, "finishReason", "reason")
    ),
    _CompletionFormat(("text",), ("finish_reason",)),
)


class InvokeDecoder:
    """Decoder of the unwrapped chunks of one stream; the first chunk determines the format."""

    def __init__(self) -> None:
        self._decoder: _Decoder | None = None
        self._finished = False
        self.ended = False

    def feed(self, data: bytes, document: Document) -> list[Delta]:
        """`data` is the chunk, `document` the same chunk decoded."""
        self._decoder = self._decoder or _create_decoder(document)
        self.ended = METRICS in document
        deltas = self._read(data, document)
        self._finished = self._finished or _has_finish(deltas)
        if self.ended and not self._finished:
            deltas += _read_guardrail(document)
        return deltas

    def _read(self, data: bytes, document: Document) -> list[Delta]:
        if self._decoder is None:
            return [*_read_completion(document)] or [Extra("chunk", document)]
        if isinstance(self._decoder, AnthropicDecoder):
            return self._decoder.feed(Frame(data))
        if isinstance(self._decoder, ChatDecoder):
            deltas = self._decoder.feed(Frame(_with_chat_names(data, document)))
        else:
            deltas = self._decoder.feed(data)
        return [*deltas, *_read_usage(document)]  # their chunks may lack usage


def _create_decoder(document: Document) -> _Decoder | None:
    if "choices" in document:
        return ChatDecoder()
    if "event_type" in document:
        return CohereV1Decoder()
    return AnthropicDecoder() if "type" in document and "completion" not in document else None


def decode_invoked(data: bytes, document: Document) -> list[Delta]:
    """Decode a whole response; one of an unknown format is a failure."""
    deltas = _decode_whole(data, document)
    return deltas if _has_finish(deltas) else [*deltas, *_read_guardrail(document)]


def _has_finish(deltas: list[Delta]) -> bool:
    return any(isinstance(each, Finish) for each in deltas)


def _read_guardrail(document: Document) -> Iterator[Delta]:
    """The finish reason of a guardrail that answered in place of the model. One that only masked
    words has intervened, too, but then the model has a finish reason of its own."""
    if document.get(_GUARDRAIL_ACTION) == "INTERVENED":
        yield Finish("guardrail_intervened")


def _decode_whole(data: bytes, document: Document) -> list[Delta]:
    if "choices" in document:
        return chat.decode(_with_chat_names(data, document))
    if document.get("type") == "message":
        return anthropic.decode(data)
    if "generation_id" in document:
        return CohereV1Decoder().feed(data)
    deltas = [*_read_completion(document)]
    if not deltas:
        return [Failure(protocol_fault("The provider sent a response in an unknown format."))]
    return [Start(), *deltas]


def _with_chat_names(data: bytes, document: Document) -> bytes:
    """The same document in Chat Completions' own names, which models of Mistral and DeepSeek lack:
    `{"choices": [{"message": {"content": "Hel"}, "stop_reason": null}]}`, or a `text`."""
    choices = document.get("choices")
    if not isinstance(choices, list) or not any(map(_has_stop_reason, choices)):
        return data
    renamed = [_rename_choice(each) if _has_stop_reason(each) else each for each in choices]
    return msgspec.json.encode({**document, "choices": renamed})


def _has_stop_reason(choice: Any) -> bool:
    return isinstance(choice, dict) and "stop_reason" in choice and "finish_reason" not in choice


def _rename_choice(choice: Document) -> Document:
    said = choice.get("delta") or choice.get("message") or {"content": choice.get("text")}
    return {"index": choice.get("index"), "delta": said, "finish_reason": choice["stop_reason"]}


def _read_completion(document: Document) -> Iterator[Delta]:
    completion_format = _find_format(document)
    if completion_format is None:
        return
    text = _value_at(document, completion_format.text)
    reason = _value_at(document, completion_format.finish_reason)
    if isinstance(text, str) and text:
        yield Text(text)
    if isinstance(reason, str) and reason:
        yield Finish(reason)
    yield from _read_usage(
        document, completion_format.input_tokens, completion_format.output_tokens
    )


def _find_format(document: Document) -> _CompletionFormat | None:
    """The format of a document, by its text or, in a last chunk, only by its finish reason."""
    by_text = (each for each in _FORMATS if _value_at(document, each.text) is not None)
    by_reason = (each for each in _FORMATS if _value_at(document, each.finish_reason) is not None)
    return next(by_text, None) or next(by_reason, None)


def _value_at(document: Any, path: Path) -> Any:
    """The value at a path, or None."""
    for step in path:
        try:
            document = document[step]
        except (KeyError, IndexError, TypeError):
            return None
    return document


def _read_usage(
    document: Document, input_path: Path = _NO_PATH, output_path: Path = _NO_PATH
) -> Iterator[Delta]:
    """The counts of the service or, without those, of the model."""
    service = document.get(METRICS)
    usage = Usage(
        input_tokens=count(
            _value_at(service, ("inputTokenCount",)) or _value_at(document, input_path)
        ),
        output_tokens=count(
            _value_at(service, ("outputTokenCount",)) or _value_at(document, output_path)
        ),
    )
    if usage != Usage():
        yield usage
