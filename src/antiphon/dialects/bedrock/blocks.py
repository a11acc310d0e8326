"""Content blocks of a Converse message: what their deltas add to them.

Text and reasoning have no `contentBlockStart`: the first delta determines the type of the block. A
block of the service's own tools is an `Extra`, never a call for the client to run.
"""

from __future__ import annotations

from typing import Any

from antiphon.core.deltas import Annotation, Delta, Extra, ReasoningState
from antiphon.core.items import Document
from antiphon.dialects.content_blocks import (
    Block,
    CallBlock,
    ReasoningBlock,
    TextBlock,
    url_citation,
)
from antiphon.dialects.json_input import nonempty_string

REASONING = "bedrock.reasoning"
"""Scheme of reasoning state: the value is a whole content block, sent back as it came."""


def extend(block: Block | None, delta: Any) -> list[Delta]:
    """Write a delta into its block; one that does not belong to the block is an `Extra`."""
    match delta:
        case {"text": str(text)} if isinstance(block, TextBlock):
            return block.write(text)
        case {"toolUse": {"input": str(fragment)}} if isinstance(block, CallBlock):
            return block.write(fragment)
        case {"reasoningContent": {"text": str(text)}} if isinstance(block, ReasoningBlock):
            return block.write(text)
        case {"reasoningContent": {"signature": str(signature)}} if isinstance(
            block, ReasoningBlock
        ):
            return block.sign(signature)
        # `data` is another name for `redactedContent`.
        case {"reasoningContent": {"redactedContent": str(sealed)} | {"data": str(sealed)}} if (
            isinstance(block, ReasoningBlock)
        ):
            return [_state({"redactedContent": sealed})]
        case {"citation": {} as citation} if isinstance(block, TextBlock):
            return block.cite(citation)
    return [unknown_delta(delta)]


_MEDIA = frozenset({"audio", "document", "image", "video"})


def unknown_delta(delta: Any) -> Delta:
    """A delta of an unknown type, or of one that does not belong to its block."""
    name = next(iter(delta), "delta") if isinstance(delta, dict) else "delta"
    return Extra(f"block_{name}", delta, is_output=name in _MEDIA)


def annotate(citation: Any, start: int, end: int) -> Annotation | None:
    """The annotation of a citation; one of a document in the request has no URL."""
    match citation:
        case {"location": {"web": {"url": str(url)} as found}}:
            title = nonempty_string(citation.get("title")) or found.get("domain")
            return url_citation(url, title, start, end)
        case {"location": {"documentChar": {}} | {"documentPage": {}} | {"documentChunk": {}}}:
            title = nonempty_string(citation.get("title")) or ""
            cited = {"type": "file_citation", "file_id": "", "filename": title, "index": end}
            return Annotation(cited)
    return None


def make_state(text: str, signature: str) -> ReasoningState | None:
    """The signed block, as the next turn sends it back. Unsigned reasoning would be refused then,
    so it is no state."""
    if not signature:
        return None
    return _state({"reasoningText": {"text": text, "signature": signature}})


def _state(content: Document) -> ReasoningState:
    return ReasoningState(REASONING, {"reasoningContent": content}, "block")
