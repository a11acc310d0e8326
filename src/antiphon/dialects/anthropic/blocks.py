"""Content blocks of an Anthropic answer: each is opened, extended by deltas, and closed.

A block of the server's own tools (`server_tool_use` and results) is an `Extra`, never a call for
the client to run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from antiphon.core.stream.deltas import (
    Annotation,
    Delta,
    Extra,
    Reasoning,
    ReasoningState,
    Text,
    ToolCall,
    ToolEnd,
)
from antiphon.dialects.json_input import nonempty_string
from antiphon.wire.items import Document

THINKING = "anthropic.thinking"
REDACTED = "anthropic.redacted_thinking"
"""Schemes of reasoning state: the value is a whole content block, sent back as it came."""


def guess_media_type(value: Any) -> str:
    """The `type` member of an object, or an empty string."""
    return nonempty_string(value.get("type")) or "" if isinstance(value, dict) else ""


def unknown_delta(delta: Any) -> Delta:
    return Extra(guess_media_type(delta) or "content_block_delta", delta)


class AnthropicTextBlock:
    """Text and its citations. Citations cover the whole block, and may come before the text."""

    def __init__(self, block: Document, start: int) -> None:
        """`start`: number of characters before this block in the same output message."""
        self._block = block
        self._start = self._end = start
        citations = block.get("citations")
        self._citations: list[Any] = [*citations] if isinstance(citations, list) else []

    def open(self) -> Iterator[Delta]:
        yield from self._write(self._block.get("text"))

    def feed(self, delta: Any) -> Iterator[Delta]:
        match delta:
            case {"type": "text_delta", "text": text}:
                yield from self._write(text)
            case {"type": "citations_delta", "citation": citation}:
                self._citations.append(citation)
            case _:
                yield unknown_delta(delta)

    def _write(self, text: Any) -> Iterator[Delta]:
        if isinstance(text, str) and text:
            self._end += len(text)
            yield Text(text)

    def close(self) -> Iterator[Delta]:
        for citation in self._citations:
            match citation:
                case {"url": str(url)}:
                    yield Annotation(
                        {
                            "type": "url_citation",
                            "url": url,
                            "title": nonempty_string(citation.get("title")) or "",
                            "start_index": self._start,
                            "end_index": self._end,
                        }
                    )
                case _:
                    yield Extra("citation", citation)


class AnthropicThinkingBlock:
    """Reasoning. The next turn sends the block back unchanged, so all of it becomes state."""

    def __init__(self, block: Document, part: int) -> None:
        self._block = block
        self._part = part
        self._text = [nonempty_string(block.get("thinking")) or ""]
        self._signature = [nonempty_string(block.get("signature")) or ""]

    def open(self) -> Iterator[Delta]:
        yield from self._write(self._text[0])

    def feed(self, delta: Any) -> Iterator[Delta]:
        match delta:
            case {"type": "thinking_delta", "thinking": str(text)}:
                self._text.append(text)
                yield from self._write(text)
            case {"type": "signature_delta", "signature": str(signature)}:
                self._signature.append(signature)
            case _:
                yield unknown_delta(delta)

    def _write(self, text: str) -> Iterator[Delta]:
        if text:
            yield Reasoning(text, part=self._part)

    def close(self) -> Iterator[Delta]:
        text, signature = "".join(self._text), "".join(self._signature)
        block = {**self._block, "thinking": text}
        if signature:
            block["signature"] = signature
        elif not text or "signature" in block:
            return  # never signed: the API refuses `"signature": ""`, but not a missing block
        yield ReasoningState(THINKING, block, "block")


class AnthropicCallBlock:
    """A tool call for the client. Its arguments come in pieces, at once, or not at all."""

    def __init__(self, block: Document, index: int, initial_arguments: str) -> None:
        """`initial_arguments`: JSON text of the `input` that the block was opened with."""
        self._block = block
        self._index = index
        self._initial_arguments = initial_arguments
        self._has_deltas = False

    def open(self) -> Iterator[Delta]:
        call_id, name = self._block.get("id"), self._block.get("name")
        yield ToolCall(self._index, nonempty_string(call_id), nonempty_string(name))

    def feed(self, delta: Any) -> Iterator[Delta]:
        match delta:
            case {"type": "input_json_delta", "partial_json": str(fragment)}:
                if fragment:
                    self._has_deltas = True
                    yield ToolCall(self._index, arguments=fragment)
            case _:
                yield unknown_delta(delta)

    def close(self) -> Iterator[Delta]:
        if not self._has_deltas:
            yield ToolCall(self._index, arguments=self._initial_arguments)
        yield ToolEnd(self._index)


class AnthropicWholeBlock:
    """A block that is complete when it is opened; later deltas of it become `Extra`."""

    def __init__(self, delta: Delta) -> None:
        self._delta = delta

    def open(self) -> Iterator[Delta]:
        yield self._delta

    def feed(self, delta: Any) -> Iterator[Delta]:
        yield unknown_delta(delta)

    def close(self) -> Iterator[Delta]:
        yield from ()


AnthropicBlock: TypeAlias = (
    AnthropicTextBlock | AnthropicThinkingBlock | AnthropicCallBlock | AnthropicWholeBlock
)
