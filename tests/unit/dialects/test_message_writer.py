"""Shared parts of writing a history as alternating messages."""

from __future__ import annotations

import pytest

from antiphon.core.history.steps import ImagePart, MessageStep, Part, RefusalPart, Step, TextPart
from antiphon.core.items import Document
from antiphon.dialects.message_writer import (
    join_text,
    leading_instructions,
    resumes_without_reasoning,
)


def message(role: str, *blocks: str) -> Document:
    return {"role": role, "content": [{"type": block} for block in blocks]}


def test_only_text_and_refusals_are_joined() -> None:
    parts: list[Part] = [TextPart("a"), ImagePart("https://x.test/1.png"), RefusalPart("b")]
    assert join_text(parts, "\n") == "a\nb"


def test_only_instructions_before_the_first_other_step_are_leading() -> None:
    history: list[Step] = [
        MessageStep("system", (TextPart("a"), TextPart("b"))),
        MessageStep("developer", (TextPart("c"),)),
        MessageStep("user", (TextPart("hi"),)),
        MessageStep("system", (TextPart("d"),)),
    ]
    assert leading_instructions(history) == ["a\nb", "c"]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([message("user", "text")], False),
        ([message("user", "text"), message("assistant", "call"), message("user", "result")], True),
        (
            [
                message("user", "text"),
                message("assistant", "reasoning", "call"),
                message("user", "result"),
            ],
            False,
        ),
        (  # the turn began two rounds earlier
            [
                message("user", "text"),
                message("assistant", "reasoning", "call"),
                message("user", "result"),
                message("assistant", "call"),
                message("user", "result", "result"),
            ],
            False,
        ),
    ],
)
def test_a_turn_resumes_without_reasoning_if_it_began_without(
    messages: list[Document], expected: bool
) -> None:
    resumes = resumes_without_reasoning(
        messages,
        is_result=lambda block: block["type"] == "result",
        is_reasoning=lambda block: block["type"] == "reasoning",
    )
    assert resumes is expected
