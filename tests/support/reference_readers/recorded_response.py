"""Reference readers of recordings: the types that they share.

A reference reader has the whole recording at once and no notion of events. It is slow, simple and
independent of the decoders: it lists what must arrive, so that a test can compare.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

Document = dict[str, Any]


@dataclass
class Block:
    """One output block: text, refusal, reasoning or a summary of it, or a call."""

    kind: str
    text: str = ""
    call_id: str | None = None
    name: str = ""
    given: Any = None
    """Arguments that came as an object: the decoder chooses their JSON text."""


class RecordedResponse(Protocol):
    """What every reader returns: the final status, and token counts under our names."""

    @property
    def status(self) -> str | None: ...
    @property
    def counts(self) -> Mapping[str, int]: ...


class RecordedOutput(RecordedResponse, Protocol):
    """A recorded response with its output blocks in order."""

    @property
    def output(self) -> list[Block]: ...


def count_tokens(input_tokens: int, output_tokens: int, **others: int) -> dict[str, int]:
    """Token counts; unless given, the total is their sum."""
    total = {"total_tokens": input_tokens + output_tokens}
    return {"input_tokens": input_tokens, "output_tokens": output_tokens} | total | others


def merge_adjacent(blocks: Iterable[Block]) -> list[Block]:
    """Merge adjacent blocks of one kind and drop empty ones; calls stay separate."""
    found: list[Block] = []
    for block in blocks:
        if block.kind == "call":
            found.append(block)
        elif block.text and found and found[-1].kind == block.kind:
            found[-1].text += block.text
        elif block.text:
            found.append(block)
    return found


def sse_payloads(data: bytes) -> Iterator[Any]:
    """The JSON payloads of a stream of server-sent events, up to `[DONE]`."""
    for line in data.decode().replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if line.startswith("data:"):
            text = line.removeprefix("data:").strip()
            if text.strip('"') == "[DONE]":
                return
            if text:
                yield json.loads(text)
