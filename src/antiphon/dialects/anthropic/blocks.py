"""Content blocks of an Anthropic message: what their deltas add to them.

A block of the server's own tools (`server_tool_use` and results) is an `Extra`, never a call for
the client to run; for a client of the same format it is kept (`kept_blocks`).
"""

from __future__ import annotations

from typing import Any

from antiphon.core.deltas import Annotation, Delta, Extra, Reasoning, ReasoningState, Text
from antiphon.core.items import Document
from antiphon.dialects.anthropic.kept_blocks import KeptBlock
from antiphon.dialects.content_blocks import (
    Block,
    CallBlock,
    ReasoningBlock,
    TextBlock,
    url_citation,
)
from antiphon.dialects.json_input import nonempty_string

THINKING = "anthropic.thinking"
REDACTED = "anthropic.redacted_thinking"
"""Schemes of reasoning state: the value is a whole content block, sent back as it came."""


def block_type(value: Any) -> str:
    """The `type` of a block or a delta, or an empty string."""
    return nonempty_string(value.get("type")) or "" if isinstance(value, dict) else ""


def extend(block: Block | None, delta: Any) -> list[Delta]:
    """Write a delta into its block; one that does not belong to the block is an `Extra`."""
    match delta:
        case {"type": "text_delta", "text": text} if isinstance(block, TextBlock):
            return block.write(text)
        case {"type": "input_json_delta", "partial_json": str(fragment)} if isinstance(
            block, CallBlock
        ):
            return block.write(fragment)
        case {"type": "thinking_delta", "thinking": str(text)} if isinstance(block, ReasoningBlock):
            return block.write(text)
        case {"type": "signature_delta", "signature": str(signature)} if isinstance(
            block, ReasoningBlock
        ):
            return block.sign(signature)
        case {"type": "citations_delta", "citation": citation} if isinstance(block, TextBlock):
            return block.cite(citation)
        case {"type": str()} if isinstance(block, KeptBlock):
            return block.write(delta)
        # Output in a block of another type: SGLang writes text into an open `tool_use`.
        case {"type": "text_delta", "text": str(text)} if isinstance(
            block, CallBlock | ReasoningBlock
        ):
            return [Text(text)] if text else []
        case {"type": "thinking_delta", "thinking": str(text)} if isinstance(
            block, TextBlock | CallBlock
        ):
            return [Reasoning(text)] if text else []
    return [Extra(block_type(delta) or "content_block_delta", delta)]


def annotate(citation: Any, start: int, end: int) -> Annotation | None:
    """The annotation of a citation. It covers its block from `start` to `end`, unless a gateway
    that speaks this format names a part of it."""
    match citation:
        case {"url": str(url), "start_index": int(first), "end_index": int(last)}:
            return url_citation(url, citation.get("title"), start + first, start + last)
        case {"url": str(url)}:
            return url_citation(url, citation.get("title"), start, end)
        case {"document_index": int()}:
            return Annotation(
                {
                    "type": "file_citation",
                    "file_id": nonempty_string(citation.get("file_id")) or "",
                    "filename": nonempty_string(citation.get("document_title")) or "",
                    "index": end,
                    "citation": citation,
                }
            )
    return None


def make_state(block: Document, text: str, signature: str) -> ReasoningState | None:
    """The thinking block that was opened with `block`, as the next turn sends it back."""
    state = {**block, "thinking": text}
    if signature:
        state["signature"] = signature
    elif not text or "signature" in state:
        return None  # never signed: the API refuses `"signature": ""`, but not a missing block
    return ReasoningState(THINKING, state, "block")
