"""A replayed answer has the items that carry state: their content is not the gateway's."""

from __future__ import annotations

import json
from typing import Any

from antiphon.library.translator import SEALED, ReplayTranslator, Translator

CALL = {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "c2ln"}
SAID = {"candidates": [{"content": {"parts": [CALL]}, "finishReason": "STOP"}]}
TOOL = {"type": "function", "name": "look", "parameters": {}, "strict": False}


def translate(kind: type[Translator]) -> list[dict[str, Any]]:
    request = {"model": "m", "input": "Hi", "tools": [TOOL]}
    events = kind(request, provider="gemini").feed_whole(json.dumps(SAID).encode())
    output: list[dict[str, Any]] = events[-1]["response"]["output"]
    return output


def test_state_has_its_item() -> None:
    reasoning, call = translate(ReplayTranslator)
    assert (reasoning["type"], reasoning["encrypted_content"]) == ("reasoning", SEALED)
    assert call["type"] == "function_call"


def test_other_translators_drop_state() -> None:
    assert [item["type"] for item in translate(Translator)] == ["function_call"]
