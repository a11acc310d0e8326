"""Ollama recordings: calls and reasoning are replayed as plain fields."""

from __future__ import annotations

import json

import pytest

from antiphon.core.plan.plan import Plan
from antiphon.dialects.ollama.encode import encode
from tests.support.corpus import ABSENT, Case, cases
from tests.support.recordings import answers, every, history_of
from tests.support.reference_readers.ollama import read
from tests.support.request_validators.ollama import problems

CASES = cases("ollama")

pytestmark = pytest.mark.skipif(not CASES, reason=ABSENT)


@every(answers(CASES))
def test_an_answer_is_replayed_as_it_was_received(case: Case) -> None:
    plan = Plan(provider="p", model="m", history=history_of(case), replay_reasoning="always")
    body = encode(plan, stream=True).body
    assert problems(body) == []
    sent, found = json.loads(body)["messages"][1], read(case.data)
    assert (sent["content"], sent.get("thinking", "")) == (
        found.text("text"),
        found.text("reasoning"),
    )
    calls = [(call["id"], call["function"]) for call in sent.get("tool_calls", [])]
    assert calls == [
        (block.call_id, {"name": block.name, "arguments": block.given})
        for block in found.output
        if block.kind == "call"
    ]


def test_the_corpus_covers_every_case() -> None:
    """A guard against a corpus that has shrunk until it proves nothing."""
    assert {case.meta["operation"] for case in CASES} >= {"chat", "generate"}
