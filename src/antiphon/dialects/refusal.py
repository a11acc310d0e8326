"""Refusals of Claude, which are finish reasons: the words that a client sees."""

from __future__ import annotations

from typing import Any

from antiphon.core.deltas import Delta, Refusal


def read_refusal(reason: str | None, details: Any = None) -> list[Delta]:
    """The words of a refusal. Claude 4 gives none, and leaves it to clients to find some:
    https://platform.claude.com/docs/en/test-and-evaluate/strengthen-guardrails/handle-streaming-refusals
    """
    words = "The model refused to respond."
    match details:
        case {"explanation": str(text)} if text:
            return [Refusal(text)]
        case {"reason": "content_filter"}:  # of our own renderer
            return []
        case {"category": str(category)} if category:
            words = f"{words} Category: {category}."
    return [Refusal(words)] if reason == "refusal" else []
