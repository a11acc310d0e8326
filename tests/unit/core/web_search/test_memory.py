"""Past searches: stored in capsules, and restored in the history of later turns."""

from __future__ import annotations

from typing import Any

from antiphon.core.deltas import ReasoningState
from antiphon.core.history.capsule import Capsule
from antiphon.core.history.pairing import pair_calls
from antiphon.core.history.steps import (
    MessageStep,
    ReasoningStep,
    Step,
    TextPart,
    ToolCallStep,
    ToolResultStep,
)
from antiphon.core.plan.unseal import unseal_history
from antiphon.core.web_search.memory import (
    PastSearch,
    build_search_steps,
    decode_past_searches,
    encode_past_searches,
)
from tests.support.plans import noted
from tests.support.tables import table

ONE = PastSearch(call_id="c1", arguments='{"query":"a"}', answer="[1] A")
TWO = PastSearch(call_id="c2", arguments='{"query":"b"}', answer="[2] B")
SIGNED = ReasoningState("signed", "c2ln", "block")


def opened(
    thought: ReasoningStep, *states: ReasoningState, text: str = "", model: str = "m"
) -> Any:
    capsule = Capsule(issuer="kind", model="m", sealed_at=0, text=text, states=states)
    after, lost = noted(
        unseal_history, [thought], issuer="kind", model=model, unseal=lambda _: capsule
    )
    return after, [f"{each.code}:{each.subject}" for each in lost]


def test_the_searches_of_a_round_are_calls_and_then_their_answers() -> None:
    found, others = decode_past_searches([encode_past_searches([ONE, TWO]), SIGNED])
    assert found == build_search_steps([ONE, TWO])
    assert found == (
        ToolCallStep("c1", "web_search", '{"query":"a"}', ""),
        ToolCallStep("c2", "web_search", '{"query":"b"}', ""),
        ToolResultStep("c1", (TextPart("[1] A"),), "web_search"),
        ToolResultStep("c2", (TextPart("[2] B"),), "web_search"),
    )
    assert others == (SIGNED,)


@table("value", [None, "text", [{"call_id": "c"}], {"calls": []}])
def test_searches_stored_by_another_version_are_dropped(value: Any) -> None:
    assert decode_past_searches([ReasoningState("search", value)]) == ((), ())


def test_a_past_search_comes_before_the_reasoning_that_stores_it() -> None:
    after, lost = opened(
        ReasoningStep(encrypted="x"), encode_past_searches([ONE]), SIGNED, text="So it is."
    )
    thought = ReasoningStep(text="So it is.", encrypted="x", states=(SIGNED,))
    assert after == (*build_search_steps([ONE]), thought)
    assert lost == []


@table("model", ["m", "another"])
def test_a_reasoning_item_with_only_a_search_becomes_the_search(model: str) -> None:
    after, lost = opened(ReasoningStep(encrypted="x"), encode_past_searches([ONE]), model=model)
    assert after == build_search_steps([ONE])
    assert lost == []


def test_another_provider_gets_the_search_without_the_signature() -> None:
    after, lost = opened(
        ReasoningStep(encrypted="x"), encode_past_searches([ONE]), SIGNED, text="t", model="other"
    )
    assert after == (*build_search_steps([ONE]), ReasoningStep(text="t", encrypted="x"))
    assert lost == ["capsule.unused:foreign"]


def test_a_summary_stays_beside_a_search() -> None:
    after, _ = opened(ReasoningStep(summary="in short", encrypted="x"), encode_past_searches([ONE]))
    assert after == (*build_search_steps([ONE]), ReasoningStep(summary="in short", encrypted="x"))


def test_a_search_beside_a_clients_call_is_in_the_same_turn() -> None:
    said = MessageStep("user", (TextPart("hello"),))
    theirs = ToolCallStep("c9", "read", "{}")
    history: list[Step] = [
        said,
        theirs,
        *build_search_steps([ONE]),
        ToolResultStep("c9", (TextPart("text"),)),
    ]
    placed, diagnostics = pair_calls(history)
    assert [type(step) for step in placed] == [
        MessageStep,
        ToolCallStep,
        ToolCallStep,
        ToolResultStep,
        ToolResultStep,
    ]
    assert diagnostics == ()
