"""The blocks that a Converse answer is made of: each begins, grows and ends.

Text and thought come without an opening: the first delta tells what a block is. A block that the
service fills for itself (its own tools and their results) is an `Extra`, never a call to run.
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

REASONING = "bedrock.reasoning"
"""The scheme of state: its value is a whole content block, as it goes back next turn."""


def unknown(delta: Any) -> Delta:
    """A delta of another kind than we know, or than belongs here."""
    name = next(iter(delta), "delta") if isinstance(delta, dict) else "delta"
    return Extra(f"block_{name}", delta)


class TextBlock:
    """Text, and what it cites. Citations may come before the text; they mean all of the block."""

    def __init__(self, begin: int) -> None:
        """`begin` counts the characters that stand before it in the same message."""
        self._begin = self._end = begin
        self._citations: list[Document] = []

    def grow(self, delta: Any) -> Iterator[Delta]:
        match delta:
            case {"text": str(text)}:
                self._end += len(text)
                if text:
                    yield Text(text)
            case {"citation": {} as citation}:
                self._citations.append(citation)
            case _:
                yield unknown(delta)

    def end(self) -> Iterator[Delta]:
        for citation in self._citations:
            match citation:
                case {"location": {"web": {"url": str(url)} as found}}:
                    yield Annotation(
                        {
                            "type": "url_citation",
                            "url": url,
                            "title": string(citation.get("title"))
                            or string(found.get("domain"))
                            or "",
                            "start_index": self._begin,
                            "end_index": self._end,
                        }
                    )
                case _:  # of a document that the client gave: there is no address to name
                    yield Extra("citation", citation)


class ThoughtBlock:
    """Thought. Signed or redacted it goes back next turn, unchanged, so the block is kept whole."""

    def __init__(self, part: int) -> None:
        self._part = part
        self._pieces: list[str] = []
        self._signature: list[str] = []

    def grow(self, delta: Any) -> Iterator[Delta]:
        match delta:
            case {"reasoningContent": {"text": str(text)}}:
                self._pieces.append(text)
                if text:
                    yield Reasoning(text, part=self._part)
            case {"reasoningContent": {"signature": str(signature)}}:
                self._signature.append(signature)
            case {"reasoningContent": {"redactedContent": str(sealed)}}:
                yield _state({"redactedContent": sealed})
            case {"reasoningContent": {"data": str(sealed)}}:  # as some call it
                yield _state({"redactedContent": sealed})
            case _:
                yield unknown(delta)

    def end(self) -> Iterator[Delta]:
        signature = "".join(self._signature)
        if signature:  # without one it is refused: unsigned thought stays behind
            yield _state({"reasoningText": {"text": "".join(self._pieces), "signature": signature}})


def _state(content: Document) -> Delta:
    return ReasoningState(REASONING, {"reasoningContent": content}, "block")


class CallBlock:
    """A call for the client to run. A call without any arguments is one with an empty object."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._written = False

    def grow(self, delta: Any) -> Iterator[Delta]:
        match delta:
            case {"toolUse": {"input": str(fragment)}}:
                if fragment:
                    self._written = True
                    yield ToolCall(self._index, arguments=fragment)
            case _:
                yield unknown(delta)

    def end(self) -> Iterator[Delta]:
        if not self._written:
            yield ToolCall(self._index, arguments="{}")
        yield ToolEnd(self._index)


class OtherBlock:
    """A block that is none of the client's business."""

    def grow(self, delta: Any) -> Iterator[Delta]:
        yield unknown(delta)

    def end(self) -> Iterator[Delta]:
        yield from ()


Block: TypeAlias = TextBlock | ThoughtBlock | CallBlock | OtherBlock
