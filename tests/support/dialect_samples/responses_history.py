"""Histories for tests of Responses API requests, and the requests that they are encoded as."""

from __future__ import annotations

import json
from typing import Any

from antiphon.core.deltas import ReasoningState
from antiphon.core.history.steps import Step
from antiphon.core.items import Document
from antiphon.core.plan.plan import Plan
from antiphon.dialects.responses.encode import encode
from antiphon.dialects.responses.items import SCHEME
from antiphon.dialects.responses.quirks import PLAIN, ResponsesQuirks
from tests.support.dialect_samples.history import message_step
from tests.support.request_validators.responses import problems

IN_PLAIN = ResponsesQuirks(plain_reasoning=True, sealed_reasoning=False)


def encrypted_state(item_id: str = "rs_1", blob: str = "gAAA", **fields: Any) -> ReasoningState:
    value = {"id": item_id, "summary": [], "encrypted_content": blob, **fields}
    return ReasoningState(SCHEME, value, "block")


def body(
    *history: Step, quirks: ResponsesQuirks = PLAIN, stream: bool = False, **fields: Any
) -> Document:
    plan = Plan(provider="p", model="m", history=history or (message_step("user", "hi"),), **fields)
    found = encode(plan, stream=stream, quirks=quirks).body
    if quirks.patch is None and not quirks.trailing_reasoning:
        assert problems(found, plain_reasoning=quirks.plain_reasoning) == []
    decoded: Document = json.loads(found)
    return decoded


def items(*history: Step, **fields: Any) -> list[Document]:
    found: list[Document] = body(*history, **fields)["input"]
    return found
