"""Histories for tests of Ollama requests, and the requests that they are encoded as."""

from __future__ import annotations

import json
from typing import Any

from antiphon.core.history.steps import Step
from antiphon.core.items import Document
from antiphon.core.plan.plan import Plan
from antiphon.dialects.ollama.encode import encode
from antiphon.dialects.ollama.quirks import PLAIN, OllamaQuirks
from tests.support.dialect_samples.history import message_step
from tests.support.request_validators.ollama import problems


def body(*history: Step, quirks: OllamaQuirks = PLAIN, **fields: Any) -> Document:
    """Encode a history (by default one user message), check the request and return its body."""
    plan = Plan(provider="p", model="m", history=history or (message_step("user", "hi"),), **fields)
    encoded = encode(plan, stream=False, quirks=quirks).body
    assert problems(encoded) == []
    decoded: Document = json.loads(encoded)
    return decoded


def messages(*history: Step, **fields: Any) -> list[Document]:
    found: list[Document] = body(*history, **fields)["messages"]
    return found
