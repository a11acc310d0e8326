"""What the second readers of recordings share: the words in which they say what one carries.

A reader has the whole recording at hand and no notion of events. It is slow, simple, and nobody's
relative: it only says what must arrive, so that a test can ask whether all of it did.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

Document = dict[str, Any]


@dataclass
class Block:
    """One thing a model said: text, refusal, reasoning or a summary of it, or a call."""

    kind: str
    text: str = ""
    call_id: str | None = None
    name: str = ""
    given: Any = None
    """Arguments that came as an object: their text is ours to write."""


class Carried(Protocol):
    """What every reader can tell: how a recording ends, and the tokens it counts by our names."""

    @property
    def status(self) -> str | None: ...
    @property
    def counts(self) -> Mapping[str, int]: ...


class Spoken(Carried, Protocol):
    """And what it says, one item after another."""

    @property
    def said(self) -> list[Block]: ...


def counted(asked: int, answered: int, **others: int) -> dict[str, int]:
    """Token counts; unless there is another, the total is their sum."""
    total = {"total_tokens": asked + answered}
    return {"input_tokens": asked, "output_tokens": answered} | total | others


def joined(blocks: Iterable[Block]) -> list[Block]:
    """Neighbours of one kind make one item, and nothing makes none; a call stands for itself."""
    found: list[Block] = []
    for block in blocks:
        if block.kind == "call":
            found.append(block)
        elif block.text and found and found[-1].kind == block.kind:
            found[-1].text += block.text
        elif block.text:
            found.append(block)
    return found


def payloads(data: bytes) -> Iterator[Any]:
    """What a stream of server-sent events says before it is done."""
    for line in data.decode().replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if line.startswith("data:"):
            text = line.removeprefix("data:").strip()
            if text.strip('"') == "[DONE]":
                return
            if text:
                yield json.loads(text)
