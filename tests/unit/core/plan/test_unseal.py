"""Capsules in the history: their own model gets all of the state, others the plain text."""

from __future__ import annotations

import pytest

from antiphon.core.deltas import ReasoningState
from antiphon.core.history.capsule import Capsule, Opened, Unopened
from antiphon.core.history.steps import MessageStep, ReasoningStep, Step, TextPart
from antiphon.core.plan.unseal import unseal_history
from tests.support.plans import noted

STATE = ReasoningState("signed", "c2ln", "block")
OWN = Capsule(issuer="kind", model="m", sealed_at=0, text="whole thought", states=(STATE,))
HELLO = MessageStep("user", (TextPart("hello"),))


def opened(
    steps: list[Step], capsule: Opened, *, model: str = "m"
) -> tuple[tuple[Step, ...], list[str]]:
    after, diagnostics = noted(
        unseal_history, steps, issuer="kind", model=model, unseal=lambda text: capsule
    )
    return after, [f"{each.code}:{each.subject}" for each in diagnostics]


def test_the_provider_and_model_of_a_capsule_get_all_of_its_state() -> None:
    after, lost = opened([HELLO, ReasoningStep(summary="in short", encrypted="x")], OWN)
    expected = ReasoningStep(
        text="whole thought", summary="in short", encrypted="x", states=(STATE,)
    )
    assert after == (HELLO, expected)
    assert lost == []


def test_another_model_gets_the_plain_text_and_the_unused_state_is_reported() -> None:
    after, lost = opened([ReasoningStep(encrypted="x")], OWN, model="other")
    assert after == (ReasoningStep(text="whole thought", encrypted="x"),)
    assert lost == ["capsule.unused:foreign"]


def test_a_capsule_with_only_text_makes_no_diagnostic() -> None:
    plain = Capsule(issuer="someone", model="else", sealed_at=0, text="whole thought")
    after, lost = opened([ReasoningStep(encrypted="x")], plain)
    assert after == (ReasoningStep(text="whole thought", encrypted="x"),)
    assert lost == []


@pytest.mark.parametrize("why", list(Unopened))
def test_a_capsule_that_cannot_be_opened_leaves_the_reasoning_unchanged(why: Unopened) -> None:
    thought = ReasoningStep(text="what the client saw", encrypted="x")
    after, lost = opened([thought, thought], why)
    assert after == (thought, thought)
    assert lost == [f"capsule.unused:{why.value}"]


def test_the_message_counts_the_items() -> None:
    thought = ReasoningStep(encrypted="x")
    for count, words in ((1, "1 reasoning item "), (3, "3 reasoning items ")):
        _, [diagnostic] = noted(
            unseal_history,
            [thought] * count,
            issuer="kind",
            model="m",
            unseal=lambda text: Unopened.EXPIRED,
        )
        assert words in diagnostic.message


def test_reasoning_without_encrypted_content_is_unchanged() -> None:
    after, lost = opened([ReasoningStep(text="plain")], Unopened.FOREIGN)
    assert after == (ReasoningStep(text="plain"),)
    assert lost == []
