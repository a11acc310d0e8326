"""Replay of reasoning, and thinking budgets."""

from __future__ import annotations

import pytest

from antiphon.core.capabilities import ReplayReasoning
from antiphon.core.deltas import ReasoningState
from antiphon.core.history.steps import MessageStep, ReasoningStep, Step
from antiphon.core.plan.plan import Plan
from antiphon.dialects.reasoning import (
    reasoning_states,
    reasoning_text,
    replays_reasoning,
    thinking_budget,
)

SIGNED = ReasoningState("a", "signature", "block")
STEPS: list[Step] = [
    ReasoningStep(text="one, ", states=(SIGNED, ReasoningState("b", "other", "block"))),
    MessageStep(role="assistant", parts=()),
    ReasoningStep(summary="two"),
]


@pytest.mark.parametrize(
    ("replay", "has_calls", "expected"),
    [
        ("always", False, True),
        ("tool_turns", True, True),
        ("tool_turns", False, False),
        ("never", True, False),
    ],
)
def test_reasoning_is_replayed_as_planned(
    replay: ReplayReasoning, has_calls: bool, expected: bool
) -> None:
    plan = Plan(provider="p", model="m", replay_reasoning=replay)
    assert replays_reasoning(plan, has_calls=has_calls) is expected


def test_the_summary_stands_in_for_reasoning_without_text() -> None:
    assert reasoning_text(STEPS) == "one, two"


def test_only_states_of_the_given_schemes_are_found() -> None:
    assert list(reasoning_states(STEPS, "a", "c")) == [SIGNED]


@pytest.mark.parametrize(
    ("effort", "limit", "expected"),
    [
        ("4096", None, 4096),
        ("4096", 4096, 3072),
        ("high", 8192, 1024),
        ("4096", 2000, None),
        ("512", None, None),
    ],
)
def test_a_thinking_budget_leaves_room_for_the_answer(
    effort: str, limit: int | None, expected: int | None
) -> None:
    assert thinking_budget(effort, limit) == expected
