"""Searches that travel in capsules, and stand in later turns where they stood."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.core.history.capsule import Capsule
from antiphon.core.history.pairing import paired
from antiphon.core.history.steps import Answered, Called, Said, Step, TextPart, Thought
from antiphon.core.planning.unseal import unsealed
from antiphon.core.stream.deltas import ReasoningState
from antiphon.core.web_search.memory import Exchange, as_steps, recalled, remembered

ONE = Exchange(call_id="c1", arguments='{"query":"a"}', answer="[1] A")
TWO = Exchange(call_id="c2", arguments='{"query":"b"}', answer="[2] B")
SIGNED = ReasoningState("signed", "c2ln", "block")


def opened(thought: Thought, *states: ReasoningState, text: str = "", model: str = "m") -> Any:
    capsule = Capsule(issuer="kind", model="m", sealed_at=0, text=text, states=states)
    after, lost = unsealed([thought], issuer="kind", model=model, unseal=lambda _: capsule)
    return after, [f"{each.code}:{each.subject}" for each in lost]


def test_the_searches_of_a_round_are_calls_and_then_their_answers() -> None:
    found, others = recalled([remembered([ONE, TWO]), SIGNED])
    assert found == as_steps([ONE, TWO])
    assert found == (
        Called("c1", "web_search", '{"query":"a"}', ""),
        Called("c2", "web_search", '{"query":"b"}', ""),
        Answered("c1", (TextPart("[1] A"),), "web_search"),
        Answered("c2", (TextPart("[2] B"),), "web_search"),
    )
    assert others == (SIGNED,)


@pytest.mark.parametrize("value", [None, "text", [{"call_id": "c"}], {"calls": []}])
def test_what_another_version_wrote_is_not_remembered(value: Any) -> None:
    assert recalled([ReasoningState("search", value)]) == ((), ())


def test_a_search_stands_before_the_thought_that_carries_it() -> None:
    after, lost = opened(Thought(encrypted="x"), remembered([ONE]), SIGNED, text="So it is.")
    thought = Thought(text="So it is.", encrypted="x", states=(SIGNED,))
    assert after == (*as_steps([ONE]), thought)
    assert lost == []


@pytest.mark.parametrize("model", ["m", "another"])
def test_a_thought_that_carries_only_a_search_gives_way_to_it(model: str) -> None:
    after, lost = opened(Thought(encrypted="x"), remembered([ONE]), model=model)
    assert after == as_steps([ONE])
    assert lost == []


def test_another_provider_gets_the_search_without_the_signature() -> None:
    after, lost = opened(Thought(encrypted="x"), remembered([ONE]), SIGNED, text="t", model="other")
    assert after == (*as_steps([ONE]), Thought(text="t", encrypted="x"))
    assert lost == ["capsule.unused:foreign"]


def test_a_summary_stays_beside_a_search() -> None:
    after, _ = opened(Thought(summary="in short", encrypted="x"), remembered([ONE]))
    assert after == (*as_steps([ONE]), Thought(summary="in short", encrypted="x"))


def test_beside_a_clients_call_both_stand_in_one_turn() -> None:
    said = Said("user", (TextPart("hello"),))
    theirs = Called("c9", "read", "{}")
    history: list[Step] = [said, theirs, *as_steps([ONE]), Answered("c9", (TextPart("text"),))]
    placed, diagnostics = paired(history)
    assert [type(step) for step in placed] == [Said, Called, Called, Answered, Answered]
    assert diagnostics == ()
