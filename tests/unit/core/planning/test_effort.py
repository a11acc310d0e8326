"""How long a model thinks, and what it can no longer be told while it does."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.core.history.steps import (
    MessageStep,
    ReasoningStep,
    Step,
    TextPart,
    ToolCallStep,
    ToolResultStep,
)
from antiphon.core.plan.plan import Capabilities, ToolChoice
from antiphon.core.planning.effort import (
    adjust_effort,
    effective_effort,
    fixed_parameters,
    resolve_effort,
    resumes_without_reasoning,
    thinks,
)
from antiphon.core.stream.deltas import ReasoningState
from tests.unit.core.planning.test_make_plan import NOW, codes, planned

LADDER = {"none": "off", "minimal": "off", "low": "low", "high": None}
CAN = Capabilities(
    efforts=LADDER,
    fixed_by_thinking=frozenset({"temperature"}),
    forced_choice_stops_thinking=True,
)


@pytest.mark.parametrize(
    ("asked", "word", "told"),
    [
        (None, None, []),
        ("low", "low", []),
        ("high", None, []),
        ("medium", "low", ["effort.degraded"]),
        ("max", None, ["effort.degraded"]),
        ("lots", None, ["effort.ignored"]),
        (7, None, []),
    ],
)
def test_an_effort_is_the_providers_word_or_the_nearest(
    asked: Any, word: str | None, told: list[str]
) -> None:
    found, diagnostics = resolve_effort(asked, "reasoning.effort", CAN)
    assert found == word
    assert [each.code for each in diagnostics] == told


@pytest.mark.parametrize(
    ("asked", "effort", "rung"),
    [
        (None, None, None),
        (7, None, None),
        ("none", "off", "none"),
        ("minimal", "off", "none"),  # less is not to be had
        ("low", "low", "low"),
        ("medium", "low", "low"),
        ("high", None, "high"),  # said by saying nothing
        ("max", None, "high"),
        ("lots", None, None),
        ("low", "off", "none"),  # something has stopped it
        (None, "off", "none"),
        ("low", "1500", "low"),  # less of it, but no other rung
    ],
)
def test_a_request_ends_up_on_a_rung(asked: Any, effort: str | None, rung: str | None) -> None:
    assert effective_effort(asked, effort, CAN) == rung


def test_an_effort_of_ones_own_is_no_rung_and_without_a_ladder_there_is_none() -> None:
    own = Capabilities(efforts={"lots": "enabled"})
    assert effective_effort("lots", "enabled", own) is None
    assert effective_effort("high", None, Capabilities()) is None


def test_a_plan_knows_what_an_effort_comes_to() -> None:
    plan = planned(can=CAN, reasoning={"effort": "medium"})
    assert (plan.effort, plan.effective_effort) == ("low", "low")
    assert "'low'" in plan.diagnostics[0].message


@pytest.mark.parametrize(
    ("effort", "unasked", "expected"),
    [("off", True, False), ("low", False, True), (None, True, True), (None, False, False)],
)
def test_a_model_thinks_unless_its_word_says_no(
    effort: str | None, unasked: bool, expected: bool
) -> None:
    can = Capabilities(efforts=LADDER, thinks_by_default=unasked)
    assert thinks(effort, can) is expected


def test_a_model_without_a_switch_thinks_with_any_word() -> None:
    assert thinks("low", Capabilities(efforts={"low": "low"}))


@pytest.mark.parametrize("mode", ["required", "function"])
def test_a_call_that_has_to_be_made_stops_the_thinking_visibly(mode: Any) -> None:
    choice = ToolChoice(mode, "now")
    effort, [told] = adjust_effort("low", "reasoning.effort", CAN, choice=choice)
    assert effort == "off"
    assert (told.code, told.decision, told.param) == (
        "effort.degraded",
        "degraded",
        "reasoning.effort",
    )
    assert adjust_effort("off", "p", CAN, choice=choice) == ("off", [])


@pytest.mark.parametrize(
    ("mode", "can"),
    [
        ("auto", CAN),
        ("none", CAN),
        ("required", Capabilities(efforts=LADDER)),
        ("required", Capabilities(efforts={"low": "low"}, forced_choice_stops_thinking=True)),
    ],
)
def test_any_other_choice_lets_it_think(mode: Any, can: Capabilities) -> None:
    assert adjust_effort("low", "p", can, choice=ToolChoice(mode)) == ("low", [])


# --- a turn that goes on --------------------------------------------------------------------------

GOES_ON = Capabilities(efforts={"none": "off", "low": "low"}, resume_requires_reasoning=True)
HI = MessageStep("user", (TextPart("hi"),))
OK = MessageStep("assistant", (TextPart("ok"),))
BLANK = MessageStep("assistant", (TextPart(" "),))
THOUGHT = ReasoningStep("hm", states=(ReasoningState("s", "v", "block"),))
LOST = ReasoningStep("hm")
CALL, ANSWER = ToolCallStep("a", "look", "{}"), ToolResultStep("a", (TextPart("1"),))


@pytest.mark.parametrize(
    ("steps", "resumes"),
    [
        ((), False),
        ((HI,), False),
        ((HI, OK), False),
        ((HI, CALL, ANSWER), True),
        ((CALL, ANSWER), True),
        ((HI, LOST, CALL, ANSWER), True),
        ((HI, OK, THOUGHT, CALL, ANSWER), True),
        ((HI, THOUGHT, CALL, ANSWER), False),
        ((HI, BLANK, THOUGHT, CALL, ANSWER), False),
        ((HI, THOUGHT, CALL, ANSWER, CALL, ANSWER), False),
        ((HI, CALL, ANSWER, THOUGHT, CALL, ANSWER), True),
        ((HI, CALL, ANSWER, HI, THOUGHT, CALL, ANSWER), False),
        ((HI, THOUGHT, CALL, ANSWER, HI, CALL, ANSWER), True),
        ((HI, CALL, ANSWER, HI), True),
        ((HI, CALL, ANSWER, OK, HI), False),
    ],
)
def test_a_turn_goes_on_thinking_only_if_it_began_with_a_thought(
    steps: tuple[Step, ...], resumes: bool
) -> None:
    assert resumes_without_reasoning(steps) is resumes
    effort, told = adjust_effort("low", "p", GOES_ON, steps=steps)
    assert effort == ("off" if resumes else "low")
    assert [each.code for each in told] == ["effort.degraded"] * resumes
    assert adjust_effort("low", "p", CAN, steps=steps) == ("low", [])


# --- room for the answer --------------------------------------------------------------------------

COUNTS = Capabilities(
    efforts={"none": "none", "low": "2048", "high": "16384", "max": "free"},
    min_thinking_budget=1024,
    max_output_tokens=32_000,
)


@pytest.mark.parametrize(
    ("effort", "limit", "kept"),
    [
        ("16384", None, "16384"),
        ("16384", 20_000, "16384"),
        ("16384", 17_408, "16384"),
        ("16384", 9_000, "7976"),
        ("2048", 2_048, "1024"),
        ("2048", 2_047, "none"),
        ("2048", 1, "none"),
        ("40000", 90_000, "30976"),
        ("free", 1, "free"),
        ("none", 1, "none"),
        (None, 1, None),
    ],
)
def test_a_budget_leaves_room_for_the_answer(
    effort: str | None, limit: int | None, kept: str | None
) -> None:
    found, told = adjust_effort(effort, "p", COUNTS, limit=limit)
    assert found == kept
    assert [each.code for each in told] == ["effort.degraded"] * (kept != effort)
    why = "no room for it" if kept == "none" else f"{kept} tokens"
    assert all(why in each.message for each in told)


def test_a_budget_that_the_provider_sees_to_stays() -> None:
    can = Capabilities(efforts={"none": "0", "low": "2048"})
    assert adjust_effort("2048", "p", can, limit=1) == ("2048", [])


def test_a_plan_counts_the_tokens_of_its_own_limit() -> None:
    plan = planned(can=COUNTS, max_output_tokens=5000, reasoning={"effort": "high"})
    assert (plan.effort, plan.effective_effort) == ("3976", "high")
    assert codes(plan) == ["effort.degraded reasoning.effort"]


# --- what it costs --------------------------------------------------------------------------------


def test_what_one_effort_fixes_cannot_be_set_beside_it() -> None:
    can = Capabilities(
        efforts={"none": "off", "low": "low"}, fixed_by_effort={"low": frozenset({"top_p"})}
    )
    assert fixed_parameters("low", can) == {"top_p"}
    assert fixed_parameters("off", can) == frozenset()


def test_what_thinking_fixes_cannot_be_set_while_it_thinks() -> None:
    assert fixed_parameters("off", CAN) == frozenset()
    assert fixed_parameters("low", Capabilities()) == frozenset()
    assert fixed_parameters("low", CAN) == {"temperature"}


def test_a_plan_says_what_thinking_has_cost() -> None:
    plan = planned(can=CAN, temperature=0.5, reasoning={"effort": "low"})
    assert plan.parameters == {}
    assert codes(plan) == ["param.ignored temperature"]
    plan = planned(can=CAN, temperature=1, reasoning={"effort": "low"})
    assert (plan.parameters, plan.diagnostics) == ({}, ())
    plan = planned(can=CAN, temperature=0.5, reasoning={"effort": "none"})
    assert (plan.parameters, plan.diagnostics) == ({"temperature": 0.5}, ())


def test_a_plan_whose_call_stops_the_thinking_can_be_sampled_again() -> None:
    plan = planned(can=CAN, temperature=0.5, tools=[NOW], tool_choice="required")
    assert (plan.effort, plan.effective_effort) == ("off", "none")
    assert plan.parameters == {"temperature": 0.5}
    assert codes(plan) == ["effort.degraded reasoning.effort"]


def test_an_effort_set_earlier_in_the_thread_is_named_by_its_place() -> None:
    update = {"type": "configuration_update", "reasoning": {"effort": "low"}}
    turn = [update, {"role": "user", "content": "hi"}]
    plan = planned(can=CAN, input=turn, tools=[NOW], tool_choice="required")
    assert "effort.degraded input[0].reasoning.effort" in codes(plan)
