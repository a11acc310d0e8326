"""Content blocks of a Converse answer: each is opened, extended by deltas, and closed.

Text and reasoning have no `contentBlockStart`: the first delta determines the type of the block. A
block of the service's own tools is an `Extra`, never a call for the client to run.
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

REASONING = "bedrock.reasoning"
"""Scheme of reasoning state: the value is a whole content block, sent back as it came."""


def unknown_delta(delta: Any) -> Delta:
    """A delta of an unknown type, or of one that does not belong to its block."""
    name = next(iter(delta), "delta") if isinstance(delta, dict) else "delta"
    return Extra(f"block_{name}", delta)


class BedrockTextBlock:
    """Text and its citations. Citations cover the whole block, and may come before the text."""

    def __init__(self, start: int) -> None:
        """`start`: number of characters before this block in the same output message."""
        self._start = self._end = start
        self._citations: list[Document] = []

    def feed(self, delta: Any) -> Iterator[Delta]:
        match delta:
            case {"text": str(text)}:
                self._end += len(text)
                if text:
                    yield Text(text)
            case {"citation": {} as citation}:
                self._citations.append(citation)
            case _:
                yield unknown_delta(delta)

    def close(self) -> Iterator[Delta]:
        for citation in self._citations:
            match citation:
                case {"location": {"web": {"url": str(url)} as found}}:
                    yield Annotation(
                        {
                            "type": "url_citation",
                            "url": url,
                            "title": nonempty_string(citation.get("title"))
                            or nonempty_string(found.get("domain"))
                            or "",
                            "start_index": self._start,
                            "end_index": self._end,
                        }
                    )
                case _:  # of a document in the request: there is no URL to cite
                    yield Extra("citation", citation)


class BedrockReasoningBlock:
    """Reasoning. Signed or redacted, the block is sent back next turn unchanged."""

    def __init__(self, part: int) -> None:
        self._part = part
        self._text: list[str] = []
        self._signature: list[str] = []

    def feed(self, delta: Any) -> Iterator[Delta]:
        match delta:
            case {"reasoningContent": {"text": str(text)}}:
                self._text.append(text)
                if text:
                    yield Reasoning(text, part=self._part)
            case {"reasoningContent": {"signature": str(signature)}}:
                self._signature.append(signature)
            case {"reasoningContent": {"redactedContent": str(sealed)}}:
                yield _state({"redactedContent": sealed})
            case {"reasoningContent": {"data": str(sealed)}}:  # another name for the same field
                yield _state({"redactedContent": sealed})
            case _:
                yield unknown_delta(delta)

    def close(self) -> Iterator[Delta]:
        signature = "".join(self._signature)
        if signature:  # unsigned reasoning would be refused next turn, so it is no state
            yield _state({"reasoningText": {"text": "".join(self._text), "signature": signature}})


def _state(content: Document) -> Delta:
    return ReasoningState(REASONING, {"reasoningContent": content}, "block")


class BedrockCallBlock:
    """A tool call for the client. A call without argument deltas has an empty object."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._has_deltas = False

    def feed(self, delta: Any) -> Iterator[Delta]:
        match delta:
            case {"toolUse": {"input": str(fragment)}}:
                if fragment:
                    self._has_deltas = True
                    yield ToolCall(self._index, arguments=fragment)
            case _:
                yield unknown_delta(delta)

    def close(self) -> Iterator[Delta]:
        if not self._has_deltas:
            yield ToolCall(self._index, arguments="{}")
        yield ToolEnd(self._index)


class BedrockOtherBlock:
    """A block of the service's own tools."""

    def feed(self, delta: Any) -> Iterator[Delta]:
        yield unknown_delta(delta)

    def close(self) -> Iterator[Delta]:
        yield from ()


BedrockBlock: TypeAlias = (
    BedrockTextBlock | BedrockReasoningBlock | BedrockCallBlock | BedrockOtherBlock
)
