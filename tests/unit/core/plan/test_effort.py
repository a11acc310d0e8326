"""Reasoning effort: its mapping, and when thinking is reduced or disabled."""

from __future__ import annotations

from typing import Any

from antiphon.core.capabilities import Capabilities
from antiphon.core.deltas import ReasoningState
from antiphon.core.history.steps import (
    MessageStep,
    ReasoningStep,
    Step,
    TextPart,
    ToolCallStep,
    ToolResultStep,
)
from antiphon.core.plan.effort import (
    adjust_effort,
    apply_budget,
    effective_effort,
    fixed_parameters,
    resolve_effort,
    resumes_without_reasoning,
    thinks,
)
from antiphon.core.plan.planner import ModelTarget, PlanInputs, Planner
from antiphon.core.request import Request, Thinking
from antiphon.core.tools.declaration import ToolChoice
from tests.support.plans import noted
from tests.support.tables import table
from tests.unit.core.plan.test_planner import NOW, codes, planned

LADDER = {"none": "off", "minimal": "off", "low": "low", "high": None}
CAN = Capabilities(
    efforts=LADDER,
    fixed_by_thinking=frozenset({"temperature"}),
    forced_choice_stops_thinking=True,
)


@table(
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
def test_an_effort_maps_to_the_providers_value_or_the_nearest(
    asked: Any, word: str | None, told: list[str]
) -> None:
    found, diagnostics = noted(resolve_effort, asked, "reasoning.effort", CAN)
    assert found == word
    assert [each.code for each in diagnostics] == told


@table(
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
def test_the_effective_effort_is_an_effort_of_the_api(
    asked: Any, effort: str | None, rung: str | None
) -> None:
    assert effective_effort(asked, effort, CAN) == rung


def test_a_custom_effort_or_a_model_without_efforts_has_no_effective_effort() -> None:
    own = Capabilities(efforts={"lots": "enabled"})
    assert effective_effort("lots", "enabled", own) is None
    assert effective_effort("high", None, Capabilities()) is None


def test_a_thinking_budget_is_the_effort_of_a_provider_that_takes_one() -> None:
    request = Request(raw={}, model="m", effort="low", thinking=Thinking(budget_tokens=2048))
    target = ModelTarget("p", "m", Capabilities(efforts={"none": "0", "low": "1024"}))
    assert Planner(request, PlanInputs()).plan(target).effort == "2048"


def test_a_plan_has_the_effective_effort() -> None:
    plan = planned(can=CAN, reasoning={"effort": "medium"})
    assert (plan.effort, plan.effective_effort) == ("low", "low")
    assert "'low'" in plan.diagnostics[0].message


@table(
    ("effort", "unasked", "expected"),
    [("off", True, False), ("low", False, True), (None, True, True), (None, False, False)],
)
def test_a_model_thinks_unless_its_effort_value_is_none(
    effort: str | None, unasked: bool, expected: bool
) -> None:
    can = Capabilities(efforts=LADDER, thinks_by_default=unasked)
    assert thinks(effort, can) is expected


def test_a_model_that_cannot_disable_thinking_thinks_with_any_effort() -> None:
    assert thinks("low", Capabilities(efforts={"low": "low"}))


@table("mode", ["required", "function"])
def test_a_forced_call_disables_thinking_with_a_diagnostic(mode: Any) -> None:
    choice = ToolChoice(mode, "now")
    effort, [told] = noted(adjust_effort, "low", "reasoning.effort", CAN, choice=choice)
    assert effort == "off"
    assert (told.code, told.decision, told.param) == (
        "effort.degraded",
        "degraded",
        "reasoning.effort",
    )
    assert noted(adjust_effort, "off", "p", CAN, choice=choice) == ("off", [])


@table(
    ("mode", "can"),
    [
        ("auto", CAN),
        ("none", CAN),
        ("required", Capabilities(efforts=LADDER)),
        ("required", Capabilities(efforts={"low": "low"}, forced_choice_stops_thinking=True)),
    ],
)
def test_any_other_tool_choice_allows_thinking(mode: Any, can: Capabilities) -> None:
    assert noted(adjust_effort, "low", "p", can, choice=ToolChoice(mode)) == ("low", [])


# --- a continued turn -----------------------------------------------------------------------------

GOES_ON = Capabilities(efforts={"none": "off", "low": "low"}, resume_requires_reasoning=True)
HI = MessageStep("user", (TextPart("hi"),))
OK = MessageStep("assistant", (TextPart("ok"),))
BLANK = MessageStep("assistant", (TextPart(" "),))
THOUGHT = ReasoningStep("hm", states=(ReasoningState("s", "v", "block"),))
LOST = ReasoningStep("hm")
CALL, ANSWER = ToolCallStep("a", "look", "{}"), ToolResultStep("a", (TextPart("1"),))


@table(
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
def test_a_turn_continues_thinking_only_if_it_began_with_reasoning(
    steps: tuple[Step, ...], resumes: bool
) -> None:
    assert resumes_without_reasoning(steps) is resumes
    effort, told = noted(adjust_effort, "low", "p", GOES_ON, steps=steps)
    assert effort == ("off" if resumes else "low")
    assert [each.code for each in told] == ["effort.degraded"] * resumes
    assert noted(adjust_effort, "low", "p", CAN, steps=steps) == ("low", [])


# --- room for the answer --------------------------------------------------------------------------

COUNTS = Capabilities(
    efforts={"none": "none", "low": "2048", "high": "16384", "max": "free"},
    min_thinking_budget=1024,
    max_output_tokens=32_000,
)


@table(
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
    found, told = noted(adjust_effort, effort, "p", COUNTS, limit=limit)
    assert found == kept
    assert [each.code for each in told] == ["effort.degraded"] * (kept != effort)
    why = "no room for it" if kept == "none" else f"{kept} tokens"
    assert all(why in each.message for each in told)


def test_a_budget_that_the_provider_limits_itself_is_unchanged() -> None:
    can = Capabilities(efforts={"none": "0", "low": "2048"})
    assert noted(adjust_effort, "2048", "p", can, limit=1) == ("2048", [])


def test_a_plan_counts_the_tokens_of_its_own_limit() -> None:
    plan = planned(can=COUNTS, max_output_tokens=5000, reasoning={"effort": "high"})
    assert (plan.effort, plan.effective_effort) == ("3976", "high")
    assert codes(plan) == ["effort.degraded reasoning.effort"]


# --- parameters -----------------------------------------------------------------------------------


def test_parameters_fixed_by_an_effort_are_not_supported_at_it() -> None:
    can = Capabilities(
        efforts={"none": "off", "low": "low"}, fixed_by_effort={"low": frozenset({"top_p"})}
    )
    assert fixed_parameters("low", can) == {"top_p"}
    assert fixed_parameters("off", can) == frozenset()


def test_parameters_fixed_by_thinking_are_not_supported_while_thinking() -> None:
    assert fixed_parameters("off", CAN) == frozenset()
    assert fixed_parameters("low", Capabilities()) == frozenset()
    assert fixed_parameters("low", CAN) == {"temperature"}


def test_a_plan_reports_parameters_that_thinking_excludes() -> None:
    plan = planned(can=CAN, temperature=0.5, reasoning={"effort": "low"})
    assert plan.parameters == {}
    assert codes(plan) == ["param.ignored temperature"]
    plan = planned(can=CAN, temperature=1, reasoning={"effort": "low"})
    assert (plan.parameters, plan.diagnostics) == ({}, ())
    plan = planned(can=CAN, temperature=0.5, reasoning={"effort": "none"})
    assert (plan.parameters, plan.diagnostics) == ({"temperature": 0.5}, ())


def test_a_plan_whose_forced_call_disables_thinking_keeps_its_temperature() -> None:
    plan = planned(can=CAN, temperature=0.5, tools=[NOW], tool_choice="required")
    assert (plan.effort, plan.effective_effort) == ("off", "none")
    assert plan.parameters == {"temperature": 0.5}
    assert codes(plan) == ["effort.degraded reasoning.effort"]


def test_an_effort_set_by_an_item_is_reported_with_the_items_path() -> None:
    update = {"type": "configuration_update", "reasoning": {"effort": "low"}}
    turn = [update, {"role": "user", "content": "hi"}]
    plan = planned(can=CAN, input=turn, tools=[NOW], tool_choice="required")
    assert "effort.degraded input[0].reasoning.effort" in codes(plan)


# --- thinking budgets -----------------------------------------------------------------------------


@table(
    ("effort", "budget", "sent", "told"),
    [
        ("16384", 5000, "5000", []),
        ("16384", 99_999, "24576", []),
        (None, 5000, None, []),
        ("0", 5000, "0", []),
        ("high", 5000, "high", ["effort.degraded"]),
    ],
)
def test_a_thinking_budget_is_used_where_the_effort_is_one(
    effort: str | None, budget: int, sent: str | None, told: list[str]
) -> None:
    can = Capabilities(efforts={"none": "0"}, max_thinking_budget=24_576)
    found, diagnostics = noted(apply_budget, effort, budget, can)
    assert found == sent
    assert [each.code for each in diagnostics] == told


def test_a_budget_takes_the_place_of_an_effort_with_a_name_where_the_provider_has_both() -> None:
    can = Capabilities(efforts={"none": "none", "low": "low"}, thinking_budgets=True)
    assert noted(apply_budget, "low", 2048, can) == ("2048", [])
    assert noted(apply_budget, "none", 2048, can) == ("none", [])


def test_a_budget_without_a_known_range_is_used_as_it_is() -> None:
    assert noted(apply_budget, "1024", 31_999, Capabilities()) == ("31999", [])


def test_a_budget_below_the_minimum_of_a_provider_is_that_minimum() -> None:
    can = Capabilities(efforts={"low": "2048"}, min_thinking_budget=1024)
    assert noted(apply_budget, "2048", 500, can) == ("1024", [])
