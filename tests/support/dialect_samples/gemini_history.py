"""Histories for tests of Gemini requests, and the turns that they are encoded as."""

from __future__ import annotations

import json
from typing import Any

from antiphon.core.history.steps import Part, Step, TextPart, ToolResultStep
from antiphon.core.items import Document
from antiphon.core.plan.plan import Plan
from antiphon.dialects.gemini.encode import encode
from antiphon.dialects.gemini.quirks import PLAIN, GeminiQuirks
from tests.support.request_validators.gemini import problems


def answer(call_id: str, *parts: str | Part) -> ToolResultStep:
    found = tuple(TextPart(part) if isinstance(part, str) else part for part in parts)
    return ToolResultStep(call_id, found, "look")


def turns(*history: Step, quirks: GeminiQuirks = PLAIN, **fields: Any) -> list[Document]:
    plan = Plan(provider="p", model="m", history=history, **fields)
    found = encode(plan, stream=False, quirks=quirks).body
    assert problems(found, signed=quirks.sentinel) == []
    decoded: list[Document] = json.loads(found)["contents"]
    return decoded
