"""DeepSeek's switch, its ladder, and what goes along with thinking."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.outbound_requests import CALLED, TOOL, Document, asked, configured, planned

PROVIDER = configured("deepseek")
SAMPLING: Document = {
    "temperature": 0.3,
    "top_p": 0.9,
    "presence_penalty": 1,
    "frequency_penalty": 1,
}


@pytest.mark.parametrize(
    ("effort", "word"),
    [
        ("minimal", "low"),
        ("low", "low"),
        ("medium", "high"),
        ("high", "high"),
        ("xhigh", "high"),
        ("max", "max"),
    ],
)
def test_every_effort_thinks_with_the_vendors_word_for_it(effort: str, word: str) -> None:
    body = asked(PROVIDER, reasoning={"effort": effort})
    assert body["thinking"] == {"type": "enabled"}
    assert body["reasoning_effort"] == word


def test_no_effort_switches_thinking_off() -> None:
    body = asked(PROVIDER, reasoning={"effort": "none"})
    assert body["thinking"] == {"type": "disabled"}
    assert "reasoning_effort" not in body


def test_nothing_asked_leaves_thinking_to_the_model() -> None:
    body = asked(PROVIDER)
    assert body.keys() == {"model", "messages"}


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "get_weather"}])
def test_a_forced_call_is_made_without_thinking(choice: Any) -> None:
    body = asked(PROVIDER, tools=[TOOL], tool_choice=choice, reasoning={"effort": "high"})
    assert body["thinking"] == {"type": "disabled"}
    assert "reasoning_effort" not in body
    assert body["tool_choice"] not in ("auto", "none")


@pytest.mark.parametrize(("choice", "sent"), [("auto", None), ("none", "none")])
def test_a_free_choice_lets_it_think(choice: str, sent: str | None) -> None:
    body = asked(PROVIDER, tools=[TOOL], tool_choice=choice, reasoning={"effort": "high"})
    assert body["thinking"] == {"type": "enabled"}
    assert body.get("tool_choice") == sent


def test_sampling_is_sent_only_where_it_has_an_effect() -> None:
    assert asked(PROVIDER, reasoning={"effort": "none"}, **SAMPLING).items() >= SAMPLING.items()
    for effort in (None, "low"):
        body = asked(PROVIDER, reasoning={"effort": effort}, **SAMPLING)
        assert body.keys().isdisjoint(SAMPLING)


def test_what_thinking_costs_is_told() -> None:
    plan = planned(PROVIDER, reasoning={"effort": "low"}, **SAMPLING)
    assert {diagnostic.param for diagnostic in plan.diagnostics} == SAMPLING.keys()
    forced = planned(PROVIDER, tools=[TOOL], tool_choice="required", reasoning={"effort": "low"})
    assert [diagnostic.code for diagnostic in forced.diagnostics] == ["effort.degraded"]


def test_reasoning_goes_back_with_its_calls_be_it_empty() -> None:
    remembered = asked(PROVIDER, input=CALLED, tools=[TOOL])["messages"][1]
    assert remembered["reasoning_content"] == "Let me look."
    forgotten = asked(PROVIDER, input=[CALLED[0], *CALLED[2:]], tools=[TOOL])["messages"][1]
    assert forgotten["reasoning_content"] == ""


def test_a_user_is_told_by_the_vendors_field() -> None:
    assert asked(PROVIDER, user="alice")["user_id"] == "alice"


@pytest.mark.parametrize(
    ("model", "sees"),
    [("deepseek-v4-pro", False), ("deepseek-flash", True), ("deepseek-v4-flash", True)],
)
def test_only_the_flash_models_see(model: str, sees: bool) -> None:
    assert ("image" in PROVIDER.capabilities(model).inputs) is sees
