"""Replay of reasoning from earlier turns, and thinking budgets, as the dialects share them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from antiphon.core.deltas import ReasoningState
from antiphon.core.history.steps import ReasoningStep, Step
from antiphon.core.plan.plan import Plan

MIN_BUDGET = 1024
"""Least thinking budget, and least that has to remain for the output, in tokens."""


def replays_reasoning(plan: Plan, *, has_calls: bool) -> bool:
    """Whether the reasoning of an earlier turn is sent back. `has_calls`: it called tools."""
    return plan.replay_reasoning == "always" or (
        plan.replay_reasoning == "tool_turns" and has_calls
    )


def reasoning_text(steps: Iterable[Step]) -> str:
    """The reasoning of a turn as one text; a summary where the text itself is not known."""
    return "".join(step.text or step.summary for step in steps if isinstance(step, ReasoningStep))


def reasoning_states(steps: Iterable[Step], *schemes: str) -> Iterator[ReasoningState]:
    """The provider state of a turn's reasoning, in these schemes only."""
    for step in steps:
        if isinstance(step, ReasoningStep):
            yield from (state for state in step.states if state.scheme in schemes)


def thinking_budget(effort: str, max_output_tokens: int | None) -> int | None:
    """Tokens for thinking that leave room for the output; None if there is no room to think."""
    budget = int(effort) if effort.isdecimal() else MIN_BUDGET
    if max_output_tokens is not None:
        budget = min(budget, max_output_tokens - MIN_BUDGET)
    return budget if budget >= MIN_BUDGET else None
