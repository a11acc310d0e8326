"""Steps of a history, for tests of encoded requests."""

from __future__ import annotations

from antiphon.core.history.steps import Answered, Called, Role, Said, TextPart


def said(role: Role, *texts: str) -> Said:
    return Said(role, tuple(map(TextPart, texts)))


def call(call_id: str = "a", arguments: str = "{}") -> Called:
    return Called(call_id, "look", arguments)


def answer(call_id: str, *texts: str) -> Answered:
    return Answered(call_id, tuple(map(TextPart, texts or ("1",))), "look")
