"""Steps of a history, for tests of encoded requests."""

from __future__ import annotations

from antiphon.core.history.steps import MessageStep, Role, TextPart, ToolCallStep, ToolResultStep


def message_step(role: Role, *texts: str) -> MessageStep:
    return MessageStep(role, tuple(map(TextPart, texts)))


def call(call_id: str = "a", arguments: str = "{}") -> ToolCallStep:
    return ToolCallStep(call_id, "look", arguments)


def answer(call_id: str, *texts: str) -> ToolResultStep:
    return ToolResultStep(call_id, tuple(map(TextPart, texts or ("1",))), "look")
