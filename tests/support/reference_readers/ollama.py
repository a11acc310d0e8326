"""Reference reader of Ollama recordings, line by line."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from tests.support.reference_readers.recorded_response import (
    Block,
    Document,
    count_tokens,
    merge_adjacent,
)


@dataclass
class RecordedResponse:
    """The output blocks of a recording, and its last line."""

    output: list[Block] = field(default_factory=list)
    last: Document = field(default_factory=dict)

    def text(self, kind: str) -> str:
        return "".join(block.text for block in self.output if block.kind == kind)

    @property
    def status(self) -> str:
        if "error" in self.last:
            return "failed"
        return {"stop": "completed", "length": "incomplete"}[self.last["done_reason"]]

    @property
    def counts(self) -> dict[str, int]:
        return count_tokens(self.last.get("prompt_eval_count", 0), self.last.get("eval_count", 0))


def read(data: bytes) -> RecordedResponse:
    """Read a stream or a whole body."""
    lines = [json.loads(line) for line in data.splitlines()]
    return RecordedResponse(
        merge_adjacent(block for line in lines for block in _blocks(line)), lines[-1]
    )


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
