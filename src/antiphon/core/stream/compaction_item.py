"""Compaction items of a response: their content is sealed, so that only its client can use it."""

from __future__ import annotations

from antiphon.core.deltas import ReasoningState
from antiphon.core.items import Document
from antiphon.core.stream.blocks import Seal

COMPACTION = "compaction"
STATE = "state"
"""The field of a compaction item that holds what the gateway itself wants to be sealed."""


def seal_compaction(document: Document, seal: Seal | None) -> Document:
    """Seal the content of an item, if it is a compaction: the gateway's state, or the provider's
    own content, which then goes back to this provider alone."""
    if seal is None or document.get("type") != COMPACTION:
        return document
    content = {"type": COMPACTION, "encrypted_content": document.get("encrypted_content")}
    state = document.get(STATE) or {"item": content}
    others = {name: value for name, value in document.items() if name != STATE}
    return {**others, "encrypted_content": seal([ReasoningState(COMPACTION, state)], "")}
