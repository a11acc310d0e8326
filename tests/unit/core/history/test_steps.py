"""Steps of the history: which of them belong to an assistant's turn."""

from __future__ import annotations

from antiphon.core.history.steps import (
    MessageStep,
    ReasoningStep,
    Step,
    TextPart,
    ToolCallStep,
    ToolResultStep,
    is_own,
)
from tests.support.tables import table

TEXT = (TextPart("hello"),)


@table(
    ("step", "expected"),
    [
        (MessageStep("assistant", TEXT), True),
        (ReasoningStep(text="Let me see."), True),
        (ToolCallStep("call_1", "read", "{}"), True),
        (MessageStep("user", TEXT), False),
        (MessageStep("system", TEXT), False),
        (MessageStep("developer", TEXT), False),
        (ToolResultStep("call_1", TEXT), False),
    ],
)
def test_messages_reasoning_and_calls_of_the_assistant_are_its_own(
    step: Step, *, expected: bool
) -> None:
    assert is_own(step) is expected
