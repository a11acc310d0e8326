"""Content blocks of a message: each is opened, extended by deltas, and closed.

Formats that stream blocks by their index share this: a dialect reads the deltas of its format, and
writes what it finds into the block that they belong to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from antiphon.core.deltas import (
    Annotation,
    Delta,
    Extra,
    Reasoning,
    ReasoningState,
    Text,
    ToolCall,
    ToolEnd,
)

Annotate: TypeAlias = Callable[[Any, int, int], Annotation | None]
"""Makes the annotation of a citation, which covers the characters from the first number up to the
second; None: it names nothing that a client could find."""
MakeState: TypeAlias = Callable[[str, str], ReasoningState | None]
"""Makes the state of a reasoning block out of its text and its signature."""


def url_citation(url: str, title: Any, start: int, end: int) -> Annotation:
    """The annotation of a citation, from the character at `start` up to the one at `end`."""
    return Annotation(
        {
            "type": "url_citation",
            "url": url,
            "title": title if isinstance(title, str) else "",
            "start_index": start,
            "end_index": end,
        }
    )


class TextBlock:
    """Text and its citations. Citations cover the whole block, and may come before the text."""

    def __init__(self, start: int, annotate: Annotate, citations: Sequence[Any] = ()) -> None:
        """`start`: number of characters before this block in the same output message."""
        self._start = start
        self._end = start
        self._annotate = annotate
        self._citations = [*citations]

    def write(self, text: Any) -> list[Delta]:
        if not isinstance(text, str) or not text:
            return []
        self._end += len(text)
        return [Text(text)]

    def cite(self, citation: Any) -> list[Delta]:
        self._citations.append(citation)
        return []

    def close(self) -> list[Delta]:
        return [
            self._annotate(citation, self._start, self._end) or Extra("citation", citation)
            for citation in self._citations
        ]


class ReasoningBlock:
    """Reasoning. The next turn sends the block back unchanged, so it becomes state."""

    def __init__(self, part: int, make_state: MakeState) -> None:
        self._part = part
        self._make_state = make_state
        self._text: list[str] = []
        self._signature: list[str] = []

    def write(self, text: str) -> list[Delta]:
        if not text:
            return []
        self._text.append(text)
        return [Reasoning(text, part=self._part)]

    def sign(self, signature: str) -> list[Delta]:
        self._signature.append(signature)
        return []

    def close(self) -> list[Delta]:
        state = self._make_state("".join(self._text), "".join(self._signature))
        return [] if state is None else [state]


class CallBlock:
    """A tool call for the client. Its arguments come in pieces, at once, or not at all."""

    def __init__(self, index: int, arguments: str = "{}") -> None:
        """`arguments` are those of a call whose pieces bring none."""
        self._index = index
        self._arguments = arguments

    def write(self, fragment: str) -> list[Delta]:
        if not fragment:
            return []
        self._arguments = ""
        return [ToolCall(self._index, arguments=fragment)]

    def close(self) -> list[Delta]:
        whole = [ToolCall(self._index, arguments=self._arguments)] if self._arguments else []
        return [*whole, ToolEnd(self._index)]

    def cut_off(self) -> list[Delta]:
        """End a call that the message has ended in the middle of."""
        return [ToolEnd(self._index, complete=False)]


class OpaqueBlock:
    """A block without deltas that a client could read, such as one of the server's own tools."""

    def close(self) -> list[Delta]:
        return []


Block: TypeAlias = TextBlock | ReasoningBlock | CallBlock | OpaqueBlock


class ContentBlocks:
    """The blocks of one message: those that are open, by their index, and the tokens counted."""

    def __init__(self, annotate: Annotate) -> None:
        self._annotate = annotate
        self._open: dict[int, Block] = {}
        self._call_count = 0
        self._reasoning_count = 0
        self._message_length = 0  # characters of the current output message

    # New blocks

    def new_text(self, citations: Sequence[Any] = ()) -> TextBlock:
        return TextBlock(self._message_length, self._annotate, citations)

    def new_reasoning(self, make_state: MakeState) -> ReasoningBlock:
        self._reasoning_count += 1
        return ReasoningBlock(self._reasoning_count, make_state)

    def new_call(self, arguments: str = "{}") -> tuple[int, CallBlock]:
        """Return the number of the call, and its block."""
        number = self._call_count
        self._call_count += 1
        return number, CallBlock(number, arguments)

    # Open blocks

    def __getitem__(self, index: int) -> Block | None:
        return self._open.get(index)

    def open(self, index: int, block: Block) -> None:
        """Open a block; one that is open at this index has to be closed before."""
        self._open[index] = block

    def close(self, index: int) -> list[Delta]:
        """Close the block at this index, if one is open."""
        block = self._open.pop(index, None)
        return [] if block is None else block.close()

    def close_all(self, *, is_cut: bool = False) -> list[Delta]:
        """Close every open block. `is_cut`: the message has reached its limit, so that a call which
        is still open is not complete."""
        deltas: list[Delta] = []
        for block in self._open.values():
            if is_cut and isinstance(block, CallBlock):
                deltas += block.cut_off()
            else:
                deltas += block.close()
        self._open.clear()
        return deltas

    # The output message that citations refer to

    @property
    def has_text(self) -> bool:
        """Whether the current output message has text."""
        return self._message_length > 0

    def measure(self, deltas: list[Delta]) -> list[Delta]:
        """Count the characters of the output message, which citations index into.

        Reasoning or a call ends the output message, and the next one starts at 0.
        """
        for delta in deltas:
            if isinstance(delta, Text):
                self._message_length += len(delta.text)
            elif isinstance(delta, Reasoning | ToolCall):
                self._message_length = 0
        return deltas

    def end_message(self) -> None:
        """The next text begins another output message."""
        self._message_length = 0
