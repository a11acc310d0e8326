"""Compaction items of a history: opened for every provider, or replaced by a note."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.core.compaction.open_items import is_kept, open_items
from antiphon.core.compaction.summary import Summary
from antiphon.core.deltas import ReasoningState
from antiphon.core.history.capsule import Capsule, Opened, Unopened
from antiphon.core.history.read_items import OpenedCompaction
from tests.support.tables import table

NOTE = "[an earlier part of this conversation was compacted elsewhere and cannot be read]"
NATIVE = {"type": "compaction", "encrypted_content": "gAAA"}


def sealed(state: Any, issuer: str = "own") -> Capsule:
    states = (ReasoningState("compaction", state),)
    return Capsule(issuer=issuer, model="m", sealed_at=0, states=states)


CAPSULES: dict[str, Opened] = {
    "first": sealed(Summary(goal="First.").to_state(), issuer="another"),
    "second": sealed(Summary(goal="Second.").to_state()),
    "native": sealed({"item": NATIVE}),
    "theirs": sealed({"item": NATIVE}, issuer="another"),
    "odd": sealed({"item": 3}),
    "reasoning": Capsule(issuer="own", model="m", sealed_at=0, text="Hm."),
    "tampered": Unopened.TAMPERED,
    "lost": Unopened.UNKNOWN_KEY,
}


def compaction(content: Any, kind: str = "compaction") -> dict[str, Any]:
    return {"type": kind, "encrypted_content": content}


def said(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": text}


def opened(*items: dict[str, Any]) -> tuple[list[Any], list[str]]:
    found, notes = open_items(
        items, issuer="own", unseal=lambda text: CAPSULES.get(text, Unopened.FOREIGN)
    )
    assert len(found) == len(items)
    return found, [f"{each.code} {each.param}" for each in notes]


def text_of(item: Any) -> str:
    (part,) = item["content"]
    assert (item["type"], item["role"]) == ("message", "user")
    return str(part["text"])


@pytest.mark.parametrize("kind", ["compaction", "compaction_summary", "context_compaction"])
def test_a_summary_becomes_a_message_whatever_provider_made_it(kind: str) -> None:
    found, notes = opened(said("Hello?"), compaction("first", kind), said("Go on."))
    assert found[0] == said("Hello?")
    assert text_of(found[1]).endswith("Goal: First.")
    assert (found[2], notes) == (said("Go on."), [])


def test_what_a_summary_replaces_is_left_out_and_reported() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    tools = {"type": "additional_tools", "tools": []}
    items = (said("Hello?"), said("Hi.", "assistant"), call, tools, said("Be brief.", "developer"))
    found, notes = opened(*items, compaction("second"), said("Well?", "assistant"))
    nothing = {"type": "configuration_update"}
    assert found[:5] == [items[0], nothing, nothing, tools, items[4]]
    assert found[6] == said("Well?", "assistant")
    assert notes == ["history.compaction.applied input[5]"]


def test_only_the_last_summary_counts() -> None:
    found, notes = opened(compaction("x"), compaction("first"), compaction("second"))
    assert text_of(found[2]).endswith("Goal: Second.")
    assert found[:2] == [{"type": "configuration_update"}] * 2
    assert notes == ["history.compaction.applied input[2]"]


def test_a_compaction_of_the_provider_itself_goes_back_as_it_is() -> None:
    found, notes = opened(said("Hi.", "assistant"), compaction("native"))
    assert found == [said("Hi.", "assistant"), NATIVE]
    assert isinstance(found[1], OpenedCompaction)
    assert notes == []


@table("content", ["gAAA", "theirs", "odd", "reasoning", "tampered", "lost", None, 3])
def test_what_cannot_be_opened_becomes_a_note_and_nothing_else_changes(content: Any) -> None:
    answer = said("Hi.", "assistant")
    found, notes = opened(answer, compaction(content))
    assert (found[0], text_of(found[1])) == (answer, NOTE)
    assert notes == ["history.compaction.ignored input[1]"]


def test_without_a_key_every_compaction_becomes_a_note() -> None:
    found, [note] = open_items([compaction("first")], issuer="own", unseal=None)
    assert text_of(found[0]) == NOTE
    assert "another server" in note.message


@table(
    ("item", "kept"),
    [
        (said("a"), True),
        (said("a", "system"), True),
        ({**said("a", "developer"), "type": "message"}, True),
        (said("a", "assistant"), False),
        ({"type": "reasoning"}, False),
        ({"type": "compaction_trigger"}, True),
        ({"type": "configuration_update"}, True),
    ],
)
def test_messages_to_the_model_and_settings_are_kept(item: dict[str, Any], kept: bool) -> None:
    assert is_kept(item) is kept
