"""A second reader of Ollama's recorded answers: line by line, as they came."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from tests.support.reference_readers.answer import Block, Document, counted, joined


@dataclass
class Carried:
    """What the lines of a recording say, and the last of them."""

    said: list[Block] = field(default_factory=list)
    last: Document = field(default_factory=dict)

    def text(self, kind: str) -> str:
        return "".join(block.text for block in self.said if block.kind == kind)

    @property
    def status(self) -> str:
        if "error" in self.last:
            return "failed"
        return {"stop": "completed", "length": "incomplete"}[self.last["done_reason"]]

    @property
    def counts(self) -> dict[str, int]:
        return counted(self.last.get("prompt_eval_count", 0), self.last.get("eval_count", 0))


def read(data: bytes) -> Carried:
    """What a stream or a whole body carries."""
    lines = [json.loads(line) for line in data.splitlines()]
    return Carried(joined(block for line in lines for block in _blocks(line)), lines[-1])


def _blocks(line: Document) -> list[Block]:
    message = line.get("message") or {"content": line.get("response", "")}
    return [
        Block("reasoning", message.get("thinking") or ""),
        Block("text", message["content"]),
        *(
            Block("call", "", call["id"], call["function"]["name"], call["function"]["arguments"])
            for call in message.get("tool_calls") or []
        ),
    ]
