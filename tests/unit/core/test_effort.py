"""How long a model thinks, and what it can no longer be told while it does."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.core.effort import climb, settle, thinks, while_thinking
from antiphon.core.plan import Capabilities, ToolChoice
from tests.unit.core.test_planning import NOW, codes, planned

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
    found, diagnostics = climb(asked, "reasoning.effort", CAN)
    assert found == word
    assert [each.code for each in diagnostics] == told


@pytest.mark.parametrize(
    ("effort", "unasked", "expected"),
    [("off", True, False), ("low", False, True), (None, True, True), (None, False, False)],
)
def test_a_model_thinks_unless_its_word_says_no(
    effort: str | None, unasked: bool, expected: bool
) -> None:
    can = Capabilities(efforts=LADDER, thinks_unasked=unasked)
    assert thinks(effort, can) is expected


def test_a_model_without_a_switch_thinks_with_any_word() -> None:
    assert thinks("low", Capabilities(efforts={"low": "low"}))


@pytest.mark.parametrize("mode", ["required", "function"])
def test_a_call_that_has_to_be_made_stops_the_thinking_visibly(mode: Any) -> None:
    effort, [told] = settle("low", ToolChoice(mode, "now"), "reasoning.effort", CAN)
    assert effort == "off"
    assert (told.code, told.decision, told.param) == (
        "effort.degraded",
        "degraded",
        "reasoning.effort",
    )
    assert settle("off", ToolChoice(mode, "now"), "p", CAN) == ("off", [])


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
    assert settle("low", ToolChoice(mode), "p", can) == ("low", [])


def test_what_thinking_fixes_cannot_be_set_while_it_thinks() -> None:
    assert while_thinking("off", CAN) is CAN
    assert while_thinking("low", Capabilities()) == Capabilities()
    assert while_thinking("low", CAN).parameters == {"top_p", "max_output_tokens"}


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
    assert (plan.effort, plan.requested_effort) == ("off", None)
    assert plan.parameters == {"temperature": 0.5}
    assert codes(plan) == ["effort.degraded reasoning.effort"]


def test_an_effort_set_earlier_in_the_thread_is_named_by_its_place() -> None:
    update = {"type": "configuration_update", "reasoning": {"effort": "low"}}
    turn = [update, {"role": "user", "content": "hi"}]
    plan = planned(can=CAN, input=turn, tools=[NOW], tool_choice="required")
    assert "effort.degraded input[0].reasoning.effort" in codes(plan)
