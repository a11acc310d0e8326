"""The blocks that an Anthropic answer is made of: each begins, grows and ends.

A block that the server fills for itself (its own tools and their results) is an `Extra`, never a
call for the client to run.
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
from antiphon.dialects.json_input import string
from antiphon.wire.items import Document

THINKING = "anthropic.thinking"
REDACTED = "anthropic.redacted_thinking"
"""Schemes of state: the value of each is a whole block, as it came and as it goes back."""


def kind_of(value: Any) -> str:
    """The type that an object names, if it is an object and names one."""
    return string(value.get("type")) or "" if isinstance(value, dict) else ""


def unknown(delta: Any) -> Delta:
    return Extra(kind_of(delta) or "content_block_delta", delta)


class TextBlock:
    """Text, and what it cites. Citations may come before the text; they mean all of the block."""

    def __init__(self, block: Document, begin: int) -> None:
        """`begin` counts the characters that stand before it in the same message."""
        self._block = block
        self._begin = self._end = begin
        citations = block.get("citations")
        self._citations: list[Any] = [*citations] if isinstance(citations, list) else []

    def begin(self) -> Iterator[Delta]:
        yield from self._write(self._block.get("text"))

    def grow(self, delta: Any) -> Iterator[Delta]:
        match delta:
            case {"type": "text_delta", "text": text}:
                yield from self._write(text)
            case {"type": "citations_delta", "citation": citation}:
                self._citations.append(citation)
            case _:
                yield unknown(delta)

    def _write(self, text: Any) -> Iterator[Delta]:
        if isinstance(text, str) and text:
            self._end += len(text)
            yield Text(text)

    def end(self) -> Iterator[Delta]:
        for citation in self._citations:
            match citation:
                case {"url": str(url)}:
                    yield Annotation(
                        {
                            "type": "url_citation",
                            "url": url,
                            "title": string(citation.get("title")) or "",
                            "start_index": self._begin,
                            "end_index": self._end,
                        }
                    )
                case _:
                    yield Extra("citation", citation)


class ThinkingBlock:
    """Thought. Next turn it goes back to the byte, so the block is kept as a whole."""

    def __init__(self, block: Document, part: int) -> None:
        self._block = block
        self._part = part
        self._pieces = [string(block.get("thinking")) or ""]
        self._signature = [string(block.get("signature")) or ""]

    def begin(self) -> Iterator[Delta]:
        yield from self._think(self._pieces[0])

    def grow(self, delta: Any) -> Iterator[Delta]:
        match delta:
            case {"type": "thinking_delta", "thinking": str(text)}:
                self._pieces.append(text)
                yield from self._think(text)
            case {"type": "signature_delta", "signature": str(signature)}:
                self._signature.append(signature)
            case _:
                yield unknown(delta)

    def _think(self, text: str) -> Iterator[Delta]:
        if text:
            yield Reasoning(text, part=self._part)

    def end(self) -> Iterator[Delta]:
        text, signature = "".join(self._pieces), "".join(self._signature)
        whole = {**self._block, "thinking": text}
        if signature:
            whole["signature"] = signature
        elif not text or "signature" in whole:
            return  # never signed: a blank signature is refused, an absent block is not
        yield ReasoningState(THINKING, whole, "block")


class CallBlock:
    """A call for the client to run. Its arguments come in pieces, at once, or not at all."""

    def __init__(self, block: Document, index: int, opening: str) -> None:
        """`opening` is the text of the arguments that the block began with."""
        self._block = block
        self._index = index
        self._opening = opening
        self._written = False

    def begin(self) -> Iterator[Delta]:
        yield ToolCall(self._index, string(self._block.get("id")), string(self._block.get("name")))

    def grow(self, delta: Any) -> Iterator[Delta]:
        match delta:
            case {"type": "input_json_delta", "partial_json": str(fragment)}:
                if fragment:
                    self._written = True
                    yield ToolCall(self._index, arguments=fragment)
            case _:
                yield unknown(delta)

    def end(self) -> Iterator[Delta]:
        if not self._written:
            yield ToolCall(self._index, arguments=self._opening)
        yield ToolEnd(self._index)


class WholeBlock:
    """A block that says everything when it begins; what follows is worth tracing at most."""

    def __init__(self, delta: Delta) -> None:
        self._delta = delta

    def begin(self) -> Iterator[Delta]:
        yield self._delta

    def grow(self, delta: Any) -> Iterator[Delta]:
        yield unknown(delta)

    def end(self) -> Iterator[Delta]:
        yield from ()


Block: TypeAlias = TextBlock | ThinkingBlock | CallBlock | WholeBlock
