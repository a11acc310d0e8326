"""Sealing of compaction items, which carry state of the gateway or of a provider."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.core.deltas import ReasoningState
from antiphon.core.stream.compaction_item import seal_compaction

SEALED: list[tuple[Sequence[ReasoningState], str]] = []


def seal(states: Sequence[ReasoningState], text: str) -> str:
    SEALED.append((states, text))
    return "sealed"


def test_the_state_of_the_gateway_is_sealed_and_not_shown() -> None:
    document = {"type": "compaction", "id": "cmp_1", "state": {"summary": {"goal": "a"}}}
    sealed = {"type": "compaction", "id": "cmp_1", "encrypted_content": "sealed"}
    assert seal_compaction(document, seal) == sealed
    assert SEALED[-1] == ([ReasoningState("compaction", {"summary": {"goal": "a"}})], "")


def test_the_content_of_a_provider_is_sealed_without_its_id() -> None:
    document = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA"}
    assert seal_compaction(document, seal) == {**document, "encrypted_content": "sealed"}
    content = {"type": "compaction", "encrypted_content": "gAAA"}
    assert SEALED[-1] == ([ReasoningState("compaction", {"item": content})], "")


def test_other_items_are_not_changed_and_nothing_is_sealed_without_a_key() -> None:
    document = {"type": "web_search_call", "encrypted_content": "x"}
    assert seal_compaction(document, seal) is document
    native = {"type": "compaction", "encrypted_content": "gAAA"}
    assert seal_compaction(native, None) is native
