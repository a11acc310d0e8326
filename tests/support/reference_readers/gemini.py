"""Reference reader of Gemini recordings: assembles the parts of the first candidate."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from tests.support.reference_readers.recorded_response import (
    Block,
    Document,
    count_tokens,
    merge_adjacent,
    sse_payloads,
)

NUMBERS: dict[Any, str] = {1: "STOP", 2: "MAX_TOKENS"}


@dataclass
class RecordedResponse:
    """The native parts of a recording in order, and its metadata."""

    parts: list[Document] = field(default_factory=list)
    usage: Document = field(default_factory=dict)
    supports: list[tuple[str, str]] = field(default_factory=list)
    """URLs, and the text they are cited for."""
    finish: str | None = None
    blocked: str | None = None
    error: bool = False
    whole: bool = False

    def of(self, kind: str) -> list[Any]:
        return [part[kind] for part in self.parts if kind in part]

    @property
    def output(self) -> list[Block]:
        # A whole response has a message even if it is empty.
        silence = [Block("text")] if self.whole and self.status == "completed" else []
        return merge_adjacent(map(_output_block, self.parts)) or silence

    @property
    def status(self) -> str:
        if self.error or self.blocked:
            return "failed"
        if self.finish in ("SAFETY", "RECITATION", "MODEL_ARMOR"):
            return "incomplete" if self.parts else "failed"
        if self.finish == "MAX_TOKENS":
            return "incomplete"
        if self.finish == "OTHER":
            return "incomplete" if self.parts else "failed"
        assert self.finish == "STOP"
        return "completed"

    @property
    def counts(self) -> dict[str, int]:
        reasoning = self._count("thoughtsTokenCount")
        return count_tokens(
            self._count("promptTokenCount", "toolUsePromptTokenCount"),
            self._count("candidatesTokenCount") + reasoning,
            total_tokens=self._count("totalTokenCount"),
            cached_tokens=self._count("cachedContentTokenCount"),
            reasoning_tokens=reasoning,
        )

    def _count(self, *names: str) -> int:
        return sum(self.usage.get(name) or 0 for name in names)


def _output_block(part: Document) -> Block:
    if call := part.get("functionCall"):
        return Block("call", "", call.get("id"), call["name"], call.get("args", {}))
    return Block("summary" if part.get("thought") else "text", part.get("text", ""))


def read(data: bytes) -> RecordedResponse:
    """Read a stream, an array of chunks, or a whole body."""
    recorded = RecordedResponse(whole=data.lstrip()[:1] in (b"{", b"["))
    for chunk in _chunks(data, recorded.whole):
        recorded.error = recorded.error or "error" in chunk
        recorded.blocked = chunk.get("promptFeedback", {}).get("blockReason") or recorded.blocked
        counts = {k: v for k, v in chunk.get("usageMetadata", {}).items() if isinstance(v, int)}
        if any(name.endswith("TokenCount") for name in counts):
            recorded.usage = counts
        for candidate in chunk.get("candidates", []):
            if candidate.get("index", 0) == 0:
                _add_event(recorded, candidate)
    return recorded


def _chunks(data: bytes, whole: bool) -> list[Document]:
    if not whole:
        return [*sse_payloads(data)]
    body = json.loads(data)
    return body if isinstance(body, list) else [body]


def _add_event(recorded: RecordedResponse, candidate: Document) -> None:
    recorded.parts += candidate.get("content", {}).get("parts", [])
    finish = candidate.get("finishReason")
    recorded.finish = NUMBERS.get(finish, finish) or recorded.finish
    grounding = candidate.get("groundingMetadata", {})
    for support in grounding.get("groundingSupports", []):
        for index in support["groundingChunkIndices"]:
            url = grounding["groundingChunks"][index].get("web", {}).get("uri")
            if url:
                recorded.supports.append((url, support["segment"]["text"]))


def expected_parts(parts: list[Document]) -> list[Document]:
    """The parts as a client sends them back: without summaries, images and empty parts, and
    with adjacent unsigned texts merged."""
    kept: list[Document] = []
    for part in parts:
        is_text = "text" in part and "thoughtSignature" not in part
        if not part or "inlineData" in part or (is_text and not part["text"]):
            continue
        if is_text and not part.get("thought") and kept and set(kept[-1]) == {"text"}:
            kept[-1] = {"text": kept[-1]["text"] + part["text"]}
        else:
            kept.append(part)
    return [part for part in kept if not part.get("thought") or "thoughtSignature" in part]
