"""Cohere recordings: tool plans, and citations without a URL."""

from __future__ import annotations

import json

import pytest

from antiphon.core.deltas import Extra
from antiphon.core.plan.plan import Plan
from antiphon.dialects.cohere.encode import encode
from tests.support.corpus import ABSENT, Case, cases
from tests.support.recordings import answers, deltas_of, every, history_of
from tests.support.reference_readers.cohere import read
from tests.support.request_validators.cohere import problems

ANSWERS = answers(cases("cohere"))

pytestmark = pytest.mark.skipif(not ANSWERS, reason=ABSENT)


@every(ANSWERS)
def test_citations_without_a_url_are_kept_for_the_trace(case: Case) -> None:
    kept = [delta.kind for delta in deltas_of(case) if isinstance(delta, Extra)]
    assert kept == ["citation"] * read(case.data).citations


@every(ANSWERS)
def test_an_answer_is_replayed_as_it_was_received(case: Case) -> None:
    plan = Plan(provider="p", model="m", history=history_of(case), replay_reasoning="always")
    body = encode(plan, stream=True).body
    assert problems(body) == []
    sent, found = json.loads(body)["messages"][1], read(case.data)
    assert sent.get("tool_plan", "") == found.plan
    assert sent.get("tool_calls", []) == [*found.calls.values()]
    blocks = [*found.blocks.values()]
    thinks = any("thinking" in block for block in blocks)
    assert sent.get("content", []) == (blocks if thinks else found.text("text") or [])


def test_the_corpus_covers_every_case() -> None:
    """A guard against a corpus that has shrunk until it proves nothing."""
    found = [read(case.data) for case in ANSWERS]
    assert any(each.plan for each in found)
    assert any(each.citations for each in found)
