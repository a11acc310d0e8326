"""The length of the text of a request: what a model reads, and nothing of the JSON around it."""

from __future__ import annotations

from antiphon.core.capabilities import ReplayReasoning
from antiphon.core.history.steps import (
    ImagePart,
    MessageStep,
    ReasoningStep,
    RefusalPart,
    TextPart,
    ToolCallStep,
    ToolResultStep,
)
from antiphon.core.plan.measure_input import measure_input
from antiphon.core.plan.plan import Plan
from antiphon.core.tools.declaration import ToolDeclaration
from tests.support.tables import table

HISTORY = (
    MessageStep("user", (TextPart("1234"), ImagePart("data:image/png;base64," + "A" * 1000))),
    ReasoningStep("12345678"),
    MessageStep("assistant", (RefusalPart("12"),)),
    ToolCallStep("call_1", "look", "{}"),
    ToolResultStep("call_1", (TextPart("é"),)),
)


@table(("replay", "length"), [("never", 14), ("always", 22)])
def test_the_history_counts_by_its_text(replay: ReplayReasoning, length: int) -> None:
    plan = Plan(provider="p", model="m", history=HISTORY, replay_reasoning=replay)
    assert measure_input(plan) == length


@table("text", ["a" * 100_000, "é" * 100_000, "a" * 65_535 + "😀", "😀" * 65_537])
def test_a_long_text_counts_by_its_bytes(text: str) -> None:
    plan = Plan(provider="p", model="m", instructions=text)
    assert measure_input(plan) == len(text.encode())


def test_what_was_measured_before_is_not_measured_again() -> None:
    plan = Plan(provider="p", model="m", instructions="12345", input_bytes=7)
    assert measure_input(plan) == 7


def test_instructions_and_tools_count() -> None:
    tools = (
        ToolDeclaration(name="look", description="Looks.", parameters={"type": "object"}),
        ToolDeclaration(name="list"),
    )
    plan = Plan(provider="p", model="m", instructions="12345", declarations=tools)
    assert measure_input(plan) == 5 + len('lookLooks.{"type":"object"}') + len("list{}")
