"""A second reader of recorded Gemini answers: it puts the parts of the first candidate together."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from tests.support.reference_readers.answer import Block, Document, counted, joined, payloads

NUMBERS: dict[Any, str] = {1: "STOP", 2: "MAX_TOKENS"}


@dataclass
class Carried:
    """What a recording carries: its native parts in order, and what stands around them."""

    parts: list[Document] = field(default_factory=list)
    usage: Document = field(default_factory=dict)
    supports: list[tuple[str, str]] = field(default_factory=list)
    """Addresses, and the text they are cited for."""
    finish: str | None = None
    blocked: str | None = None
    error: bool = False
    whole: bool = False

    def of(self, kind: str) -> list[Any]:
        return [part[kind] for part in self.parts if kind in part]

    @property
    def said(self) -> list[Block]:
        # A whole answer has a message even if there is nothing in it.
        silence = [Block("text")] if self.whole and self.status != "failed" else []
        return joined(map(_said, self.parts)) or silence

    @property
    def status(self) -> str:
        if self.error or self.blocked:
            return "failed"
        if self.finish in ("MAX_TOKENS", "SAFETY", "RECITATION", "MODEL_ARMOR"):
            return "incomplete"
        if self.finish == "OTHER":
            return "incomplete" if self.parts else "failed"
        assert self.finish == "STOP"
        return "completed"

    @property
    def counts(self) -> dict[str, int]:
        thought = self._count("thoughtsTokenCount")
        return counted(
            self._count("promptTokenCount", "toolUsePromptTokenCount"),
            self._count("candidatesTokenCount") + thought,
            total_tokens=self._count("totalTokenCount"),
            cached_tokens=self._count("cachedContentTokenCount"),
            reasoning_tokens=thought,
        )

    def _count(self, *names: str) -> int:
        return sum(self.usage.get(name) or 0 for name in names)


def _said(part: Document) -> Block:
    if call := part.get("functionCall"):
        return Block("call", "", call.get("id"), call["name"], call.get("args", {}))
    return Block("summary" if part.get("thought") else "text", part.get("text", ""))


def read(data: bytes) -> Carried:
    """What a stream, an array of chunks, or a whole body carries."""
    carried = Carried(whole=data.lstrip()[:1] in (b"{", b"["))
    for chunk in _chunks(data, carried.whole):
        carried.error = carried.error or "error" in chunk
        carried.blocked = chunk.get("promptFeedback", {}).get("blockReason") or carried.blocked
        counted = {k: v for k, v in chunk.get("usageMetadata", {}).items() if isinstance(v, int)}
        if any(name.endswith("TokenCount") for name in counted):
            carried.usage = counted
        for candidate in chunk.get("candidates", []):
            if candidate.get("index", 0) == 0:
                _add(carried, candidate)
    return carried


def _chunks(data: bytes, whole: bool) -> list[Document]:
    if not whole:
        return [*payloads(data)]
    body = json.loads(data)
    return body if isinstance(body, list) else [body]


def _add(carried: Carried, candidate: Document) -> None:
    carried.parts += candidate.get("content", {}).get("parts", [])
    finish = candidate.get("finishReason")
    carried.finish = NUMBERS.get(finish, finish) or carried.finish
    grounding = candidate.get("groundingMetadata", {})
    for support in grounding.get("groundingSupports", []):
        for index in support["groundingChunkIndices"]:
            url = grounding["groundingChunks"][index].get("web", {}).get("uri")
            if url:
                carried.supports.append((url, support["segment"]["text"]))


def returned(parts: list[Document]) -> list[Document]:
    """The parts as a client sends them back: without summaries, pictures and what is empty, and
    with text in one piece wherever no signature sits on it."""
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
