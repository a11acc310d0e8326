"""Drafts of a structured answer: the valid value in them, and the steps that ask for another."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from antiphon.core.history.steps import MessageStep, TextPart, ToolCallStep, ToolResultStep
from antiphon.core.structured_output.contract import OutputContract
from antiphon.core.structured_output.repair import (
    AnswerDraft,
    ask_for_correction,
    find_valid_answers,
)
from tests.support.tables import table

SCHEMA: dict[str, Any] = {"type": "object", "required": ["city"]}
CONTRACT = OutputContract(requested="json_schema", name="trip", schema=SCHEMA, strict=True)
BY_TOOL = structs.replace(CONTRACT, tool="answer_trip")
WRAPPED = structs.replace(BY_TOOL, wrapped=True, schema={"type": "array"})
ULM, BONN = '{"city": "Ulm"}', '{"city": "Bonn"}'


@table(
    ("contract", "texts", "valid"),
    [
        (CONTRACT, [ULM], [ULM]),
        (CONTRACT, [f"Here: {ULM}"], [ULM]),
        (CONTRACT, [f"{ULM} or {BONN}"], [ULM, BONN]),
        (CONTRACT, [f"{ULM}, again {ULM}"], [ULM]),
        (CONTRACT, ["{}"], []),
        (BY_TOOL, [ULM, BONN, ULM], [ULM, BONN]),
        (WRAPPED, ['{"value": [1]}'], ["[1]"]),
        (WRAPPED, ['{"value": 1}', "[2]"], ["[2]"]),
    ],
)
def test_every_different_valid_value_is_found(
    contract: OutputContract, texts: list[str], valid: list[str]
) -> None:
    assert find_valid_answers(contract, [AnswerDraft(text) for text in texts]) == valid


def text_of(step: object) -> str:
    assert isinstance(step, MessageStep | ToolResultStep)
    [part] = step.parts
    assert isinstance(part, TextPart)
    return part.text


def test_a_text_is_repeated_and_the_reasons_are_a_user_message() -> None:
    said, reasons = ask_for_correction(CONTRACT, [AnswerDraft("{}")])
    assert said == MessageStep("assistant", (TextPart("{}"),))
    assert isinstance(reasons, MessageStep)
    assert reasons.role == "user"
    assert '"city" is a required property (required)' in text_of(reasons)


def test_every_call_of_the_answer_tool_gets_the_reasons_as_its_output() -> None:
    drafts = [AnswerDraft(ULM, "call_0"), AnswerDraft(BONN, "call_1")]
    *calls, first, second = ask_for_correction(BY_TOOL, drafts)
    assert calls == [
        ToolCallStep("call_0", "answer_trip", ULM),
        ToolCallStep("call_1", "answer_trip", BONN),
    ]
    assert text_of(first) == text_of(second)
    assert "several JSON values" in text_of(first)
