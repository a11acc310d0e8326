"""Anthropic recordings: citations, server-side tools, signed thinking."""

from __future__ import annotations

import json

import pytest

from antiphon.core.deltas import Extra, Failure
from antiphon.core.plan.plan import Plan
from antiphon.dialects.anthropic.encode import encode
from antiphon.dialects.anthropic.quirks import AnthropicQuirks
from tests.support.corpus import ABSENT, Case, cases
from tests.support.recordings import Document, answers, deltas_of, every, history_of, parts_of
from tests.support.reference_readers.anthropic import read
from tests.support.request_validators.anthropic import problems

CASES = cases("anthropic")
OWN = {"text", "thinking", "redacted_thinking", "tool_use"}

pytestmark = pytest.mark.skipif(not CASES, reason=ABSENT)


@every(answers(CASES))
def test_web_citations_annotate_their_passage(case: Case) -> None:
    marked = [
        (note["url"], part["text"][note["start_index"] : note["end_index"]])
        for part in parts_of(case)
        for note in part["annotations"]
    ]
    assert marked == [
        (citation["url"], block["text"])
        for block in read(case.data).of("text")
        for citation in block.get("citations") or []
        if "url" in citation
    ]


@every(CASES)
def test_server_side_tools_are_kept_for_the_trace(case: Case) -> None:
    recorded, deltas = read(case.data), deltas_of(case)
    kept = [delta.kind for delta in deltas if isinstance(delta, Extra)]
    for kind in {block["type"] for block in recorded.blocks} - OWN:
        assert kept.count(kind) == len(recorded.of(kind))
    assert any(isinstance(delta, Failure) for delta in deltas) == recorded.error


@every(answers(CASES))
def test_reasoning_is_replayed_byte_for_byte_in_its_position(case: Case) -> None:
    plan = Plan(provider="p", model="m", history=history_of(case))
    body = encode(plan, stream=True, quirks=AnthropicQuirks(thinking="adaptive")).body
    assert problems(body) == []
    sent = json.loads(body)["messages"][1]["content"]
    native = [block for block in read(case.data).blocks if block["type"] in OWN - {"text"}]
    kept = [block for block in sent if block["type"] != "text"]
    assert [_plain(block) for block in kept] == [_plain(block) for block in native]
    for block in read(case.data).of("thinking", "redacted_thinking"):
        assert json.dumps(block, ensure_ascii=False, separators=(",", ":")).encode() in body


def _plain(block: Document) -> Document:
    """Without `caller`, which is not part of a replayed call."""
    return {name: value for name, value in block.items() if name != "caller"}


def test_the_corpus_covers_every_case() -> None:
    """A guard against a corpus that has shrunk until it proves nothing."""
    recorded = [read(case.data) for case in CASES]
    assert any(each.citations() for each in recorded)
    assert any(each.stop == "pause_turn" for each in recorded)
    assert any(b["signature"] and not b["thinking"] for e in recorded for b in e.of("thinking"))
    assert any(each.error for each in recorded)
